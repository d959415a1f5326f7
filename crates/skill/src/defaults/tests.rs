//! Tests which parameters get defaults, and that nothing else changes.

use std::cell::Cell;

use serde_json::{Map, Value, json};

use super::read::MAX_PLACES;
use super::*;
use crate::schema::compile;

fn read(schema: &Value) -> (Option<Defaults>, Vec<UnfitDefault>) {
    Defaults::from_schema(schema, &compile(schema).unwrap())
}

/// Returns the completed text and the paths of what was filled in.
fn fill(schema: &Value, text: &str) -> (String, Vec<String>) {
    let validator = compile(schema).unwrap();
    let Some(defaults) = read(schema).0 else { return (text.to_owned(), Vec::new()) };
    let accepts = |text: &str| validator.is_valid(&serde_json::from_str(text).unwrap());
    assert!(accepts(text), "{text}");
    let Some(filled) = defaults.fill(text, accepts).unwrap() else { return (text.to_owned(), Vec::new()) };
    assert_eq!(defaults.fill(&filled.text, accepts), Ok(None), "{}", filled.text);
    (filled.text, filled.paths)
}

#[track_caller]
fn assert_filled(schema: &Value, text: &str, expected: &str, paths: &[&str]) {
    let (filled, found) = fill(schema, text);
    assert_eq!((filled.as_str(), found), (expected, paths.iter().map(|it| (*it).to_owned()).collect()), "{text}");
}

fn object(properties: Value) -> Value {
    json!({ "type": "object", "properties": properties })
}

#[test]
fn absent_parameters_are_appended_and_the_rest_keeps_its_bytes() {
    let schema = object(json!({
        "q": {"type": "string"}, "limit": {"type": "integer", "default": 10}, "a\"/b": {"default": 1},
        "none": {"default": null},
    }));
    assert_filled(&schema, "{}", r#"{"limit":10,"a\"/b":1}"#, &["/limit", r#"/a"~1b"#]);
    let sent = " { \"n\" : 12345678901234567890123, \"x\":[1.50,\"}\\\"\"],\n\"q\":\"{\" \n} ";
    let expected =
        " { \"n\" : 12345678901234567890123, \"x\":[1.50,\"}\\\"\"],\n\"q\":\"{\",\"limit\":10,\"a\\\"/b\":1 \n} ";
    assert_filled(&schema, sent, expected, &["/limit", r#"/a"~1b"#]);
    let all = r#"{"l\u0069mit":3,"a\"/b":1}"#;
    assert_filled(&schema, all, all, &[]);
    assert_filled(&schema, r#"{"limit":3}"#, r#"{"limit":3,"a\"/b":1}"#, &[r#"/a"~1b"#]);
}

#[test]
fn required_parameters_are_left_to_repair() {
    let mut schema = object(json!({"a": {"default": 1}, "b": {"default": 2}}));
    schema["required"] = json!(["a"]);
    assert_filled(&schema, r#"{"a":0}"#, r#"{"a":0,"b":2}"#, &["/b"]);
}

#[test]
fn objects_items_and_values_of_maps_are_completed_where_they_are() {
    let row = json!({"type": "object", "properties": {"id": {}, "unit": {"default": "kg"}}});
    let schema = json!({"$defs": {"row": row}, "type": "object", "properties": {
        "one": {"$ref": "#/$defs/row"},
        "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
        "by_name": {"type": "object", "properties": {"same": {}}, "additionalProperties": {"allOf": [{"$ref": "#/$defs/row"}]}},
        "pair": {"prefixItems": [{}], "items": {"$ref": "#/$defs/row"}},
    }});
    assert_filled(&schema, "{}", "{}", &[]);
    assert_filled(
        &schema,
        r#"{"one":{},"rows":[{"id":1},{"unit":"g"},5,{}],"by_name":{"a~":{},"same":{}},"pair":[1,{}]}"#
            .replace(",5", "")
            .as_str(),
        r#"{"one":{"unit":"kg"},"rows":[{"id":1,"unit":"kg"},{"unit":"g"},{"unit":"kg"}],"by_name":{"a~":{"unit":"kg"},"same":{}},"pair":[1,{}]}"#,
        &["/one/unit", "/rows/0/unit", "/rows/2/unit", "/by_name/a~0/unit"],
    );
}

#[test]
fn a_default_is_completed_with_those_inside_of_it() {
    let inner = json!({"type": "object", "properties": {"n": {"default": 1}, "deep": {"default": {}, "properties": {"m": {"default": 2}}}}});
    let schema = object(json!({"options": {"allOf": [inner], "default": {"x": 0}}}));
    assert_filled(&schema, "{}", r#"{"options":{"x":0,"n":1,"deep":{"m":2}}}"#, &["/options"]);
}

#[test]
fn a_default_beside_a_reference_counts_before_the_one_behind_it() {
    let schema = json!({"$defs": {"color": {"enum": ["red", "blue"], "default": "red"}}, "properties": {
        "a": {"$ref": "#/$defs/color", "default": "blue"},
        "b": {"$ref": "#/$defs/color"},
        "c": {"allOf": [{"default": 1}, {"default": 2}]},
    }});
    assert_filled(&schema, "{}", r#"{"a":"blue","b":"red"}"#, &["/a", "/b"]);
}

#[test]
fn what_applies_to_some_values_only_has_no_default() {
    let branch = json!({"properties": {"a": {"default": 1}}});
    for keyword in ["anyOf", "oneOf"] {
        let schema = json!({"properties": {"b": {keyword: [branch]}}, keyword: [branch]});
        assert!(read(&schema).0.is_none(), "{schema}");
    }
    for keyword in ["if", "then", "else", "not", "dependentSchemas"] {
        assert!(read(&json!({"properties": {"x": {}}, keyword: {"a": branch}, "$defs": branch})).0.is_none());
    }
    assert!(read(&json!({"properties": {"a": {"type": "string"}}, "default": {"a": "x"}})).0.is_none());
}

#[test]
fn recursive_schemas_are_completed_as_deep_as_the_call_is() {
    let node = json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"default": 0}}});
    let schema = json!({"$defs": {"node": node}, "$ref": "#/$defs/node"});
    assert_filled(
        &schema,
        r#"{"next":{"next":{"n":5}}}"#,
        r#"{"next":{"next":{"n":5},"n":0},"n":0}"#,
        &["/next/n", "/n"],
    );
    let endless = json!({"$defs": {"node": {"properties": {
        "left": {"$ref": "#/$defs/node", "default": {}}, "right": {"$ref": "#/$defs/node", "default": {}}, "n": {"default": 0},
    }}}, "$ref": "#/$defs/node"});
    let (text, paths) = fill(&endless, "{}");
    assert!(text.len() < 100 && paths.contains(&"/n".to_owned()), "{text}");
}

#[test]
fn a_default_that_its_schema_refuses_is_reported_and_left_out() {
    let schema = object(json!({
        "a": {"type": "integer", "default": "many"},
        "b": {"type": "array", "items": {"properties": {"c": {"minimum": 1, "default": 0}, "d": {"default": 4}}}},
    }));
    let unfit: Vec<_> = read(&schema).1.into_iter().map(|it| (it.name, it.value)).collect();
    assert_eq!(unfit, [("a".to_owned(), json!("many")), ("c".to_owned(), json!(0))]);
    assert_filled(&schema, r#"{"b":[{}]}"#, r#"{"b":[{"d":4}]}"#, &["/b/0/d"]);
}

#[test]
fn defaults_that_contradict_the_call_or_each_other_are_left_out() {
    let one_of = json!([{"required": ["path"]}, {"required": ["text"]}]);
    let mut schema = object(json!({"path": {"default": "."}, "text": {}, "limit": {"default": 5}}));
    schema["oneOf"] = one_of;
    assert_filled(&schema, r#"{"text":"x"}"#, r#"{"text":"x","limit":5}"#, &["/limit"]);
    assert_filled(&schema, r#"{"path":"x"}"#, r#"{"path":"x","limit":5}"#, &["/limit"]);
    let mut schema = object(json!({"a": {"default": 1}, "b": {"default": 2}}));
    schema["not"] = json!({"required": ["a", "b"]});
    assert_filled(&schema, "{}", "{}", &[]);
    assert_filled(&schema, r#"{"a":3}"#, r#"{"a":3}"#, &[]);
}

#[test]
fn a_call_grows_by_a_bounded_number_of_bytes() {
    let schema = object(json!({"rows": {"items": {"properties": {"a": {"default": "x".repeat(1000)}}}}}));
    let defaults = read(&schema).0.unwrap();
    let call = |rows: usize| json!({ "rows": vec![json!({}); rows] }).to_string();
    let filled = defaults.fill(&call(200), |_| true).unwrap().unwrap();
    assert_eq!((filled.paths.len(), filled.paths[199].as_str()), (200, "/rows/199/a"));
    assert_eq!(defaults.fill(&call(300), |_| true), Err(GrowthExceeded));
    let admitted = Cell::new(0_usize);
    let count = |_| admitted.replace(admitted.get() + 1) < usize::MAX;
    assert!(defaults.fill_some(&call(99_000), count).is_err() && admitted.get() < 300, "{admitted:?}");
}

#[test]
fn a_schema_of_many_places_is_read_in_bounded_time() {
    let deep = (0..100).fold(json!({"properties": {"a": {"default": 1}}}), |inner, _| object(json!({ "x": inner })));
    assert!(read(&deep).0.is_some());
    let many: Map<_, _> = (0..3000).map(|it| (it.to_string(), object(json!({"a": {"default": it}})))).collect();
    let defaults = read(&object(many.into())).0.unwrap();
    assert_eq!(defaults.places.len(), MAX_PLACES);
}
