//! Schemas and values in a few words.

use serde_json::Value;

use crate::arguments::schema::resolved;

/// How deep a description goes into lists and choices.
const MAX_DEPTH: usize = 3;

/// How many choices are named.
const MAX_CHOICES: usize = 12;

/// A value, short.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() > 60 => {
            Value::from(text.chars().take(60).chain(['…']).collect::<String>()).to_string()
        }
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Object(fields) => format!("an object with {} keys", fields.len()),
        other => other.to_string(),
    }
}

/// What a schema asks for, as the end of "it must be".
pub(super) fn describe(root: &Value, schema: &Value) -> String {
    describe_at(root, schema, 0)
}

fn describe_at(root: &Value, schema: &Value, depth: usize) -> String {
    let schema = resolved(root, schema);
    if depth > MAX_DEPTH {
        return "a value".to_owned();
    }
    if let Some(only) = schema.get("const") {
        return shown(only);
    }
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        let named: Vec<_> = options.iter().take(MAX_CHOICES).map(shown).collect();
        let more = if options.len() > MAX_CHOICES { ", …" } else { "" };
        return format!("one of {}{more}", named.join(", "));
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(choices) = schema.get(keyword).and_then(Value::as_array) {
            let mut named: Vec<_> =
                choices.iter().take(MAX_CHOICES).map(|it| describe_at(root, it, depth + 1)).collect();
            named.dedup();
            return named.join(" or ");
        }
    }
    match schema.get("type") {
        Some(Value::String(one)) => typed(root, schema, one, depth),
        Some(Value::Array(several)) => {
            let named: Vec<_> =
                several.iter().filter_map(Value::as_str).map(|it| typed(root, schema, it, depth)).collect();
            named.join(" or ")
        }
        _ => "a value that fits the schema".to_owned(),
    }
}

fn typed(root: &Value, schema: &Value, kind: &str, depth: usize) -> String {
    match kind {
        "string" => format!("a string{}", of_string(schema)),
        "integer" => format!("an integer{}", of_number(schema)),
        "number" => format!("a number{}", of_number(schema)),
        "boolean" => "true or false".to_owned(),
        "array" => format!("an array{}", of_array(root, schema, depth)),
        "object" => format!("an object{}", of_object(schema)),
        other => other.to_owned(),
    }
}

fn of_string(schema: &Value) -> String {
    let mut parts = Vec::new();
    if let Some(format) = schema.get("format").and_then(Value::as_str) {
        parts.push(format!(" ({format})"));
    }
    if let Some(range) = range(schema, "minLength", "maxLength") {
        parts.push(if range == "at least 1" { ", not empty".to_owned() } else { format!(" of {range} characters") });
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        parts.push(format!(" that matches {}", pattern.chars().take(80).collect::<String>()));
    }
    parts.concat()
}

fn of_number(schema: &Value) -> String {
    let bounds =
        [("minimum", "at least"), ("exclusiveMinimum", "above"), ("maximum", "at most"), ("exclusiveMaximum", "below")];
    let named: Vec<_> =
        bounds.iter().filter_map(|(keyword, word)| Some(format!("{word} {}", schema.get(*keyword)?))).collect();
    let multiple = schema.get("multipleOf").map(|it| format!(", a multiple of {it}")).unwrap_or_default();
    let bounds = if named.is_empty() { String::new() } else { format!(", {}", named.join(" and ")) };
    bounds + &multiple
}

fn of_array(root: &Value, schema: &Value, depth: usize) -> String {
    let items = schema.get("items").filter(|it| it.is_object()).map(|it| resolved(root, it));
    let kind = items.and_then(|it| it.get("type")).and_then(Value::as_str);
    let plain = items.is_some_and(|it| it.get("enum").is_none());
    let of = match (kind, items) {
        (Some("string"), _) if plain => " of strings".to_owned(),
        (Some("integer"), _) if plain => " of integers".to_owned(),
        (Some("number"), _) if plain => " of numbers".to_owned(),
        (Some("boolean"), _) if plain => " of true or false".to_owned(),
        (_, Some(items)) => format!(", each {}", describe_at(root, items, depth + 1)),
        _ => String::new(),
    };
    let count = range(schema, "minItems", "maxItems").map(|it| format!(" with {it} items")).unwrap_or_default();
    of + &count
}

fn of_object(schema: &Value) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return String::new() };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|it| it.iter().any(|it| it.as_str() == Some(name)));
    let names: Vec<_> = properties
        .keys()
        .take(MAX_CHOICES)
        .map(|name| if is_required(name) { name.clone() } else { format!("{name}?") })
        .collect();
    if names.is_empty() { String::new() } else { format!(" {{{}}}", names.join(", ")) }
}

fn range(schema: &Value, low: &str, high: &str) -> Option<String> {
    match (schema.get(low).and_then(Value::as_u64), schema.get(high).and_then(Value::as_u64)) {
        (Some(low), Some(high)) if low == high => Some(format!("exactly {low}")),
        (Some(low), Some(high)) => Some(format!("{low} to {high}")),
        (Some(low), None) => Some(format!("at least {low}")),
        (None, Some(high)) => Some(format!("at most {high}")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_read_as_the_end_of_a_sentence() {
        for (schema, words) in [
            (json!({"type": "integer", "minimum": 1, "maximum": 10}), "an integer, at least 1 and at most 10"),
            (json!({"type": "string", "minLength": 1}), "a string, not empty"),
            (json!({"enum": ["a", 1, null]}), "one of \"a\", 1, null"),
            (json!({"type": "array", "items": {"type": "string"}}), "an array of strings"),
            (
                json!({"type": "array", "items": {"enum": ["x"]}, "minItems": 2}),
                "an array, each one of \"x\" with at least 2 items",
            ),
            (json!({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}), "a string (date) or null"),
            (json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]}), "an object {a, b?}"),
            (json!({"type": ["boolean", "null"]}), "true or false or null"),
            (json!({}), "a value that fits the schema"),
        ] {
            assert_eq!(describe(&schema, &schema), words);
        }
    }
}
