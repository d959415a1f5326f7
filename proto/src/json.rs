//! What both sides ask of JSON text before they parse it.

/// How deep arrays and objects nest: 0 for a scalar. Meant for text that is valid JSON or is about to be parsed: it
/// only counts brackets outside strings, in one pass and without recursion.
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
