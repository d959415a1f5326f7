//! Tests when absent parameters get their defaults.

use serde_json::json;

use super::definition;
use crate::arguments::{Policy, Rules};

#[test]
fn absent_optional_parameters_get_their_defaults_unless_the_rules_or_the_policy_forbid_it() {
    let schema = json!({"type": "object", "required": ["q"], "properties": {
        "q": {"type": "string"}, "limit": {"type": "integer", "default": 10},
        "options": {"type": "object", "properties": {"deep": {"type": "boolean", "default": false}}},
    }});
    let filled = |rules: Rules, text: &str, policy: Policy| {
        let prepared = definition(schema.clone(), rules).prepare(text, policy).unwrap().text.into_owned();
        (prepared != text).then_some(prepared)
    };
    let text = r#"{ "options" : {}, "q":"12345678901234567890123" }"#;
    let expected = r#"{ "options" : {"deep":false}, "q":"12345678901234567890123","limit":10 }"#;
    assert_eq!(filled(Rules::default(), text, Policy::Repair).as_deref(), Some(expected));
    assert_eq!(filled(Rules::default(), text, Policy::Strict), None);
    for rules in [
        Rules { fill_defaults: false, ..Rules::default() },
        Rules { fill_optional: false, ..Rules::default() },
        Rules { policy: Policy::Strict, ..Rules::default() },
    ] {
        assert_eq!(filled(rules.clone(), text, Policy::Repair), None, "{rules:?}");
    }
    // A repair removes the null that a model writes for what it omits.
    let it = definition(schema.clone(), Rules::default());
    let prepared = it.prepare(r#"{"q":"x","limit":null,"why":1}"#, Policy::Repair).unwrap();
    assert_eq!(
        (prepared.text.as_ref(), &prepared.defaults[..]),
        (r#"{"q":"x","limit":10}"#, &["/limit".to_owned()][..])
    );
    assert_eq!(prepared.repairs.len(), 2);
}

#[test]
fn defaults_that_are_too_large_are_left_out_with_a_warning() {
    let row = json!({"type": "object", "properties": {"a": {"default": "x".repeat(1000)}}});
    let it = definition(json!({"properties": {"rows": {"items": row}}}), Rules::default());
    let call = json!({ "rows": vec![json!({}); 1000] }).to_string();
    let prepared = it.prepare(&call, Policy::Repair).unwrap();
    assert!(prepared.text == call && prepared.warning.unwrap().contains("got no defaults"));
    // With its defaults, this call would have too many values.
    let call = json!({ "rows": vec![json!({}); 20], "n": vec![1; 99_970] }).to_string();
    let row = json!({"type": "object", "properties": {"a": {"default": 1}}});
    let it = definition(json!({"properties": {"n": {}, "rows": {"items": row}}}), Rules::default());
    assert_eq!(it.prepare(&call, Policy::Repair).unwrap().text, call);
}
