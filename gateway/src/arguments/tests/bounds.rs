//! Tests bounds: repairs that stop before they guess or lose a value, and work that is refused because it costs too
//! much.

use super::*;

#[test]
fn a_choice_with_too_many_branches_is_not_repaired() {
    let mut words: Vec<Value> = (0..15).map(|at| json!({"const": format!("word{at}")})).collect();
    words.insert(0, json!({"const": "Ab"}));
    words.push(json!({"const": "aB"}));
    let it = definition(json!({"properties": {"a": {"anyOf": words}}}), Rules::default());
    assert_rejected(&it, r#"{"a":"ab"}"#, "\"a\" must be");
    let string_or_number =
        json!({"properties": {"z": {"anyOf": [{"type": "string", "minLength": 5}, {"type": "integer"}]}}});
    assert_rejected(&definition(string_or_number, Rules::default()), r#"{"z":"1234"}"#, "\"z\" must be");
}

#[test]
fn nulls_of_optional_parameters_are_dropped_but_not_those_in_maps() {
    let rows = json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}});
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let it = definition(json!({"properties": {"rows": rows, "labels": map}}), Rules::default());
    let many = format!(r#"{{"rows":[{}]}}"#, vec![r#"{"a":null}"#; 400].join(","));
    let prepared = it.prepare(&many, Policy::Repair).unwrap();
    assert_eq!(prepared.repairs.len(), 400);
    assert_rejected(&it, r#"{"labels":{"team":null,"env":"prod"}}"#, "\"labels/team\" must be a string, not null");
}

#[test]
fn a_wrapper_next_to_other_keys_is_not_dropped() {
    let it = definition(json!({"properties": {"pattern": {"type": "string"}}}), Rules::default());
    assert_rejected(&it, r#"{"arguments":{"pattern":"*.log"},"reason":"x"}"#, "unknown parameter \"arguments\"");
    assert_rejected(&it, r#"{"input":"{\"pattern\":\"x\"}","reason":"x"}"#, "unknown parameter \"input\"");
}

#[test]
fn a_schema_that_refers_to_its_root_stays_open() {
    let tree = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}},
    }});
    let text = r#"{"name":"a","children":[{"name":"b","extra":1}]}"#;
    assert_repaired(&definition(tree, Rules::default()), text, text, &[]);
    let dependent = json!({"properties": {"card": {"type": "integer"}}, "dependencies": {"card": {
        "properties": {"address": {"type": "string"}}, "required": ["address"],
    }}});
    let text = r#"{"card":1,"address":"x"}"#;
    assert_repaired(&definition(dependent, Rules::default()), text, text, &[]);
}

#[test]
fn feedback_on_a_choice_is_about_the_intended_branch() {
    let it = definition(
        json!({"properties": {
            "opts": {"anyOf": [{"type": "object", "properties": {"depth": {"type": "integer"}}}, {"type": "null"}]},
            "pet": {"oneOf": [
                {"type": "object", "properties": {"kind": {"const": "cat"}, "meows": {"type": "integer"}}, "required": ["kind"]},
                {"type": "object", "properties": {"kind": {"const": "dog"}, "barks": {"type": "integer"}}, "required": ["kind"]},
            ]},
        }}),
        Rules::default(),
    );
    assert_rejected(&it, r#"{"opts":{"depth":"deep"}}"#, "\"opts/depth\" must be an integer, not \"deep\"");
    assert_rejected(&it, r#"{"pet":{"kind":"cat","meows":"loud"}}"#, "\"pet/meows\" must be an integer");
}

#[test]
fn work_beyond_the_limits_is_refused() {
    let branches: Vec<Value> = (0..30)
        .map(|at| json!({"type": "object", "properties": {"kind": {"const": at}, "text": {"type": "string"}}}))
        .collect();
    let it = definition(
        json!({"properties": {"blocks": {"type": "array", "items": {"anyOf": branches}}}}),
        Rules::default(),
    );
    assert_rejected(&it, &format!(r#"{{"blocks":[{}]}}"#, vec!["1"; 20_000].join(",")), "too large to say where");
    let n = json!({"$ref": "#/$defs/n"});
    let filters = json!({"properties": {"where": n}, "$defs": {"n": {"anyOf": [
        {"properties": {"op": {"const": "and"}, "filters": {"type": "array", "items": n}}, "required": ["op", "filters"]},
        {"properties": {"op": {"const": "or"}, "filters": {"type": "array", "items": n}}, "required": ["op", "filters"]},
        {"properties": {"op": {"const": "eq"}}, "required": ["op"]},
    ]}}});
    let it = definition(filters, Rules::default());
    let text = r#"{"where":{"op":"and","filters":[{"op":"or","filters":[{"op":"eq"}]}]}}"#;
    assert_repaired(&it, text, text, &[]);
    let deep = format!("{}{{\"op\":\"eq\"}}{}", r#"{"op":"and","filters":["#.repeat(30), "]}".repeat(30));
    assert_rejected(&it, &format!(r#"{{"where":{deep}}}"#), "nested too deeply");
}

#[test]
fn the_deepest_validation_fits_the_stack_of_a_shard() {
    let check = || {
        let mut definitions: serde_json::Map<_, _> =
            (0..25).map(|at| (format!("a{at}"), json!({"$ref": format!("#/$defs/a{}", at + 1)}))).collect();
        definitions.insert("a25".to_owned(), json!({"type": ["array", "null"], "items": {"$ref": "#/$defs/a0"}}));
        let it =
            definition(json!({"properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": definitions}), Rules::default());
        let nested = |inner: &str| format!(r#"{{"x":{}{inner}{}}}"#, "[".repeat(60), "]".repeat(60));
        assert!(it.prepare(&nested("null"), Policy::Repair).is_ok());
        assert_rejected(&it, &nested("5"), "an array");
    };
    // The stack size of a shard's thread.
    std::thread::Builder::new().stack_size(16 * 1024 * 1024).spawn(check).unwrap().join().unwrap();
}
