//! Renders the properties of a schema as a table. Pure.

use serde_json::Value;

use crate::table::Table;

/// The maximum depth to which nested objects are listed.
const DEPTH: usize = 4;

/// Renders one row for each property. Returns an empty string if the schema has no properties. `room` is the width
/// of the terminal.
pub(super) fn parameters(schema: &Value, room: Option<usize>) -> String {
    let mut rows = Vec::new();
    properties(schema, "", DEPTH, &mut rows);
    if rows.is_empty() {
        return String::new();
    }
    // The table is indented by two.
    let room = room.map(|it| it.saturating_sub(2));
    Table::new(vec!["NAME", "TYPE", "REQUIRED", "DESCRIPTION"], Some(3), room).rows(rows)
}

fn properties(schema: &Value, prefix: &str, depth: usize, rows: &mut Vec<Vec<String>>) {
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{name}");
        let is_required = if required.iter().any(|it| it == name) { "yes" } else { "no" };
        rows.push(vec![path.clone(), type_name(property), is_required.to_owned(), describe_property(property)]);
        if depth > 0 {
            properties(property, &format!("{path}."), depth - 1, rows);
            properties(&property["items"], &format!("{path}[]."), depth - 1, rows);
        }
    }
}

/// Formats the type, such as `string` or `array of number`.
fn type_name(schema: &Value) -> String {
    let own = match &schema["type"] {
        Value::String(one) => one.clone(),
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ if schema.get("enum").is_some() || schema.get("const").is_some() => "one of".to_owned(),
        _ => "any".to_owned(),
    };
    match (own.as_str(), &schema["items"]["type"]) {
        ("array", Value::String(items)) => format!("array of {items}"),
        _ => own,
    }
}

/// Formats the description, the accepted values and the default.
fn describe_property(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let list = |values: &[Value]| values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
    let choices = schema["enum"].as_array().map(|values| format!("one of {}", list(values)));
    let default = schema.get("default").map(|value| format!("default {value}"));
    let parts = [Some(text).filter(|it| !it.is_empty()), choices, default];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_property_is_a_row_and_nested_ones_have_a_path() {
        let schema = json!({
            "required": ["numbers"],
            "properties": {
                "numbers": {"type": "array", "items": {"type": "number"}, "description": "The\n  numbers"},
                "how": {"enum": ["fast", 2], "default": "fast"},
                "rows": {"type": ["array", "null"], "items": {"properties": {"id": {"type": "integer"}}}},
            },
        });
        let expected = "\
NAME       TYPE             REQUIRED  DESCRIPTION
numbers    array of number  yes       The numbers
how        one of           no        one of \"fast\", 2; default \"fast\"
rows       array or null    no
rows[].id  integer          no
";
        assert_eq!(parameters(&schema, None), expected);
        assert_eq!(parameters(&json!({"type": "object"}), None), "");
    }
}
