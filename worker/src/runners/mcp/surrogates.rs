//! Replaces lone surrogates in JSON text. Pure.
//!
//! JSON can escape half of a surrogate pair, which is not a character. Programs that count UTF-16 units produce
//! such text when they cut an emoji in two.

use std::borrow::Cow;

/// The escape of U+FFFD, the replacement character.
const REPLACEMENT: &[u8] = b"\\ufffd";

/// Replaces each escaped lone surrogate in JSON text with U+FFFD.
pub(super) fn without_lone_surrogates(text: &[u8]) -> Cow<'_, [u8]> {
    let mut replaced = Cow::Borrowed(text);
    let mut at = 0;
    while let Some(found) = text[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        at += match (unit(&text[at..]), text.get(at + 6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                replaced.to_mut()[at..at + 6].copy_from_slice(REPLACEMENT);
                6
            }
            _ => 2,
        };
        at = at.min(text.len());
    }
    replaced
}

/// Parses the `\u` escape at the start of the text, if there is one, as a UTF-16 unit.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_pair_becomes_the_replacement_character() {
        for (text, expected) in [
            (r#""bad \ud83d end""#, r#""bad \ufffd end""#),
            (r#""\uDC79""#, r#""\ufffd""#),
            (r#""\ud83d\ud83d\udf79""#, r#""\ufffd\ud83d\udf79""#),
            (r#""\udf79\ud83d""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\udf79 \u00e9 \\ud83d \"""#, r#""\ud83d\udf79 \u00e9 \\ud83d \"""#),
            (r#""\ud83"#, r#""\ud83"#),
            (r"\", r"\"),
            ("\"\\ud8é\"", "\"\\ud8é\""),
        ] {
            assert_eq!(String::from_utf8_lossy(&without_lone_surrogates(text.as_bytes())), expected);
        }
    }
}
