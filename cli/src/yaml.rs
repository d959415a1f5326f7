//! Values as YAML. Strings are always quoted, so that escapes of what they hide parse to the same text.

use openskill_log::text::is_hidden;
use serde_json::Value;

/// One document, with a line end.
pub(crate) fn yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Array(items) if !items.is_empty() => sequence(items, 0, &mut out),
        Value::Object(fields) if !fields.is_empty() => mapping(fields, 0, &mut out),
        _ => {
            scalar(value, &mut out);
            out.push('\n');
        }
    }
    out
}

fn sequence(items: &[Value], indent: usize, out: &mut String) {
    for (number, item) in items.iter().enumerate() {
        pad(number > 0, indent, out);
        out.push_str("- ");
        match item {
            Value::Array(inner) if !inner.is_empty() => sequence(inner, indent + 2, out),
            Value::Object(fields) if !fields.is_empty() => mapping(fields, indent + 2, out),
            _ => {
                scalar(item, out);
                out.push('\n');
            }
        }
    }
}

fn mapping(fields: &serde_json::Map<String, Value>, indent: usize, out: &mut String) {
    for (number, (key, value)) in fields.iter().enumerate() {
        pad(number > 0, indent, out);
        if is_plain(key) {
            out.push_str(key)
        } else {
            quoted(key, out)
        }
        out.push(':');
        match value {
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                pad(true, indent + 2, out);
                sequence(items, indent + 2, out);
            }
            Value::Object(inner) if !inner.is_empty() => {
                out.push('\n');
                pad(true, indent + 2, out);
                mapping(inner, indent + 2, out);
            }
            _ => {
                out.push(' ');
                scalar(value, out);
                out.push('\n');
            }
        }
    }
}

/// The first entry of a block stands where its parent left off.
fn pad(is_needed: bool, indent: usize, out: &mut String) {
    if is_needed {
        out.extend(std::iter::repeat_n(' ', indent));
    }
}

fn scalar(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => quoted(text, out),
        other => out.push_str(&other.to_string()),
    }
}

/// Whether a key can do without quotes in every version of YAML.
fn is_plain(key: &str) -> bool {
    let is_word = key.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    let is_special = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    is_word
        && key.starts_with(|it: char| it.is_ascii_alphabetic())
        && !is_special.contains(&key.to_ascii_lowercase().as_str())
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // Unlike JSON, YAML has no surrogates.
            hidden if is_hidden(hidden) && u32::from(hidden) > 0xffff => {
                out.push_str(&format!("\\U{:08x}", u32::from(hidden)));
            }
            hidden if is_hidden(hidden) => out.push_str(&format!("\\u{:04x}", u32::from(hidden))),
            seen => out.push(seen),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_of_objects_is_in_block_style() {
        let value = json!([{"id": "echo", "count": 1, "tags": ["a", ["b"]], "of": {"x": null, "no": {}}}, {"id": "b"}]);
        let expected = "- id: \"echo\"\n  count: 1\n  tags:\n    - \"a\"\n    - - \"b\"\n  of:\n    x: null\n    \"no\": {}\n- id: \"b\"\n";
        assert_eq!(yaml(&value), expected);
    }

    #[test]
    fn every_value_parses_to_itself_and_shows_what_it_hides() {
        let hostile = "a\"\\ \n\t\u{202e}\u{1b}[2J\u{85}\u{e0041}\u{7f} 日本 - # : yes";
        let value = json!({
            hostile: [hostile, "", "null", "12", "- x", {"yes": true, "1": 1.5, "deep": [[], [{}], {"a": [1, {"b": 2}]}]}],
            "number": -1.5e300, "none": null, "empty": [], "text": "plain words",
        });
        let text = yaml(&value);
        assert!(!text.contains(|it| is_hidden(it) && it != '\n'), "{text}");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), value, "{text}");
        for value in [json!("x"), json!(5), json!([]), json!({}), json!(null)] {
            assert_eq!(serde_saphyr::from_str::<Value>(&yaml(&value)).unwrap(), value);
        }
    }
}
