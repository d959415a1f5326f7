//! Finds the tokens of a JSON text, so that parts can be replaced while the rest stays unchanged. Pure.

use std::borrow::Cow;
use std::ops::Range;

use openskill_proto::json::end_of_string;
use serde::de::IgnoredAny;

use super::escapes::unescape;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The start of an object or a list.
    Open,
    Close,
    /// A key, including its quotes.
    Key,
    /// A string, including its quotes.
    Text,
    /// A number, `true`, `false` or `null`.
    Scalar,
}

/// Iterates over tokens. Skips commas and colons.
#[derive(Debug, Clone)]
pub(crate) struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Tokens<'t> {
    /// Checks that the text is JSON. None if it is not.
    pub(crate) fn parse(text: &'t str) -> Option<Self> {
        serde_json::from_str::<IgnoredAny>(text).is_ok().then_some(Self { text, at: 0 })
    }

    /// Reads one complete value, including the content of an object or a list.
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

    /// Continues at `at`, which must be the end of a returned token.
    pub(super) fn seek(&mut self, at: usize) {
        self.at = at;
    }

    /// Unescapes a string token.
    pub(crate) fn decode(&self, place: &Range<usize>) -> Cow<'t, str> {
        let written = &self.text[place.start + 1..place.end - 1];
        unescape(written).map_or(Cow::Borrowed(written), |it| Cow::Owned(it.text))
    }

    fn skip(&mut self, is_skipped: impl Fn(u8) -> bool) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|it| !is_skipped(*it)).unwrap_or(rest.len());
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
            b'"' => {
                self.at = end_of_string(self.text.as_bytes(), start);
                let is_key = self.text[self.at..].trim_ascii_start().starts_with(':');
                if is_key { Kind::Key } else { Kind::Text }
            }
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
        let tokens: Vec<_> = Tokens::parse(text).unwrap().map(|(kind, place)| (kind, &text[place])).collect();
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
        let mut tokens = Tokens::parse(text).unwrap();
        tokens.next();
        assert_eq!(tokens.value().map(|it| &text[it]), Some(r#"{"a":[1,"]"]}"#));
        assert_eq!(tokens.value().map(|it| &text[it]), Some("2"));
    }

    #[test]
    fn deep_text_is_read_too() {
        let deep = "[".repeat(100_000) + "1" + &"]".repeat(100_000);
        assert_eq!(Tokens::parse(&deep).unwrap().count(), 200_001);
        assert_eq!(Tokens::parse(&deep).unwrap().value(), Some(0..deep.len()));
    }

    #[test]
    fn what_is_no_json_has_no_tokens() {
        for text in ["", "{'a': 1}", "{", "1 2", "\""] {
            assert!(Tokens::parse(text).is_none(), "{text}");
        }
    }
}
