//! Renders values as YAML. Strings are always quoted, so that escapes of hidden characters parse to the same text.

use openskill_telemetry::log::text::is_hidden;
use serde_json::Value;

/// Formats a value as one document that ends with a line break.
pub(crate) fn yaml(value: &Value) -> String {
    let mut out = String::new();
    write_value(value, 0, &mut out);
    out
}

/// Writes a value and a line break. The first entry of a block follows its parent on the same line, without
/// indentation.
fn write_value(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            for (number, item) in items.iter().enumerate() {
                pad(number > 0, indent, out);
                out.push_str("- ");
                write_value(item, indent + 2, out);
            }
        }
        Value::Object(fields) if !fields.is_empty() => {
            for (number, (key, value)) in fields.iter().enumerate() {
                pad(number > 0, indent, out);
                write_key(key, out);
                let is_block = value.as_array().is_some_and(|it| !it.is_empty())
                    || value.as_object().is_some_and(|it| !it.is_empty());
                out.push(if is_block { '\n' } else { ' ' });
                pad(is_block, indent + 2, out);
                write_value(value, indent + 2, out);
            }
        }
        Value::String(text) => {
            write_quoted(text, out);
            out.push('\n');
        }
        other => out.push_str(&format!("{other}\n")),
    }
}

fn pad(is_needed: bool, indent: usize, out: &mut String) {
    if is_needed {
        out.extend(std::iter::repeat_n(' ', indent));
    }
}

fn write_key(key: &str, out: &mut String) {
    if is_plain(key) {
        out.push_str(key);
    } else {
        write_quoted(key, out);
    }
    out.push(':');
}

/// Whether a key needs no quotes in any version of YAML.
fn is_plain(key: &str) -> bool {
    let is_word = key.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    let is_special = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    is_word
        && key.starts_with(|it: char| it.is_ascii_alphabetic())
        && !is_special.contains(&key.to_ascii_lowercase().as_str())
}

fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // Unlike JSON, YAML has no surrogate pairs.
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
