//! Generates a minimal value for a schema, with only the required parts.

use openskill_text::word_list::entries;
use serde_json::{Map, Number, Value, json};

use crate::arguments::schema::resolve;

/// The maximum depth of an example. A schema that needs more gets no example.
const MAX_DEPTH: usize = 8;

/// The maximum number of values in one example.
const MAX_VALUES: usize = 200;

/// A value of each string format.
const SAMPLES: &str = include_str!("samples.txt");

/// Generates a call that probably matches a schema. The caller must validate it, because keywords such as `pattern`
/// are ignored.
pub(in crate::arguments) fn example(schema: &Value) -> Option<Value> {
    let mut left = MAX_VALUES;
    sample(schema, schema, MAX_DEPTH, &mut left)
}

fn sample(root: &Value, schema: &Value, depth: usize, left: &mut usize) -> Option<Value> {
    *left = left.checked_sub(1)?;
    let depth = depth.checked_sub(1)?;
    let schema = resolve(root, schema);
    let first = |keyword: &str| schema.get(keyword)?.as_array()?.first();
    let given =
        [schema.get("const"), first("examples"), schema.get("default").filter(|it| !it.is_null()), first("enum")];
    if let Some(given) = given.into_iter().flatten().next() {
        return Some(given.clone());
    }
    for keyword in ["anyOf", "oneOf"] {
        if schema.get("type").is_none()
            && let Some(choices) = schema.get(keyword).and_then(Value::as_array)
        {
            return choices.iter().find_map(|it| sample(root, it, depth, left));
        }
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|it| *it != "null")?,
        _ if schema.get("properties").is_some() || schema.get("allOf").is_some() => "object",
        _ => "string",
    };
    match kind {
        "string" => Some(text(schema).into()),
        "integer" => number(schema, true),
        "number" => number(schema, false),
        "boolean" => Some(true.into()),
        "array" => array(root, schema, depth, left),
        "object" => object(root, schema, depth, left),
        _ => Some(Value::Null),
    }
}

fn text(schema: &Value) -> String {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    let sample = entries(SAMPLES).find(|(known, _)| *known == format);
    let mut text = sample.map_or("text", |(_, sample)| sample).to_owned();
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_u64).and_then(|it| usize::try_from(it).ok());
    if let Some(most) = bound("maxLength") {
        text.truncate(most);
    }
    let least = bound("minLength").unwrap_or(0).min(1000);
    while text.len() < least {
        text.push('x');
    }
    text
}

fn number(schema: &Value, whole: bool) -> Option<Value> {
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let step = bound("multipleOf").unwrap_or(1.0);
    let mut value = match (bound("minimum"), bound("exclusiveMinimum"), bound("maximum"), bound("exclusiveMaximum")) {
        (Some(low), _, _, _) => (low / step).ceil() * step,
        (None, Some(low), _, _) => ((low / step).floor() + 1.0) * step,
        (None, None, Some(high), _) if high < step => (high / step).floor() * step,
        (None, None, None, Some(high)) if high <= step => ((high / step).ceil() - 1.0) * step,
        _ => step,
    };
    if whole {
        value = value.round();
        return Some(json!(value as i64));
    }
    Number::from_f64(value).map(Value::Number)
}

fn array(root: &Value, schema: &Value, depth: usize, left: &mut usize) -> Option<Value> {
    if let Some(first) = schema.get("prefixItems").and_then(Value::as_array) {
        return first.iter().map(|it| sample(root, it, depth, left)).collect::<Option<Vec<_>>>().map(Value::Array);
    }
    let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).clamp(1, 20);
    let Some(items) = schema.get("items").filter(|it| it.is_object()) else { return Some(json!([])) };
    let one = sample(root, items, depth, left)?;
    // Every copy counts against the limit.
    *left = left.checked_sub(weight(&one).saturating_mul(least as usize - 1))?;
    Some(Value::Array(vec![one; least as usize]))
}

/// Counts the values within a value, including itself. Long text counts as several.
fn weight(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(key, it)| weight(it) + key.len() / 64).sum(),
        Value::String(text) => text.len() / 64,
        _ => 0,
    }
}

fn object(root: &Value, schema: &Value, depth: usize, left: &mut usize) -> Option<Value> {
    let mut object = Map::new();
    let parts = schema.get("allOf").and_then(Value::as_array).into_iter().flatten().map(|it| resolve(root, it));
    let branch =
        ["anyOf", "oneOf"].iter().find_map(|it| schema.get(*it)?.as_array()?.first()).map(|it| resolve(root, it));
    let all: Vec<_> = std::iter::once(schema).chain(parts).chain(branch).collect();
    for part in &all {
        for name in part.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            let declared = all.iter().find_map(|it| it.get("properties")?.get(name));
            let value = match declared {
                Some(schema) => sample(root, schema, depth, left)?,
                None => Value::from("text"),
            };
            object.insert(name.to_owned(), value);
        }
    }
    Some(Value::Object(object))
}
