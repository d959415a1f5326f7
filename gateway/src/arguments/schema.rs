//! Compiles schemas and looks up what they declare.

use jsonschema::ValidationError;
use openskill_skill::schema::lookup;
use serde_json::{Map, Value};

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaRefused(pub String);

/// Compiles a schema under the limits of [`openskill_skill::schema::compile`].
///
/// # Errors
/// The schema is invalid, refers to something outside itself, or has an unsupported regular expression.
pub fn compile(schema: &Value) -> Result<jsonschema::Validator, SchemaRefused> {
    openskill_skill::schema::compile(schema).map_err(SchemaRefused)
}

/// The schema that calls are validated against: the declared one, closed if it says nothing about additional keys.
///
/// Tool schemas rarely write `additionalProperties: false` but mean it: a function has the parameters it declares. An
/// object schema that has `properties` and says nothing about other keys is therefore closed at its top level. One that
/// says `additionalProperties: true`, or has no `properties`, accepts anything. Nested objects stay open, as JSON Schema
/// defines them.
pub(super) fn closed(mut schema: Value) -> Value {
    // A schema that refers to its own root would also be closed wherever it recurs.
    let is_recursive = schema.to_string().contains("\"$ref\":\"#\"");
    let Some(object) = schema.as_object_mut() else { return schema };
    if object.get("additionalProperties") == Some(&Value::Bool(false)) && !object.contains_key("properties") {
        // It accepts no keys. With `properties`, the validator names the unexpected ones.
        object.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    // `unevaluatedProperties` does not see what the older `dependencies` declares.
    let open_keywords =
        ["additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames", "dependencies"];
    if is_recursive
        || !object.contains_key("properties")
        || open_keywords.iter().any(|keyword| object.contains_key(*keyword))
    {
        return schema;
    }
    // Unlike `additionalProperties`, `unevaluatedProperties` sees what other subschemas of the same object declare.
    let keyword = if has_applicators(object) { "unevaluatedProperties" } else { "additionalProperties" };
    object.insert(keyword.to_owned(), Value::Bool(false));
    schema
}

fn has_applicators(object: &Map<String, Value>) -> bool {
    ["allOf", "anyOf", "oneOf", "if", "$ref", "dependentSchemas"].iter().any(|keyword| object.contains_key(*keyword))
}

/// Follows `$ref` within `root`. Returns the schema itself if it has none.
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

/// The property names that an object schema declares, including those of its subschemas for the same object.
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

/// The subschemas for a property of an object schema with references followed: its own, or those of its `allOf`, `anyOf`
/// and `oneOf` branches.
pub(super) fn properties<'a>(root: &'a Value, schema: &'a Value, name: &str) -> Vec<&'a Value> {
    let schema = resolved(root, schema);
    if let Some(found) = schema.get("properties").and_then(|it| it.get(name)) {
        return vec![resolved(root, found)];
    }
    let inner = ["allOf", "anyOf", "oneOf"].iter().filter_map(|it| schema.get(*it)?.as_array()).flatten();
    inner.filter_map(|it| resolved(root, it).get("properties")?.get(name)).map(|it| resolved(root, it)).collect()
}

/// The subschema that contains the keyword an error is about, if it lies within `root`.
pub(super) fn failed<'a>(root: &'a Value, error: &ValidationError<'_>) -> Option<&'a Value> {
    let (parent, _) = error.schema_path().as_str().rsplit_once('/')?;
    root.pointer(parent)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_silent_about_additional_keys_is_closed_at_its_top_level() {
        let open = json!({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}});
        assert!(!compile(&closed(open.clone())).unwrap().is_valid(&json!({"b": 1})));
        assert!(compile(&closed(open)).unwrap().is_valid(&json!({"a": {"b": 1}})));
        let parts = json!({"properties": {}, "allOf": [{"properties": {"b": {}}}]});
        assert!(compile(&closed(parts.clone())).unwrap().is_valid(&json!({"b": 1})));
        assert!(!compile(&closed(parts)).unwrap().is_valid(&json!({"c": 1})));
        let referring = json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "object"}}});
        assert!(!compile(&closed(referring)).unwrap().is_valid(&json!({"a": {}, "b": 1})));
        for anything in [
            json!({"properties": {"child": {"$ref": "#"}}}),
            json!({"type": "object"}),
            json!({"properties": {}, "additionalProperties": true}),
            json!({"properties": {}, "patternProperties": {"^b": {}}}),
        ] {
            assert_eq!(closed(anything.clone()), anything);
        }
    }

    #[test]
    fn remote_references_and_backtracking_patterns_are_refused() {
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
