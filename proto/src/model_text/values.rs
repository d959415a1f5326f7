//! Where values and strings end, in JSON as lenient readers take it: with single quotes and comments.

use super::token::Kind;

/// A value at the beginning of a text, and its length.
pub(super) fn value(text: &str) -> (Option<Kind<'static>>, usize) {
    end_of_value(text).map_or((Some(Kind::Unclosed), text.len()), |end| (Some(Kind::Value), end))
}

/// Where brackets close. Each text that a lenient reader accepts ends there.
fn end_of_value(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return Some(at + 1),
            b'}' | b']' => depth -= 1,
            b'"' | b'\'' => {
                at = end_of_string(text, at + 1, &[*byte])?;
                continue;
            }
            b'/' | b'#' => {
                at += comment_length(&text[at..])?.max(1);
                continue;
            }
            // No reader takes an escape outside of strings: a value with one is itself in a string.
            b'\\' => return None,
            _ => {}
        }
        at += 1;
    }
    None
}

/// A string in prose at the beginning of a text, and its length.
pub(super) fn quoted(text: &str) -> (Option<Kind<'static>>, usize) {
    let quote = text.chars().next().unwrap_or_default();
    let closing = if quote == '\u{201c}' { "\u{201d}" } else { &text[..quote.len_utf8()] };
    let mut end = end_of_string(text, quote.len_utf8(), closing.as_bytes());
    // An apostrophe within a word ends no string.
    while let Some(at) = end.filter(|at| quote == '\'' && text[*at..].starts_with(char::is_alphanumeric)) {
        end = end_of_string(text, at, closing.as_bytes());
    }
    end.map_or((Some(Kind::Unclosed), text.len()), |end| (Some(Kind::Quoted), end))
}

/// Where a string ends whose content begins at a byte: after its closing quote.
fn end_of_string(text: &str, content: usize, closing: &[u8]) -> Option<usize> {
    let (bytes, mut at) = (text.as_bytes(), content);
    loop {
        at += memchr::memchr2(closing[0], b'\\', bytes.get(at..)?)?;
        if bytes[at..].starts_with(closing) {
            return Some(at + closing.len());
        }
        // An escape: whatever follows it is part of the string.
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
}

/// The length of the comment that a text begins with: 0 if it begins with none. None if the comment does not end.
pub fn comment_length(text: &str) -> Option<usize> {
    if let Some(comment) = text.strip_prefix("/*") {
        return comment.find("*/").map(|end| end + 4);
    }
    // `#13` may be a value; a comment has a space after its marker.
    let marker = ["//", "#"].iter().find_map(|marker| text.strip_prefix(marker));
    let is_comment = marker.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
    Some(if is_comment { text.find('\n').unwrap_or(text.len()) } else { 0 })
}
