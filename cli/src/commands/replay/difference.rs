//! How two JSON values differ.

use serde_json::Value;

use crate::commands::trace::recorded::is_redacted;

/// How many differences are listed.
const MAX: usize = 100;

/// The differences, each as the lines of a diff: JSON pointer and value. Values that were redacted are not compared.
pub(super) fn differences(before: &Value, after: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(Some(before), Some(after), "", &mut found);
    found
}

fn compare(before: Option<&Value>, after: Option<&Value>, path: &str, found: &mut Vec<String>) {
    if before == after || found.len() >= MAX {
        return;
    }
    match (before, after) {
        (Some(Value::String(text)), _) if is_redacted(text) => {}
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let added = other.keys().filter(|key| !one.contains_key(*key));
            for key in one.keys().chain(added) {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                compare(one.get(key), other.get(key), &path, found);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for index in 0..one.len().max(other.len()) {
                compare(one.get(index), other.get(index), &format!("{path}/{index}"), found);
            }
        }
        _ => {
            let line = |sign: char, value: Option<&Value>| {
                value.map_or(String::new(), |value| {
                    format!("{sign} {}: {value}\n", if path.is_empty() { "data" } else { path })
                })
            };
            found.push(line('-', before) + &line('+', after));
        }
    }
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
        assert_eq!(differences(&before, &after), expected);
        assert_eq!(differences(&json!(1), &json!("1")), ["- data: 1\n+ data: \"1\"\n"]);
        assert!(differences(&before, &before).is_empty());
    }
}
