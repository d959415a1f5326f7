//! The tokens of a JSON text, by their places, so that parts can be replaced and the rest stays as it is. Pure.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::IgnoredAny;

use super::escapes::unescaped;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The begin or the end of an object or a list.
    Open,
    Close,
    /// A name, in its quotes.
    Key,
    /// A string, in its quotes.
    Text,
    /// A number, `true`, `false` or `null`.
    Scalar,
}

/// Reads tokens. Commas and colons are left out.
#[derive(Debug, Clone)]
pub(crate) struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Tokens<'t> {
    /// None if the text is no JSON.
    pub(crate) fn of(text: &'t str) -> Option<Self> {
        serde_json::from_str::<IgnoredAny>(text).is_ok().then_some(Self { text, at: 0 })
    }

    /// Reads one value, whole: an object or a list with all that is in it.
    pub(crate) fn value(&mut self) -> Option<Range<usize>> {
        let (mut kind, place) = self.next()?;
        let mut depth = 0_usize;
        loop {
            match kind {
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.saturating_sub(1),
                Kind::Key | Kind::Text | Kind::Scalar => {}
            }
            if depth == 0 {
                return Some(place.start..self.at);
            }
            (kind, _) = self.next()?;
        }
    }

    /// Goes on from a place, which is one of the ends that it told.
    pub(super) fn seek(&mut self, at: usize) {
        self.at = at;
    }

    /// What a string says.
    pub(crate) fn decoded(&self, place: &Range<usize>) -> Cow<'t, str> {
        let written = &self.text[place.start + 1..place.end - 1];
        unescaped(written).map_or(Cow::Borrowed(written), |it| Cow::Owned(it.text))
    }

    fn skip(&mut self, is_skipped: impl Fn(u8) -> bool) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|it| !is_skipped(*it)).unwrap_or(rest.len());
    }

    /// Reads up to the end of a string, behind its first quote.
    fn string(&mut self) -> Kind {
        loop {
            self.skip(|it| it != b'"' && it != b'\\');
            match self.text.as_bytes().get(self.at) {
                // What it escapes goes with it.
                Some(b'\\') => self.at = (self.at + 2).min(self.text.len()),
                Some(_) => break self.at += 1,
                None => break,
            }
        }
        let rest = self.text[self.at..].trim_ascii_start();
        if rest.starts_with(':') { Kind::Key } else { Kind::Text }
    }
}

impl Iterator for Tokens<'_> {
    type Item = (Kind, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        self.skip(|it| matches!(it, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':'));
        let start = self.at;
        let first = *self.text.as_bytes().get(start)?;
        self.at += 1;
        let kind = match first {
            b'{' | b'[' => Kind::Open,
            b'}' | b']' => Kind::Close,
            b'"' => self.string(),
            _ => {
                self.skip(|it| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'-' | b'.'));
                Kind::Scalar
            }
        };
        Some((kind, start..self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_told_by_kind_and_place() {
        let text = r#" {"a\"b" : [ -1.5e+3, "x,\\", {}, null ], "c":"d:"} "#;
        let tokens: Vec<_> = Tokens::of(text).unwrap().map(|(kind, place)| (kind, &text[place])).collect();
        let (open, close, key, is_text, scalar) = (Kind::Open, Kind::Close, Kind::Key, Kind::Text, Kind::Scalar);
        let expected = [
            (open, "{"),
            (key, r#""a\"b""#),
            (open, "["),
            (scalar, "-1.5e+3"),
            (is_text, r#""x,\\""#),
            (open, "{"),
            (close, "}"),
            (scalar, "null"),
            (close, "]"),
            (key, r#""c""#),
            (is_text, r#""d:""#),
            (close, "}"),
        ];
        assert_eq!(tokens, expected);
    }

    #[test]
    fn a_value_is_read_whole() {
        let text = r#"[{"a":[1,"]"]},2]"#;
        let mut tokens = Tokens::of(text).unwrap();
        tokens.next();
        assert_eq!(tokens.value().map(|it| &text[it]), Some(r#"{"a":[1,"]"]}"#));
        assert_eq!(tokens.value().map(|it| &text[it]), Some("2"));
    }

    #[test]
    fn deep_text_is_read_too() {
        let deep = "[".repeat(100_000) + "1" + &"]".repeat(100_000);
        assert_eq!(Tokens::of(&deep).unwrap().count(), 200_001);
        assert_eq!(Tokens::of(&deep).unwrap().value(), Some(0..deep.len()));
    }

    #[test]
    fn what_is_no_json_has_no_tokens() {
        for text in ["", "{'a': 1}", "{", "1 2", "\""] {
            assert!(Tokens::of(text).is_none(), "{text}");
        }
    }
}
