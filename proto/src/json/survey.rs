//! Determines the nesting depth and the number of values of a text in one pass over its bytes, without recursion
//! or allocation.

use super::strings::end_of_string;

/// The counts of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Survey {
    /// The number of values: scalars, arrays and objects. Keys do not count.
    pub values: usize,
    /// Whether the text outside of strings could be JSON. If not, a lenient parser may see different strings, and
    /// the number of values is a guess.
    pub is_plain: bool,
}

impl Survey {
    /// Counts the values of a text that is JSON or about to be parsed. Stops above `most` values.
    pub fn scan(text: &[u8], most: usize) -> Self {
        let mut survey = Self { values: 1, is_plain: true };
        // An opening bracket is followed by a first value or key, unless a closing bracket follows at once.
        let (mut at, mut opened) = (0, false);
        while let Some(byte) = text.get(at).filter(|_| survey.values <= most) {
            let begin = at;
            at += 1;
            if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                continue;
            }
            let is_first = std::mem::take(&mut opened) && !matches!(byte, b']' | b'}');
            survey.values += usize::from(is_first);
            match byte {
                b'"' => at = end_of_string(text, begin),
                b',' => survey.values += 1,
                b'[' | b'{' => opened = true,
                b'\'' | b'/' | b'#' => survey.is_plain = false,
                _ => {}
            }
        }
        survey
    }
}

/// Returns the nesting depth of arrays and objects: 0 for a scalar. It counts brackets outside of strings, so the
/// text should be valid JSON or about to be parsed.
pub fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut at) = (0_usize, 0, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at = end_of_string(text, at);
                continue;
            }
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    deepest
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(fields) => fields.values().map(count).sum(),
            _ => 0,
        }
    }

    #[test]
    fn only_brackets_outside_strings_count() {
        for (text, expected) in [("1", 0), ("{}", 1), (r#"{"a":[1,[2]]}"#, 3), (r#""[[[[""#, 0), (r#"["\"[[["]"#, 1)] {
            assert_eq!(depth(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn every_value_counts_once_however_the_text_is_written() {
        for text in [
            "1",
            "[]",
            "{ }",
            "[[], {}, [ ]]",
            r#" { "a" : [1, 2, {"b": null}], "c,[": "x,y\"],[" , "d": {} } "#,
            "[[[[1]]],[[]]]",
            r#"["\\", "[", ","]"#,
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(Survey::scan(text.as_bytes(), 1000), Survey { values: count(&value), is_plain: true }, "{text}");
        }
    }

    #[test]
    fn counting_stops_past_the_limit() {
        assert_eq!(Survey::scan("[1,".repeat(1000).as_bytes(), 10).values, 11);
    }

    #[test]
    fn text_that_only_a_lenient_reader_takes_is_noticed() {
        for text in ["{'a': 1}", "[1] // one", "# one\n[1]", "it's {\"a\": 1}"] {
            assert!(!Survey::scan(text.as_bytes(), 1000).is_plain, "{text}");
        }
        assert!(Survey::scan(br#"{"a": "it's // # /* "}"#, 1000).is_plain);
    }
}
