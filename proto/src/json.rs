//! JSON text: how deep it nests, asked before it is parsed, and how values are written.

use serde::Serialize;

/// Writes plain data with string keys, which serializes without an error.
pub(crate) fn to_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// How deep arrays and objects nest: 0 for a scalar. It counts brackets outside strings, in one pass and without recursion,
/// so the text should be valid JSON or about to be parsed.
pub fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::depth;

    #[test]
    fn only_brackets_outside_strings_count() {
        for (text, expected) in [("1", 0), ("{}", 1), (r#"{"a":[1,[2]]}"#, 3), (r#""[[[[""#, 0), (r#"["\"[[["]"#, 1)] {
            assert_eq!(depth(text.as_bytes()), expected, "{text}");
        }
    }
}
