//! Where strings end, found without reading each byte of them.

use memchr::memchr2;

/// Where the string whose opening quote is at `begin` ends: after its closing quote, or at the end of the text.
pub fn end_of_string(text: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(next) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        match text[at + next] {
            b'"' => return at + next + 1,
            // An escape: whatever follows it is part of the string.
            _ => at += next + 2,
        }
    }
    text.len()
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
