//! Finds the ends of strings without examining each byte.

use memchr::memchr2;

/// Returns the end of the string whose opening quote is at `begin`: after its closing quote, or at the end of the
/// text.
pub fn end_of_string(text: &[u8], begin: usize) -> usize {
    end_of_content(text, begin + 1, b"\"").unwrap_or(text.len())
}

/// Returns the end of the string whose content begins at `content`: after its closing quote. `None` without a
/// closing quote.
pub(crate) fn end_of_content(text: &[u8], content: usize, closing: &[u8]) -> Option<usize> {
    let mut at = content;
    loop {
        at += memchr2(closing[0], b'\\', text.get(at..)?)?;
        if text[at..].starts_with(closing) {
            return Some(at + closing.len());
        }
        // Skip an escape: the character after the backslash is part of the string.
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_quote_ends_no_string() {
        for (text, end) in [(r#""" "#, 2), (r#""a\"b" "#, 6), (r#""a\\" "#, 5), (r#""a"#, 2), (r#""a\"#, 3), ("\"", 1)]
        {
            assert_eq!(end_of_string(text.as_bytes(), 0), end, "{text}");
        }
        assert_eq!(end_of_string(b"[\"a\", 1]", 1), 4);
    }
}
