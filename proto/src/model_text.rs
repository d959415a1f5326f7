//! Splits a model's text into tokens: tags, code fences, reasoning, strings and JSON values.
//!
//! Models quote text from others. Everything in a string, in a value or in reasoning is part of that one token, so
//! a mark in it neither begins a call nor ends anything. The text between the tokens is prose.

mod fences;
mod token;
mod values;

pub use token::{Kind, Token};
pub use values::comment_length;

/// The maximum length of a tag name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Tags around a model's reasoning.
pub const REASONING_TAGS: [&str; 2] = ["think", "thinking"];

/// Splits a text into tokens in one pass.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut scanner, mut found) = (Scanner { text, at: 0, fence: None }, Vec::new());
    while let Some(token) = scanner.next() {
        found.push(match token.kind {
            Kind::Open(name) if REASONING_TAGS.contains(&name) => scanner.reasoning(token.begin, name),
            Kind::Close(name) if REASONING_TAGS.contains(&name) => Token { kind: Kind::ReasoningEnd, ..token },
            _ => token,
        });
    }
    found
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// The number of backticks that opened the current code block.
    fence: Option<usize>,
}

impl<'a> Scanner<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let begin = self.at + self.text[self.at..].find(['<', '`', '{', '[', '"', '\'', '\u{201c}'])?;
            let rest = &self.text[begin..];
            let (kind, length) = match rest.as_bytes()[0] {
                b'<' => tag(rest),
                b'`' => fences::fence(rest, &mut self.fence),
                b'{' => values::value(rest),
                b'[' if rest[1..].trim_start().starts_with('{') => values::value(rest),
                b'[' => (None, 1),
                b'\'' if self.text[..begin].ends_with(char::is_alphanumeric) => (None, 1),
                _ => values::quoted_string(rest),
            };
            self.at = begin + length;
            if let Some(kind) = kind {
                return Some(Token { kind, begin, end: self.at });
            }
        }
    }

    /// Reads reasoning, up to the first end mark outside of other tokens.
    fn reasoning(&mut self, begin: usize, name: &str) -> Token<'a> {
        let is_end = |token: &Token<'_>| token.kind == Kind::Close(name);
        let kind = match std::iter::from_fn(|| self.next()).find(is_end) {
            Some(_) => Kind::Reasoning,
            None => Kind::Unclosed,
        };
        self.fence = None;
        self.at = if kind == Kind::Unclosed { self.text.len() } else { self.at };
        Token { kind, begin, end: self.at }
    }
}

/// Classifies a text that begins with `<`. Returns its kind and the length of the token.
fn tag(text: &str) -> (Option<Kind<'_>>, usize) {
    let (rest, is_closing) = text[1..].strip_prefix('/').map_or((&text[1..], false), |rest| (rest, true));
    let name = rest.bytes().take(MAX_NAME_BYTES + 1).position(|it| it == b'>').and_then(|length| rest.get(..length));
    let is_plain = |name: &&str| {
        name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
            && name.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-.".contains(&it))
    };
    match name.filter(is_plain) {
        Some(name) if is_closing => (Some(Kind::Close(name)), name.len() + 3),
        Some(name) => (Some(Kind::Open(name)), name.len() + 2),
        None if text[1..].starts_with(|it: char| it.is_ascii_alphabetic() || matches!(it, '/' | '_' | '!' | '?')) => {
            (Some(Kind::Markup), 1)
        }
        None => (None, 1),
    }
}

#[cfg(test)]
mod tests;
