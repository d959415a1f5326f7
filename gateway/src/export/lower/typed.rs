//! Lowers schemas by their type.

use serde_json::{Map, Value, json};

use super::lowering::Lowering;
use super::{merge, words};

/// Lowers a schema without references and choices.
pub(super) fn lower(
    lowering: &mut Lowering<'_>,
    schema: &Value,
    merged: &Map<String, Value>,
    depth: usize,
    nullable: bool,
) -> Value {
    let Some(mut kinds) = kinds(merged) else { return lowering.text(schema, nullable) };
    let values = allowed(merged);
    let null_is_allowed = values.as_ref().is_none_or(|values| values.contains(&Value::Null));
    let nullable = nullable || (null_is_allowed && kinds.iter().any(|kind| kind == "null"));
    // A type without an allowed value is dropped.
    let has_values = |kind: &String| values.as_ref().is_none_or(|values| values.iter().any(|it| is_of(it, kind)));
    kinds.retain(|kind| kind != "null" && has_values(kind));
    match &kinds[..] {
        [kind] => one(lowering, schema, merged, kind, depth, nullable),
        [] => lowering.text(schema, true),
        several if lowering.subset.any_of => {
            let branches: Vec<_> = several.iter().map(|kind| of_kind(merged, kind)).collect();
            let about = merge::take_description(&mut merged.clone());
            lowering.choice(&about, branches, depth, nullable)
        }
        _ => lowering.text(schema, nullable),
    }
}

/// The types that a schema names, or that its other keywords imply.
fn kinds(merged: &Map<String, Value>) -> Option<Vec<String>> {
    match merged.get("type") {
        Some(Value::String(one)) => return Some(vec![one.clone()]),
        Some(Value::Array(several)) => return several.iter().map(|it| it.as_str().map(str::to_owned)).collect(),
        _ => {}
    }
    if let Some(values) = allowed(merged) {
        let mut kinds: Vec<_> = values.iter().map(|it| kind_of(it).to_owned()).collect();
        kinds.sort();
        kinds.dedup();
        return Some(kinds);
    }
    let implied = [("properties", "object"), ("items", "array"), ("prefixItems", "array")];
    implied.iter().find(|(keyword, _)| merged.contains_key(*keyword)).map(|(_, kind)| vec![(*kind).to_owned()])
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(it) if it.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    let is_whole = value.as_f64().is_some_and(|it| it.fract() == 0.0);
    kind_of(value) == kind || (kind == "number" && value.is_number()) || (kind == "integer" && is_whole)
}

/// The values of `const` or `enum`.
fn allowed(merged: &Map<String, Value>) -> Option<Vec<Value>> {
    merged.get("const").map(|only| vec![only.clone()]).or_else(|| merged.get("enum")?.as_array().cloned())
}

/// The keywords that apply to one type.
fn keywords_for(kind: &str) -> &'static [&'static str] {
    match kind {
        "string" => &["minLength", "maxLength", "pattern", "format"],
        "integer" | "number" => &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
        "array" => &["items", "prefixItems", "minItems", "maxItems", "uniqueItems"],
        "object" => &["properties", "required", "additionalProperties", "patternProperties"],
        _ => &[],
    }
}

/// The part of a multi-type schema that applies to one of its types.
fn of_kind(merged: &Map<String, Value>, kind: &str) -> Value {
    let own =
        keywords_for(kind).iter().filter_map(|keyword| Some(((*keyword).to_owned(), merged.get(*keyword)?.clone())));
    let mut branch: Map<String, Value> = own.collect();
    branch.insert("type".to_owned(), kind.into());
    if let Some(values) = allowed(merged) {
        branch.insert("enum".to_owned(), values.into_iter().filter(|it| is_of(it, kind)).collect());
    }
    Value::Object(branch)
}

fn one(
    lowering: &mut Lowering<'_>,
    schema: &Value,
    merged: &Map<String, Value>,
    kind: &str,
    depth: usize,
    nullable: bool,
) -> Value {
    match kind {
        "object" => {
            let declares = merged.get("properties").and_then(Value::as_object).is_some_and(|it| !it.is_empty());
            let closed = merged.get("additionalProperties") == Some(&Value::Bool(false));
            let is_empty_object = closed && lowering.subset.writes_closed && !merged.contains_key("patternProperties");
            if !(declares || lowering.subset.maps || is_empty_object) {
                return lowering.text(schema, nullable);
            }
            let mut sentences = Vec::new();
            let Value::Object(mut object) = lowering.object(merged, depth, &mut sentences) else { return json!({}) };
            object.insert("type".to_owned(), lowering.type_value("object", nullable));
            lowering.describe(&mut object, merged, &sentences);
            Value::Object(object)
        }
        "array" => array(lowering, schema, merged, depth, nullable),
        "string" | "integer" | "number" | "boolean" => scalar(lowering, merged, kind, nullable),
        _ => lowering.text(schema, nullable),
    }
}

pub(super) fn scalar(lowering: &Lowering<'_>, merged: &Map<String, Value>, kind: &str, nullable: bool) -> Value {
    let subset = lowering.subset;
    let mut object = Map::new();
    object.insert("type".to_owned(), lowering.type_value(kind, nullable));
    let mut kept = vec!["const", "enum"];
    let mut sentences = Vec::new();
    if let Some(values) = allowed(merged) {
        let values: Vec<_> = values.into_iter().filter(|it| is_of(it, kind)).collect();
        write_values(lowering, &mut object, values, merged.contains_key("const"), nullable, &mut sentences);
    }
    for keyword in subset.bounds.iter().filter(|keyword| keywords_for(kind).contains(keyword)) {
        if let Some(bound) = merged.get(*keyword) {
            object.insert((*keyword).to_owned(), bound.clone());
            kept.push(*keyword);
        }
    }
    let format =
        merged.get("format").and_then(Value::as_str).filter(|it| kind == "string" && subset.formats.contains(it));
    if let Some(format) = format {
        object.insert("format".to_owned(), format.into());
        kept.push("format");
    }
    if let Some(default) = merged.get("default").filter(|_| subset.default) {
        object.insert("default".to_owned(), default.clone());
    }
    if nullable && !subset.null_in_type && merged.get("type").is_some_and(Value::is_array) {
        sentences.push("Null is allowed but cannot be given here.".to_owned());
    }
    words::add_rest(merged, &kept, subset.default, &mut sentences);
    if nullable && !subset.null_in_enum && subset.any_of && object.contains_key("enum") {
        object.insert("type".to_owned(), kind.into());
        let mut choice = Map::new();
        lowering.describe(&mut choice, merged, &sentences);
        choice.insert("anyOf".to_owned(), json!([object, { "type": "null" }]));
        return Value::Object(choice);
    }
    lowering.describe(&mut object, merged, &sentences);
    Value::Object(object)
}

/// Writes the fixed values: as `const`, as `enum`, or as a sentence.
fn write_values(
    lowering: &Lowering<'_>,
    object: &mut Map<String, Value>,
    mut values: Vec<Value>,
    is_const: bool,
    nullable: bool,
    sentences: &mut Vec<String>,
) {
    let subset = lowering.subset;
    let is_text = values.iter().all(Value::is_string);
    if !subset.mixed_enum && values.contains(&Value::from("")) {
        // The provider refuses it in an enum, but a sentence can allow it.
        sentences.push("May be an empty string.".to_owned());
        values.retain(|it| it.as_str() != Some(""));
    }
    match &values[..] {
        [] => {}
        [only] if is_const && subset.constant && !nullable => drop(object.insert("const".to_owned(), only.clone())),
        _ if subset.mixed_enum || is_text => {
            values.extend((nullable && subset.null_in_type && subset.null_in_enum).then_some(Value::Null));
            object.insert("enum".to_owned(), Value::Array(values));
        }
        _ => sentences.push(words::sentence("enum", &Value::Array(values))),
    }
}

fn array(
    lowering: &mut Lowering<'_>,
    schema: &Value,
    merged: &Map<String, Value>,
    depth: usize,
    nullable: bool,
) -> Value {
    let positions = merged.get("prefixItems").and_then(Value::as_array);
    let items = match (positions, merged.get("items")) {
        (None, Some(items @ Value::Object(_))) if !merged.contains_key("const") => items.clone(),
        (Some(positions), Some(Value::Bool(false))) if positions.windows(2).all(|two| two[0] == two[1]) => {
            positions.first().cloned().unwrap_or_default()
        }
        // Items of any type, or of different types by position. An array is not a string, so JSON text can be decoded.
        _ => return lowering.text(schema, nullable),
    };
    let mut object = Map::new();
    object.insert("type".to_owned(), lowering.type_value("array", nullable));
    object.insert("items".to_owned(), lowering.any(&items, depth + 1, false));
    let mut kept = vec!["items", "prefixItems"];
    for keyword in ["minItems", "maxItems"] {
        let max = lowering.subset.max_min_items;
        let fits = |it: &&Value| max.is_none_or(|max| keyword == "minItems" && it.as_u64().is_some_and(|it| it <= max));
        if let Some(bound) = merged.get(keyword).filter(|_| lowering.subset.bounds.contains(&keyword)).filter(fits) {
            object.insert(keyword.to_owned(), bound.clone());
            kept.push(keyword);
        }
    }
    let mut sentences = Vec::new();
    if let Some(positions) = positions {
        sentences.push(words::sentence("maxItems", &positions.len().into()));
    }
    words::add_rest(merged, &kept, lowering.subset.default, &mut sentences);
    if let Some(default) = merged.get("default").filter(|_| lowering.subset.default) {
        object.insert("default".to_owned(), default.clone());
    }
    lowering.describe(&mut object, merged, &sentences);
    Value::Object(object)
}
