//! Compares two JSON values.

use openskill_redact::Redactor;
use serde_json::Value;

use crate::commands::trace::recorded::is_redacted;

/// The maximum number of differences that are listed.
const MAX: usize = 100;

/// The differences between a result and the recorded one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    /// The differences as lines of a diff: JSON pointer and value.
    pub(super) lines: Vec<String>,
    /// The number of values that were redacted in the recording. Only the text around a mask is compared.
    pub(super) redacted: usize,
}

impl Differences {
    pub(super) fn between(before: &Value, after: &Value) -> Self {
        let mut found = Self::default();
        found.compare(Some(before), Some(after), "");
        found
    }

    fn compare(&mut self, before: Option<&Value>, after: Option<&Value>, path: &str) {
        if before == after || self.lines.len() >= MAX {
            return;
        }
        match (before, after) {
            (Some(Value::String(text)), Some(after)) if is_redacted(text) && may_be(text, after) => self.redacted += 1,
            (Some(Value::Object(one)), Some(Value::Object(other))) => {
                let added = other.keys().filter(|key| !one.contains_key(*key));
                for key in one.keys().chain(added) {
                    let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                    self.compare(one.get(key), other.get(key), &path);
                }
            }
            (Some(Value::Array(one)), Some(Value::Array(other))) => {
                for index in 0..one.len().max(other.len()) {
                    self.compare(one.get(index), other.get(index), &format!("{path}/{index}"));
                }
            }
            _ => {
                let line = |sign: char, value: Option<&Value>| {
                    value.map_or(String::new(), |value| {
                        format!("{sign} {}: {value}\n", if path.is_empty() { "data" } else { path })
                    })
                };
                self.lines.push(line('-', before) + &line('+', after));
            }
        }
    }
}

/// Whether `value` may be the value that was redacted: the text around each mask must match. A value that was
/// masked as a whole, or replaced by the hash of an id, matches anything except a list or an object.
fn may_be(redacted: &str, value: &Value) -> bool {
    let Value::String(text) = value else {
        let is_whole = redacted == Redactor::MASK || !redacted.contains(Redactor::MASK);
        return is_whole && !value.is_array() && !value.is_object();
    };
    let parts: Vec<&str> = redacted.split(Redactor::MASK).collect();
    let [start, middle @ .., end] = &parts[..] else { return true };
    let rest = text.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    rest.is_some_and(|rest| middle.iter().try_fold(rest, |rest, part| Some(rest.split_once(part)?.1)).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_difference_is_a_place_with_both_values() {
        let before = json!({"same": 1, "changed": [1, 2], "gone": true, "secret": "***"});
        let after = json!({"same": 1, "changed": [1, 3, 4], "new/key": null, "secret": "s3cret"});
        let expected =
            ["- /changed/1: 2\n+ /changed/1: 3\n", "+ /changed/2: 4\n", "- /gone: true\n", "+ /new~1key: null\n"];
        assert_eq!(
            Differences::between(&before, &after),
            Differences { lines: expected.map(str::to_owned).into(), redacted: 1 }
        );
        assert_eq!(Differences::between(&json!(1), &json!("1")).lines, ["- data: 1\n+ data: \"1\"\n"]);
        assert_eq!(Differences::between(&before, &before), Differences::default());
    }

    #[test]
    fn around_a_mask_the_text_is_compared() {
        let hash = format!("session_{}", "0a".repeat(16));
        for (before, after, is_same) in [
            ("token=*** for bob", json!("token=abc for bob"), true),
            ("token=*** for bob", json!("completely different"), false),
            ("*** and *** end", json!("one and two end"), true),
            ("*** and *** end", json!("one or two end"), false),
            ("a***a", json!("a"), false),
            ("***", json!(5), true),
            ("***", json!([5]), false),
            ("n=***", json!(5), false),
            (&hash, json!("abc"), true),
            (&hash, json!(5), true),
        ] {
            assert_eq!(Differences::between(&json!(before), &after).lines.is_empty(), is_same, "{before} {after}");
        }
    }
}
