//! Which schemas are taken, and how they are compiled.

use openskill_skill::schema::lookup;
use serde_json::{Map, Value};

/// A schema that can't be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaRefused(pub String);

/// Compiles a schema as [`openskill_skill::schema::compile`] does.
///
/// # Errors
/// It can't be used.
pub fn compile(schema: &Value) -> Result<jsonschema::Validator, SchemaRefused> {
    openskill_skill::schema::compile(schema).map_err(SchemaRefused)
}

/// The schema that calls are held to: as declared, but closed where it says nothing about further keys.
///
/// Tool schemas rarely say `additionalProperties: false`, and mean it: a function has the parameters it declares. So an
/// object schema that has `properties` and is silent about others is closed at its top. One that says
/// `additionalProperties: true`, or declares no `properties` at all, takes anything. Objects within are as JSON Schema
/// has them: open.
pub(super) fn closed(mut schema: Value) -> Value {
    // One that refers to its own top would be closed wherever it recurs.
    let recurs = schema.to_string().contains("\"$ref\":\"#\"");
    let Some(object) = schema.as_object_mut() else { return schema };
    if object.get("additionalProperties") == Some(&Value::Bool(false)) && !object.contains_key("properties") {
        // It takes nothing. Said like this, the validator names the keys that are too many.
        object.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    // What an old `dependencies` declares, no keyword sees.
    let speaks =
        ["additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames", "dependencies"];
    if recurs || !object.contains_key("properties") || speaks.iter().any(|keyword| object.contains_key(*keyword)) {
        return schema;
    }
    // This one sees the properties that other subschemas of the same object declare.
    let keyword = if has_applicators(object) { "unevaluatedProperties" } else { "additionalProperties" };
    object.insert(keyword.to_owned(), Value::Bool(false));
    schema
}

fn has_applicators(object: &Map<String, Value>) -> bool {
    ["allOf", "anyOf", "oneOf", "if", "$ref", "dependentSchemas"].iter().any(|keyword| object.contains_key(*keyword))
}

/// What `$ref` leads to, as far as it stays within `root`; the schema itself if it has none.
pub(super) fn resolved<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..16 {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|it| lookup(root, it));
        match target {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// The names that an object schema declares, also by subschemas for the same object.
pub(super) fn declared<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a str> {
    let mut names = Vec::new();
    collect_declared(root, schema, &mut names, 0);
    names
}

fn collect_declared<'a>(root: &'a Value, schema: &'a Value, names: &mut Vec<&'a str>, depth: usize) {
    if depth > 16 || names.len() > 1024 {
        return;
    }
    for name in schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    if schema.get("$ref").is_some() {
        let target = resolved(root, schema);
        if !std::ptr::eq(target, schema) {
            collect_declared(root, target, names, depth + 1);
        }
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for inner in schema.get(keyword).and_then(Value::as_array).into_iter().flatten() {
            collect_declared(root, inner, names, depth + 1);
        }
    }
    for keyword in ["dependentSchemas", "dependencies"] {
        for inner in schema.get(keyword).and_then(Value::as_object).into_iter().flat_map(Map::values) {
            collect_declared(root, inner, names, depth + 1);
        }
    }
    for keyword in ["if", "then", "else"] {
        if let Some(inner) = schema.get(keyword) {
            collect_declared(root, inner, names, depth + 1);
        }
    }
}

/// The subschemas for a property of an object schema, references followed: its own, or those of its parts.
pub(super) fn properties<'a>(root: &'a Value, schema: &'a Value, name: &str) -> Vec<&'a Value> {
    let schema = resolved(root, schema);
    if let Some(found) = schema.get("properties").and_then(|it| it.get(name)) {
        return vec![resolved(root, found)];
    }
    let inner = ["allOf", "anyOf", "oneOf"].iter().filter_map(|it| schema.get(*it)?.as_array()).flatten();
    inner.filter_map(|it| resolved(root, it).get("properties")?.get(name)).map(|it| resolved(root, it)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_that_is_silent_about_further_keys_is_closed_at_its_top() {
        let open = json!({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}});
        assert!(!compile(&closed(open.clone())).unwrap().is_valid(&json!({"b": 1})));
        assert!(compile(&closed(open)).unwrap().is_valid(&json!({"a": {"b": 1}})));
        let parts = json!({"properties": {}, "allOf": [{"properties": {"b": {}}}]});
        assert!(compile(&closed(parts.clone())).unwrap().is_valid(&json!({"b": 1})));
        assert!(!compile(&closed(parts)).unwrap().is_valid(&json!({"c": 1})));
        for anything in [
            json!({"type": "object"}),
            json!({"properties": {}, "additionalProperties": true}),
            json!({"properties": {}, "patternProperties": {"^b": {}}}),
        ] {
            assert_eq!(closed(anything.clone()), anything);
        }
    }

    #[test]
    fn nothing_is_fetched_and_no_pattern_goes_back() {
        for refused in [
            json!({"$ref": "http://127.0.0.1:1/s.json"}),
            json!({"$ref": "file:///etc/passwd"}),
            json!({"pattern": "(?=a)b"}),
            json!({"pattern": "(a)\\1"}),
            json!({"pattern": "(((a{1000}){1000}){1000})"}),
            json!({"type": "objekt"}),
        ] {
            assert!(compile(&refused).is_err(), "{refused}");
        }
    }
}
