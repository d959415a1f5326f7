//! Finds the ends of values and strings in JSON as lenient parsers accept it: with single quotes and comments.

use super::token::Kind;
use crate::json::end_of_content;

/// Reads a value at the beginning of a text. Returns its kind and length.
pub(super) fn value(text: &str) -> (Option<Kind<'static>>, usize) {
    end_of_value(text).map_or((Some(Kind::Unclosed), text.len()), |end| (Some(Kind::Value), end))
}

/// Returns the position where the brackets close. Every value that a lenient parser accepts ends there.
fn end_of_value(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return Some(at + 1),
            b'}' | b']' => depth -= 1,
            b'"' | b'\'' => {
                at = end_of_content(text.as_bytes(), at + 1, &[*byte])?;
                continue;
            }
            b'/' | b'#' => {
                at += comment_length(&text[at..])?.max(1);
                continue;
            }
            // No parser accepts an escape outside of strings. So a value with one must itself be in a string.
            b'\\' => return None,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Reads a string in prose at the beginning of a text. Returns its kind and length.
pub(super) fn quoted_string(text: &str) -> (Option<Kind<'static>>, usize) {
    let quote = text.chars().next().unwrap_or_default();
    let closing = if quote == '\u{201c}' { "\u{201d}" } else { &text[..quote.len_utf8()] };
    let mut end = end_of_content(text.as_bytes(), quote.len_utf8(), closing.as_bytes());
    // An apostrophe inside a word does not end a string.
    while let Some(at) = end.filter(|at| quote == '\'' && text[*at..].starts_with(char::is_alphanumeric)) {
        end = end_of_content(text.as_bytes(), at, closing.as_bytes());
    }
    end.map_or((Some(Kind::Unclosed), text.len()), |end| (Some(Kind::Quoted), end))
}

/// Returns the length of the comment at the beginning of a text: 0 without a comment, `None` for an unclosed
/// comment.
pub fn comment_length(text: &str) -> Option<usize> {
    if let Some(comment) = text.strip_prefix("/*") {
        return comment.find("*/").map(|end| end + 4);
    }
    // `#13` may be a value. The marker of a comment is followed by white space or the end of the text.
    let marker = ["//", "#"].iter().find_map(|marker| text.strip_prefix(marker));
    let is_comment = marker.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
    Some(if is_comment { text.find('\n').unwrap_or(text.len()) } else { 0 })
}
