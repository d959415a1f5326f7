//! Tests which keys are dropped, rejected and suggested.

use super::*;

#[test]
fn a_null_is_dropped_whatever_the_parameter_is_called() {
    for name in ["additionalProperties", "patternProperties", "a/properties/b"] {
        let it = definition(json!({"properties": {name: {"type": "boolean"}}}), Rules::default());
        assert_repaired(&it, &json!({ name: null }).to_string(), "{}", &["null_dropped"]);
    }
    // Here, keys are data.
    let map = json!({"properties": {"properties": {"type": "object", "additionalProperties": {"type": "integer"}}}});
    assert_rejected(&definition(map, Rules::default()), r#"{"properties":{"a":null}}"#, "\"properties/a\" must be");
}

#[test]
fn keys_are_not_dropped_where_a_pattern_says_what_keys_there_are() {
    let env =
        json!({"type": "object", "patternProperties": {"^[A-Z]+$": {"type": "string"}}, "additionalProperties": false});
    let it = definition(json!({"properties": {"env": env}}), Rules::default());
    assert_rejected(&it, r#"{"env":{"a":"x"}}"#, "unknown parameter \"env/a\" (expected a key that matches ^[A-Z]+$)");
}

#[test]
fn a_key_is_not_suggested_in_its_own_place() {
    let branch =
        |name: &str| json!({"properties": {"kind": {"const": name}, name: {"type": "string"}}, "required": [name]});
    let schema = json!({"properties": {"kind": {}}, "oneOf": [branch("foo"), branch("bar")]});
    let it = definition(schema, Rules { drop_unknown: false, ..Rules::default() });
    let Err(Rejected::Unfit(feedback)) = it.prepare(r#"{"kind":"foo","foo":"x","bar":"y"}"#, Policy::Repair) else {
        panic!("not rejected")
    };
    let text = feedback.message();
    assert!(text.contains("unknown parameter \"bar\"") && !text.contains("did you mean"), "{text}");
}
