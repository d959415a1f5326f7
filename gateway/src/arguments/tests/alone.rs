//! Tests changes that are made only if they alone make the call valid.

use super::*;

#[test]
fn an_empty_object_is_dropped_only_if_it_is_optional_and_may_not_be_empty() {
    let pair = json!({"type": "object", "properties": {"with": {"type": "string"}}, "required": ["with"]});
    let schema = json!({
        "properties": {
            "task": {"type": "string"},
            "compare": pair,
            "filter": {"type": "object", "minProperties": 1},
            "either": {"anyOf": [{"$ref": "#/$defs/pair"}, {"type": "null"}]},
            "open": {"type": "object"},
            "rows": {"type": "array", "items": pair},
            "named": {"type": "object", "additionalProperties": pair},
            "limit": {"type": "integer"},
        },
        "$defs": {"pair": pair},
        "required": ["task"],
        "dependentRequired": {"limit": ["filter"]},
    });
    let it = definition(schema.clone(), Rules { fill_defaults: false, ..Rules::default() });
    for (text, expected, kinds) in [
        (r#"{"task":"x","compare":{}}"#, r#"{"task":"x"}"#, &["empty_dropped"][..]),
        (r#"{"task":"x","either":{}}"#, r#"{"task":"x"}"#, &["empty_dropped"]),
        (r#"{"task":"x","compare":{},"filter":{},"open":{}}"#, r#"{"task":"x","open":{}}"#, &["empty_dropped"; 2]),
        (r#"{"task":"x","compare":{},"limit":null}"#, r#"{"task":"x"}"#, &["null_dropped", "empty_dropped"]),
        (r#"{"task":"x","open":{}}"#, r#"{"task":"x","open":{}}"#, &[]),
    ] {
        assert_repaired(&it, text, expected, kinds);
    }
    for (text, word) in [
        (r#"{"compare":{}}"#, "\"task\" is missing"),
        (r#"{"task":"x","compare":{},"limit":"many"}"#, "\"compare/with\" is missing"),
        (r#"{"task":"x","compare":{"without":"y"}}"#, "\"compare/with\" is missing"),
        (r#"{"task":"x","rows":[{}]}"#, "\"rows/0/with\" is missing"),
        (r#"{"task":"x","named":{"a":{}}}"#, "\"named/a/with\" is missing"),
        (r#"{"task":"x","filter":{},"limit":1}"#, "\"filter\""),
        (r#"{"task":{}}"#, "\"task\" must be a string"),
    ] {
        assert_rejected(&it, text, word);
    }
    let deep = definition(
        json!({"properties": {"questions": {"type": "array", "items": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "minLength": 1},
                "options": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                "kind": {"enum": ["text", "choice"]},
                "limit": {"type": "integer"},
                "show": {"anyOf": [{"type": "object", "properties": {"as": {"type": "string", "minLength": 1}, "by": pair}}, {"type": "null"}]},
            },
            "required": ["text"],
            "additionalProperties": false,
        }}}}),
        Rules::default(),
    );
    let question = |fields: &str| format!(r#"{{"questions":[{{"text":"a"{fields}}}]}}"#);
    for fields in
        [r#","options":[]"#, r#","kind":"""#, r#","limit":"""#, r#","limit":{}"#, r#","options":[],"kind":"""#]
    {
        let kinds = vec!["empty_dropped"; fields.matches(':').count()];
        assert_repaired(&deep, &question(fields), &question(""), &kinds);
    }
    for shown in [r#""as":"""#, r#""by":{}"#] {
        let fields = format!(r#","show":{{{shown}}}"#);
        assert_repaired(&deep, &question(&fields), &question(r#","show":{}"#), &["empty_dropped"]);
    }
    assert_rejected(&deep, r#"{"questions":[{"text":""}]}"#, "\"questions/0/text\" must be a non-empty string");
    let either = definition(
        json!({"properties": {"a": {"type": "array"}, "b": {"type": "array"}}, "anyOf": [
            {"properties": {"a": {"minItems": 1}}}, {"properties": {"b": {"minItems": 1}}},
        ]}),
        Rules::default(),
    );
    assert_rejected(&either, r#"{"a":[],"b":[]}"#, "must be");
    let destructive = definition(schema, Rules { drop_unknown: false, ..Rules::default() });
    assert_rejected(&destructive, r#"{"task":"x","compare":{}}"#, "\"compare/with\" is missing");
}

#[test]
fn an_integer_is_quoted_only_where_nothing_but_a_string_fits() {
    let any =
        |schema: Value| definition(json!({"properties": {"a": schema, "b": {"type": "boolean"}}}), Rules::default());
    for schema in [
        json!({"type": ["string", "null"]}),
        json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        json!({"oneOf": [{"type": "null"}, {"allOf": [{"type": "string"}]}]}),
        json!({"enum": ["25", "30"]}),
        json!({"type": "string", "pattern": "^[0-9]{2}$", "maxLength": 2}),
    ] {
        assert_repaired(&any(schema), r#"{"a":25}"#, r#"{"a":"25"}"#, &["integer_to_string"]);
    }
    for schema in [
        json!({"type": "string", "minLength": 3}),
        json!({"enum": ["05", "30"]}),
        json!({"type": ["string", "boolean"]}),
        json!({"anyOf": [{"type": "string"}, {"type": "array"}]}),
        json!({"type": "array", "items": {"type": "integer"}}),
    ] {
        assert_rejected(&any(schema), r#"{"a":25}"#, "\"a\" must be");
    }
    let text = any(json!({"type": "string"}));
    assert_rejected(&text, r#"{"a":25,"b":"True"}"#, "\"a\" must be");
    assert_rejected(&text, r#"{"a":25,"c":1}"#, "\"a\" must be");
    assert!(text.prepare(r#"{"a":25}"#, Policy::Strict).is_err());
}
