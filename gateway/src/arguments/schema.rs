//! Closes schemas and looks up what they declare.

use jsonschema::ValidationError;
use openskill_skill::schema::{children, lookup};
use serde_json::{Map, Value};

/// Returns the schema that calls are validated against: the declared one, closed if it does not mention additional
/// keys.
///
/// Tool schemas rarely write `additionalProperties: false` but mean it: a function has the parameters it declares.
/// An object schema that has `properties` and does not mention other keys is therefore closed at its top level. One
/// with `additionalProperties: true`, or without `properties`, accepts anything. Nested objects stay open, as JSON
/// Schema defines them.
pub(super) fn close(mut schema: Value) -> Value {
    // A schema that refers to its own root would also be closed wherever it recurs.
    let is_recursive = schema.to_string().contains("\"$ref\":\"#\"");
    let Some(object) = schema.as_object_mut() else { return schema };
    if object.get("additionalProperties") == Some(&Value::Bool(false)) && !object.contains_key("properties") {
        // The schema accepts no keys. With empty `properties`, the validator names the unexpected ones.
        object.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    // `unevaluatedProperties` does not see what the older `dependencies` declares.
    let open_keywords =
        ["additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames", "dependencies"];
    let has_any = |keywords: &[&str]| keywords.iter().any(|keyword| object.contains_key(*keyword));
    if is_recursive || !object.contains_key("properties") || has_any(&open_keywords) {
        return schema;
    }
    // Unlike `additionalProperties`, `unevaluatedProperties` sees what other subschemas of the same object declare.
    let has_applicators = has_any(&["allOf", "anyOf", "oneOf", "if", "$ref", "dependentSchemas"]);
    let keyword = if has_applicators { "unevaluatedProperties" } else { "additionalProperties" };
    object.insert(keyword.to_owned(), Value::Bool(false));
    schema
}

/// Follows `$ref` within `root`. Returns the schema itself if it has none.
pub(super) fn resolve<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..16 {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|it| lookup(root, it));
        match target {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// Returns the property names that an object schema declares, including those of its subschemas for the same
/// object.
pub(super) fn declared_names<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a str> {
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
        let target = resolve(root, schema);
        if !std::ptr::eq(target, schema) {
            collect_declared(root, target, names, depth + 1);
        }
    }
    let Some(object) = schema.as_object() else { return };
    for keyword in ["allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies", "if", "then", "else"] {
        children(object, keyword).into_iter().for_each(|it| collect_declared(root, it, names, depth + 1));
    }
}

/// Returns the subschemas for a property of an object schema whose references are resolved: its own, or those of
/// its `allOf`, `anyOf` and `oneOf` branches.
pub(super) fn properties<'a>(root: &'a Value, schema: &'a Value, name: &str) -> Vec<&'a Value> {
    let schema = resolve(root, schema);
    if let Some(found) = schema.get("properties").and_then(|it| it.get(name)) {
        return vec![resolve(root, found)];
    }
    let inner = ["allOf", "anyOf", "oneOf"].iter().filter_map(|it| schema.get(*it)?.as_array()).flatten();
    inner.filter_map(|it| resolve(root, it).get("properties")?.get(name)).map(|it| resolve(root, it)).collect()
}

/// Returns the subschema that contains the failed keyword, if it lies within `root`.
pub(super) fn failing_schema<'a>(root: &'a Value, error: &ValidationError<'_>) -> Option<&'a Value> {
    let (parent, _) = error.schema_path().as_str().rsplit_once('/')?;
    root.pointer(parent)
}

#[cfg(test)]
mod tests {
    use openskill_skill::schema::compile;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_silent_about_additional_keys_is_closed_at_its_top_level() {
        let open = json!({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}});
        assert!(!compile(&close(open.clone())).unwrap().is_valid(&json!({"b": 1})));
        assert!(compile(&close(open)).unwrap().is_valid(&json!({"a": {"b": 1}})));
        let parts = json!({"properties": {}, "allOf": [{"properties": {"b": {}}}]});
        assert!(compile(&close(parts.clone())).unwrap().is_valid(&json!({"b": 1})));
        assert!(!compile(&close(parts)).unwrap().is_valid(&json!({"c": 1})));
        let referring = json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "object"}}});
        assert!(!compile(&close(referring)).unwrap().is_valid(&json!({"a": {}, "b": 1})));
        for anything in [
            json!({"properties": {"child": {"$ref": "#"}}}),
            json!({"type": "object"}),
            json!({"properties": {}, "additionalProperties": true}),
            json!({"properties": {}, "patternProperties": {"^b": {}}}),
        ] {
            assert_eq!(close(anything.clone()), anything);
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
