//! Describes schemas and values in short phrases.

use serde_json::Value;

use crate::arguments::schema::resolve;

/// The maximum depth to which a description follows arrays and `anyOf`.
const MAX_DEPTH: usize = 3;

/// The maximum number of alternatives that a description lists.
const MAX_CHOICES: usize = 12;

/// Formats a value, truncated if it is long.
pub(super) fn abbreviate(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() > 60 => {
            Value::from(text.chars().take(60).chain(['…']).collect::<String>()).to_string()
        }
        Value::Array(items) => format!("an array of {}", pluralize(items.len() as u64, "item")),
        Value::Object(fields) => format!("an object with {}", pluralize(fields.len() as u64, "key")),
        other => other.to_string(),
    }
}

/// Formats a number with its noun: `1 key`, `2 keys`.
pub(super) fn pluralize(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// Describes the expected value, in words that follow "must be".
pub(super) fn describe(root: &Value, schema: &Value) -> String {
    describe_at(root, schema, 0)
}

fn describe_at(root: &Value, schema: &Value, depth: usize) -> String {
    let schema = resolve(root, schema);
    if depth > MAX_DEPTH {
        return "a value".to_owned();
    }
    if let Some(only) = schema.get("const") {
        return abbreviate(only);
    }
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        let named: Vec<_> = options.iter().take(MAX_CHOICES).map(abbreviate).collect();
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
        Some(Value::String(one)) => describe_type(root, schema, one, depth),
        Some(Value::Array(several)) => {
            let named: Vec<_> =
                several.iter().filter_map(Value::as_str).map(|it| describe_type(root, schema, it, depth)).collect();
            named.join(" or ")
        }
        _ => "a value that matches the schema".to_owned(),
    }
}

fn describe_type(root: &Value, schema: &Value, kind: &str, depth: usize) -> String {
    match kind {
        "string" => string(schema),
        "integer" => format!("an integer{}", number_bounds(schema)),
        "number" => format!("a number{}", number_bounds(schema)),
        "boolean" => "true or false".to_owned(),
        "array" => array(root, schema, depth),
        "object" => format!("an object{}", object_keys(schema)),
        other => other.to_owned(),
    }
}

fn string(schema: &Value) -> String {
    let (empty, length) = match range(schema, "minLength", "maxLength", "character") {
        Some(length) if length == "at least 1 character" => ("non-empty ", String::new()),
        Some(length) => ("", format!(" of {length}")),
        None => ("", String::new()),
    };
    let format = schema.get("format").and_then(Value::as_str).map(|it| format!(" ({it})")).unwrap_or_default();
    let pattern = schema.get("pattern").and_then(Value::as_str);
    let pattern = pattern.map(|it| format!(" that matches {}", it.chars().take(80).collect::<String>()));
    format!("a {empty}string{format}{length}{}", pattern.unwrap_or_default())
}

fn number_bounds(schema: &Value) -> String {
    let bound = |keyword: &str| schema.get(keyword);
    let mut bounds = Vec::new();
    match (bound("minimum"), bound("maximum")) {
        (Some(low), Some(high)) => bounds.push(format!("from {low} to {high}")),
        (Some(low), None) => bounds.push(format!("of at least {low}")),
        (None, Some(high)) => bounds.push(format!("of at most {high}")),
        (None, None) => {}
    }
    bounds.extend(bound("exclusiveMinimum").map(|low| format!("greater than {low}")));
    bounds.extend(bound("exclusiveMaximum").map(|high| format!("less than {high}")));
    let multiple = bound("multipleOf").map(|it| format!(" that is a multiple of {it}")).unwrap_or_default();
    let bounds = if bounds.is_empty() { String::new() } else { format!(" {}", bounds.join(" and ")) };
    bounds + &multiple
}

fn array(root: &Value, schema: &Value, depth: usize) -> String {
    let items = schema.get("items").filter(|it| it.is_object()).map(|it| resolve(root, it));
    let simple = items.filter(|it| it.get("enum").is_none()).and_then(|it| it.get("type")).and_then(Value::as_str);
    let noun = simple.filter(|it| ["string", "integer", "number", "boolean"].contains(it)).unwrap_or("item");
    let each = match items {
        Some(items) if noun == "item" => format!(", each {}", describe_at(root, items, depth + 1)),
        _ => String::new(),
    };
    match range(schema, "minItems", "maxItems", noun) {
        Some(count) => format!("an array of {count}{each}"),
        None if noun == "item" => format!("an array{each}"),
        None => format!("an array of {noun}s"),
    }
}

fn object_keys(schema: &Value) -> String {
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

fn range(schema: &Value, low: &str, high: &str, noun: &str) -> Option<String> {
    match (schema.get(low).and_then(Value::as_u64), schema.get(high).and_then(Value::as_u64)) {
        (Some(low), Some(high)) if low == high => Some(format!("exactly {}", pluralize(low, noun))),
        (Some(low), Some(high)) => Some(format!("{low} to {}", pluralize(high, noun))),
        (Some(low), None) => Some(format!("at least {}", pluralize(low, noun))),
        (None, Some(high)) => Some(format!("at most {}", pluralize(high, noun))),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_reads_as_the_end_of_a_sentence() {
        for (schema, words) in [
            (json!({"type": "integer", "minimum": 1, "maximum": 10}), "an integer from 1 to 10"),
            (json!({"type": "string", "minLength": 1}), "a non-empty string"),
            (json!({"enum": ["a", 1, null]}), "one of \"a\", 1, null"),
            (
                json!({"type": "number", "exclusiveMinimum": 0, "multipleOf": 5}),
                "a number greater than 0 that is a multiple of 5",
            ),
            (
                json!({"type": "integer", "minimum": 1, "exclusiveMaximum": 5}),
                "an integer of at least 1 and less than 5",
            ),
            (
                json!({"type": "string", "maxLength": 1, "pattern": "^a"}),
                "a string of at most 1 character that matches ^a",
            ),
            (json!({"type": "array", "items": {"type": "string"}}), "an array of strings"),
            (json!({"type": "array", "items": {"type": "integer"}, "minItems": 1}), "an array of at least 1 integer"),
            (json!({"type": "array", "maxItems": 3}), "an array of at most 3 items"),
            (
                json!({"type": "array", "items": {"enum": ["x"]}, "minItems": 2}),
                "an array of at least 2 items, each one of \"x\"",
            ),
            (json!({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}), "a string (date) or null"),
            (json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]}), "an object {a, b?}"),
            (json!({"type": ["boolean", "null"]}), "true or false or null"),
            (json!({}), "a value that matches the schema"),
        ] {
            assert_eq!(describe(&schema, &schema), words);
        }
    }
}
