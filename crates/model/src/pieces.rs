//! Text that arrives in pieces. A piece may end within a character, because servers that count in UTF-16 split
//! surrogate pairs, and JSON can represent each half. Does no I/O.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};

/// The content of a JSON string in WTF-8: UTF-8 that may contain unpaired surrogates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Piece(Vec<u8>);

impl Piece {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the content in UTF-16.
    fn units(&self) -> Vec<u16> {
        let (mut units, mut rest) = (Vec::with_capacity(self.0.len()), self.0.as_slice());
        let is_half = |it: &[u8]| it[0] == 0xED && it[1] >= 0xA0;
        while let Some(at) = rest.windows(3).position(is_half) {
            units.extend(String::from_utf8_lossy(&rest[..at]).encode_utf16());
            units.push(0xD000 | (u16::from(rest[at + 1] & 0x3F) << 6) | u16::from(rest[at + 2] & 0x3F));
            rest = &rest[at + 3..];
        }
        units.extend(String::from_utf8_lossy(rest).encode_utf16());
        units
    }

    /// Converts the content to text. Unpaired surrogates become U+FFFD.
    pub(crate) fn into_text(self) -> String {
        let mut joined = JoinedText::default();
        joined.push(&self);
        joined.end();
        joined.text
    }
}

impl From<&str> for Piece {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl<'de> Deserialize<'de> for Piece {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Piece;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Piece, E> {
                Ok(Piece(bytes.to_vec()))
            }
        }
        // `deserialize_str` would reject unpaired surrogates.
        deserializer.deserialize_bytes(Bytes)
    }
}

/// Text joined from pieces.
#[derive(Debug, Clone, Default)]
pub(crate) struct JoinedText {
    text: String,
    /// A high surrogate whose low surrogate may arrive with the next piece.
    half: Option<u16>,
    is_broken: bool,
}

impl JoinedText {
    /// Appends a piece. Returns the text that it completes.
    pub(crate) fn push(&mut self, piece: &Piece) -> &str {
        let from = self.text.len();
        let mut units: Vec<_> = self.half.take().into_iter().chain(piece.units()).collect();
        self.half = units.pop_if(|it| (0xD800..0xDC00).contains(it));
        for c in char::decode_utf16(units) {
            self.is_broken |= c.is_err();
            self.text.push(c.unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        &self.text[from..]
    }

    /// Ends the text and returns the added text: U+FFFD if a surrogate is still unpaired.
    pub(crate) fn end(&mut self) -> &str {
        let from = self.text.len();
        if self.half.take().is_some() {
            self.is_broken = true;
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        &self.text[from..]
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the text contains no unpaired surrogates.
    pub(crate) fn is_whole(&self) -> bool {
        self.half.is_none() && !self.is_broken
    }

    pub(crate) fn into_text(mut self) -> String {
        self.end();
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pieces: &[&str]) -> JoinedText {
        let mut joined = JoinedText::default();
        for piece in pieces {
            joined.push(&serde_json::from_str(piece).unwrap());
        }
        joined
    }

    #[test]
    fn halves_of_a_character_are_joined_and_a_lone_half_costs_no_other_text() {
        for pieces in [&[r#""a\ud83c""#, r#""\udf78b""#][..], &[r#""a\ud83c""#, r#""""#, r#""\udf78""#, r#""b""#]] {
            let joined = joined(pieces);
            assert_eq!((joined.as_str(), joined.is_whole()), ("a🍸b", true), "{pieces:?}");
        }
        for (pieces, text) in [
            (&[r#""a\ud83c""#][..], "a\u{fffd}"),
            (&[r#""a\udf78b""#], "a\u{fffd}b"),
            (&[r#""a\ud83c""#, r#""b\udf78""#], "a\u{fffd}b\u{fffd}"),
            (&[r#""\ud83c\ud83c""#, r#""\udf78é""#], "\u{fffd}🍸é"),
        ] {
            let joined = joined(pieces);
            assert!(!joined.is_whole());
            assert_eq!(joined.into_text(), text, "{pieces:?}");
        }
    }
}
