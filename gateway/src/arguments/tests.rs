//! Tests what is repaired, what is rejected, and with which feedback.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::*;

mod alone;
mod bounds;
mod defaults;
mod keys;
mod properties;

fn definition(schema: Value, rules: Rules) -> Definition {
    Definition::compile(&schema.to_string(), rules, &[]).unwrap()
}

fn rules(aliases: &[(&str, &str)]) -> Rules {
    let aliases = aliases.iter().map(|(alias, name)| ((*alias).to_owned(), (*name).to_owned())).collect();
    Rules { aliases, ..Rules::default() }
}

/// Returns the text for the skill and the kinds of repair, or the message for the model.
fn prepare(definition: &Definition, text: &str) -> Result<(String, Vec<&'static str>), String> {
    match definition.prepare(text, Policy::Repair) {
        Ok(it) => Ok((it.text.into_owned(), it.repairs.iter().map(|repair| repair.kind.name()).collect())),
        Err(Rejected::Unreadable(reason)) => Err(reason),
        Err(Rejected::Unfit(feedback)) => Err(feedback.message()),
    }
}

fn assert_repaired(definition: &Definition, text: &str, expected: &str, kinds: &[&str]) {
    let (out, made) = prepare(definition, text).unwrap_or_else(|message| panic!("{text}: {message}"));
    assert_eq!((out.as_str(), &made[..]), (expected, kinds), "{text}");
    let again = definition.prepare(&out, Policy::Repair).unwrap();
    assert!(again.repairs.is_empty() && again.text == out, "{text}: the repaired text is changed again");
}

fn assert_rejected(definition: &Definition, text: &str, word: &str) {
    let message = prepare(definition, text).map(|it| panic!("{text}: {it:?}")).unwrap_err();
    assert!(message.contains(word), "{text}: {message}");
}

fn task() -> Definition {
    let schema = json!({
        "type": "object",
        "properties": {
            "task": {"type": "string", "description": "What to do."},
            "max_steps": {"type": "integer", "minimum": 1},
            "use_vision": {"type": "boolean"},
            "mode": {"enum": ["Like New", "used", 3]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "options": {"type": "object", "properties": {"depth": {"type": "number"}}},
        },
        "required": ["task"],
        "additionalProperties": false,
    });
    definition(schema, rules(&[("query", "task"), ("goal", "task"), ("steps", "max_steps")]))
}

#[test]
fn valid_arguments_pass_byte_for_byte() {
    for text in [
        " {\"task\" : \"a\\u0041\", \"max_steps\":5 } ",
        r#"{"task":"x","options":{"other":12345678901234567890123,"depth":1.50}}"#,
        r#"{"task":"true","tags":["1","null"]}"#,
    ] {
        let prepared = task().prepare(text, Policy::Repair).unwrap();
        assert_eq!((prepared.text.as_ref(), prepared.repairs.len()), (text, 0));
        assert!(matches!(prepared.text, Cow::Borrowed(_)));
        assert!(task().prepare(text, Policy::Strict).is_ok());
    }
}

#[test]
fn every_safe_repair_is_made_and_named() {
    let it = task();
    for (text, expected, kinds) in [
        (r#""{\"task\":\"x\"}""#, r#"{"task":"x"}"#, &["double_encoded"][..]),
        (r#"{"arguments":{"task":"x"}}"#, r#"{"task":"x"}"#, &["wrapper"]),
        (r#"{"input":"{\"task\":\"x\"}"}"#, r#"{"task":"x"}"#, &["wrapper", "double_encoded"]),
        (r#"{"task":"x","max_steps":null}"#, r#"{"task":"x"}"#, &["null_dropped"]),
        (r#"{"task":"x","max_steps":"20"}"#, r#"{"task":"x","max_steps":20}"#, &["string_to_integer"]),
        (r#"{"task":"x","use_vision":"True"}"#, r#"{"task":"x","use_vision":true}"#, &["string_to_boolean"]),
        (r#"{"task":"x","tags":"['a', 'b']"}"#, r#"{"task":"x","tags":["a","b"]}"#, &["string_to_array"]),
        (
            r#"{"task":"x","options":"{\"depth\": \"0.50\"}"}"#,
            r#"{"task":"x","options":{"depth":0.50}}"#,
            &["string_to_object", "string_to_number"],
        ),
        (r#"{"task":"x","mode":"like_new"}"#, r#"{"task":"x","mode":"Like New"}"#, &["enum_fold"]),
        (r#"{"task":"x","mode":"3"}"#, r#"{"task":"x","mode":3}"#, &["string_to_integer"]),
        (r#"{"Task":"x","maxSteps":2}"#, r#"{"task":"x","max_steps":2}"#, &["key_fold", "key_fold"]),
        (r#"{"query":"x"}"#, r#"{"task":"x"}"#, &["alias"]),
        (r#"{"query":"x","steps":"2"}"#, r#"{"task":"x","max_steps":2}"#, &["alias", "alias", "string_to_integer"]),
        (r#"{"task":"x","description":"y"}"#, r#"{"task":"x"}"#, &["unknown_dropped"]),
        (r#"{"task":25}"#, r#"{"task":"25"}"#, &["integer_to_string"]),
        (r#"{"task":-12345678901234567890123}"#, r#"{"task":"-12345678901234567890123"}"#, &["integer_to_string"]),
        (
            r#"{"args":{"task":1,"tags":[2]}}"#,
            r#"{"task":"1","tags":["2"]}"#,
            &["wrapper", "integer_to_string", "integer_to_string"],
        ),
        ("```json\n{'task': 'x',}\n```", r#"{"task":"x"}"#, &["extracted", "syntax"]),
    ] {
        assert_repaired(&it, text, expected, kinds);
    }
}

#[test]
fn a_repair_keeps_the_digits_of_other_numbers() {
    let text = r#"{"task":"x","options":{"id":12345678901234567890123,"x":1.10},"max_steps":"3"}"#;
    let expected = r#"{"task":"x","options":{"id":12345678901234567890123,"x":1.10},"max_steps":3}"#;
    assert_repaired(&task(), text, expected, &["string_to_integer"]);
}

#[test]
fn a_guess_is_rejected_with_feedback() {
    let it = task();
    for (text, word) in [
        (r#"{"task":"x","tags":"a"}"#, "\"tags\" must be an array of strings"),
        (r#"{"task":"x","tags":"a, b"}"#, "\"tags\" must be an array of strings"),
        (r#"{"task":["x"]}"#, "\"task\" must be a string"),
        (r#"{"task":5.0}"#, "\"task\" must be a string, not 5"),
        (r#"{"task":true}"#, "\"task\" must be a string, not true"),
        (r#"{"task":5,"max_steps":"many"}"#, "\"task\" must be a string, not 5"),
        (r#"{"task":5,"max_steps":"20"}"#, "\"task\" must be a string, not 5"),
        (r#"{"task":"x","max_steps":1.5}"#, "an integer of at least 1, not 1.5"),
        (r#"{"task":"x","max_steps":"1.5"}"#, "not \"1.5\""),
        (r#"{"task":"x","max_steps":"05"}"#, "not \"05\""),
        (r#"{"task":"x","max_steps":true}"#, "not true"),
        (r#"{"task":"x","max_steps":"0"}"#, "at least 1"),
        (r#"{"task":"x","use_vision":"yes"}"#, "true or false"),
        (r#"{"task":"x","use_vision":1}"#, "true or false"),
        (r#"{"task":null}"#, "\"task\" must be a string, not null"),
        (r#"{"task":"x","mode":"Lik New"}"#, "not \"Lik New\" (did you mean \"Like New\"?)"),
        (r#"{"task":"x","max_step":3}"#, "unknown parameter \"max_step\" (did you mean \"max_steps\"?)"),
        (r#"{"task":"x","query":"y"}"#, "unknown parameter \"query\" (did you mean \"task\"?)"),
        (r#"{"query":"x","goal":"y"}"#, "\"task\" is missing (expected a string)"),
        (r#"{"max_steps":1,"maxSteps":2,"task":"x"}"#, "unknown parameter \"maxSteps\""),
        (r#"{"description":"y"}"#, "\"task\" is missing"),
        (r#"{"task":"x","task":"y"}"#, "duplicate key"),
        (r#"{"task":"x""#, "cut off"),
        (r#"{"task":"x"} {"task":"y"}"#, "more than one"),
        (r#"{"task":NaN}"#, "NaN"),
        ("[]", "a single JSON object"),
        ("5", "a single JSON object"),
        (r#"[{"task":"x"}]"#, "a single JSON object"),
    ] {
        assert_rejected(&it, text, word);
    }
}

#[test]
fn feedback_shows_a_valid_call_with_the_models_own_values() {
    let it = task();
    let Err(Rejected::Unfit(feedback)) = it.prepare(r#"{"max_steps":7,"use_vision":"yes"}"#, Policy::Repair) else {
        panic!("not rejected")
    };
    let example = feedback.example.clone().unwrap();
    assert_eq!(example, json!({"task": "text", "max_steps": 7}));
    assert!(it.prepare(&example.to_string(), Policy::Strict).is_ok());
    assert_eq!(feedback.details()["violations"][0]["path"], "/task");
    assert!(feedback.message().ends_with(r#"Example: {"task":"text","max_steps":7}"#), "{}", feedback.message());
}

#[test]
fn the_strict_policy_rejects_every_deviation() {
    let it = task();
    for text in [r#"{"task":"x","max_steps":"2"}"#, r#"{"query":"x"}"#, r#"{"task":"x",}"#, r#""{\"task\":\"x\"}""#] {
        assert!(it.prepare(text, Policy::Strict).is_err(), "{text}");
    }
    let own = definition(
        json!({"properties": {"a": {"type": "integer"}}}),
        Rules { policy: Policy::Strict, ..Rules::default() },
    );
    assert!(own.prepare(r#"{"a":"1"}"#, Policy::Repair).is_err(), "the stricter policy applies");
}

#[test]
fn unknown_keys_are_dropped_without_parameters_and_kept_by_open_schemas() {
    for none in [
        json!({"type": "object", "properties": {}}),
        json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false}),
        json!({"type": "object", "additionalProperties": false}),
    ] {
        assert_repaired(
            &definition(none, Rules::default()),
            r#"{"a":1,"b":{}}"#,
            "{}",
            &["unknown_dropped", "unknown_dropped"],
        );
    }
    for anything in [
        json!({"type": "object"}),
        json!({"type": "object", "properties": {}, "additionalProperties": true}),
        json!({"type": "object", "properties": {"x": {}}, "additionalProperties": {"type": "integer"}}),
    ] {
        assert_repaired(&definition(anything, Rules::default()), r#"{"a":1,"input":2}"#, r#"{"a":1,"input":2}"#, &[]);
    }
}

#[test]
fn careful_rules_drop_no_key_and_fill_no_default() {
    let careful = Rules { drop_unknown: false, fill_defaults: false, ..Rules::default() };
    let schema = json!({
        "type": "object",
        "properties": {"path": {"type": "string", "default": "/"}, "deep": {"type": "boolean"}},
        "required": ["path"],
    });
    let it = definition(schema.clone(), careful);
    assert_rejected(&it, r#"{"path":"/tmp","only":"*.log"}"#, "unknown parameter \"only\"");
    assert_rejected(&it, "{}", "\"path\" is missing");
    let it = definition(schema, Rules::default());
    assert_repaired(&it, r#"{"path":"/tmp","only":"*.log"}"#, r#"{"path":"/tmp"}"#, &["unknown_dropped"]);
    assert_repaired(&it, "{}", r#"{"path":"/"}"#, &["default_filled"]);
    assert_rejected(&it, r#"{"only":"*.log"}"#, "\"path\" is missing");
}

#[test]
fn a_skill_without_a_schema_gets_its_arguments_unchecked() {
    let it = Definition::without_schema(Rules::default());
    assert_repaired(&it, r#"{"any":["thing",1]}"#, r#"{"any":["thing",1]}"#, &[]);
    assert_repaired(&it, "{'any': None}", r#"{"any":null}"#, &["syntax"]);
    assert_rejected(&it, "[1]", "a single JSON object");
}

#[test]
fn comma_separated_lists_are_read_only_if_unambiguous() {
    let list =
        |items: Value| definition(json!({"properties": {"a": {"type": "array", "items": items}}}), Rules::default());
    let words = list(json!({"enum": ["tolls", "highways"]}));
    assert_repaired(&words, r#"{"a":"tolls,highways"}"#, r#"{"a":["tolls","highways"]}"#, &["string_to_array"]);
    assert_rejected(&words, r#"{"a":"tolls"}"#, "array");
    assert_rejected(&words, r#"{"a":"tolls,ferries"}"#, "array");
    let numbers = list(json!({"type": "number"}));
    assert_repaired(&numbers, r#"{"a":"43.6, -79.3"}"#, r#"{"a":[43.6,-79.3]}"#, &["string_to_array"]);
    assert_repaired(&numbers, r#"{"a":"1, 2, 3"}"#, r#"{"a":[1,2,3]}"#, &["string_to_array"]);
    assert_repaired(&numbers, r#"{"a":"1,2,3"}"#, r#"{"a":[1,2,3]}"#, &["string_to_array"]);
    assert_repaired(&numbers, r#"{"a":"43.6,-79.3"}"#, r#"{"a":[43.6,-79.3]}"#, &["string_to_array"]);
    for one in ["1,000", "1,5", "1,234,567", "1, 2,500"] {
        assert_rejected(&numbers, &json!({"a": one}).to_string(), "array");
    }
    assert_rejected(&numbers, r#"{"a":"43.6"}"#, "array");
    assert_rejected(&list(json!({"type": "string"})), r#"{"a":"x, y"}"#, "array");
}

#[test]
fn a_choice_of_types_is_repaired_only_if_one_fits() {
    let any = |schema: Value| definition(json!({"properties": {"a": schema}}), Rules::default());
    let number_or_flag = any(json!({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}));
    assert_repaired(&number_or_flag, r#"{"a":"5"}"#, r#"{"a":5}"#, &["string_to_integer"]);
    assert_repaired(&number_or_flag, r#"{"a":"True"}"#, r#"{"a":true}"#, &["string_to_boolean"]);
    assert_repaired(&number_or_flag, r#"{"a":null}"#, "{}", &["null_dropped"]);
    assert_rejected(&number_or_flag, r#"{"a":"x"}"#, "an integer or true or false");
    assert_repaired(&any(json!({"type": ["string", "integer"]})), r#"{"a":"5"}"#, r#"{"a":"5"}"#, &[]);
    let cards = any(json!({"oneOf": [
        {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        {"type": "array", "items": {"type": "integer"}},
    ]}));
    assert_repaired(&cards, r#"{"a":{"n":"5"}}"#, r#"{"a":{"n":5}}"#, &["string_to_integer"]);
    assert_repaired(&cards, r#"{"a":"[1]"}"#, r#"{"a":[1]}"#, &["string_to_array"]);
    let two = any(json!({"anyOf": [{"const": "AB"}, {"const": "ab"}]}));
    assert_rejected(&two, r#"{"a":"Ab"}"#, "\"AB\" or \"ab\"");
}

#[test]
fn keys_of_nested_objects_are_folded() {
    let schema = json!({"properties": {"area": {"$ref": "#/$defs/area"}}, "$defs": {"area": {
        "type": "object", "properties": {"pixel_width": {"type": "integer"}}, "required": ["pixel_width"],
        "additionalProperties": false,
    }}});
    let it = definition(schema, Rules::default());
    assert_repaired(
        &it,
        r#"{"area":{"pixelWidth":"5"}}"#,
        r#"{"area":{"pixel_width":5}}"#,
        &["key_fold", "string_to_integer"],
    );
}

#[test]
fn feedback_names_what_an_older_draft_means() {
    let draft = |uri: &str, p: Value| definition(json!({"$schema": uri, "properties": {"p": p}}), Rules::default());
    let pair = json!({"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": false});
    let pair = draft("http://json-schema.org/draft-07/schema#", pair);
    assert_repaired(&pair, r#"{"p":["a","1"]}"#, r#"{"p":["a",1]}"#, &["string_to_integer"]);
    assert_rejected(&pair, r#"{"p":["a",1,2]}"#, "\"p/2\" must be omitted, not 2");
    let above = json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true});
    let above = draft("http://json-schema.org/draft-04/schema#", above);
    assert_rejected(&above, r#"{"p":0}"#, "\"p\" must be an integer greater than 0, not 0");
}

#[test]
fn references_by_name_are_followed() {
    let node = json!({"type": "object", "properties": {"next": {"$ref": "#node"}, "n": {"type": "integer"}}});
    for (keyword, reference) in [("$anchor", "$ref"), ("$dynamicAnchor", "$dynamicRef"), ("$dynamicAnchor", "$ref")] {
        let mut node = node.clone();
        node[keyword] = json!("node");
        node["properties"]["next"] = json!({ reference: "#node" });
        let it =
            definition(json!({"properties": {"first": {"$ref": "#node"}}, "$defs": {"node": node}}), Rules::default());
        let call = r#"{"first":{"next":{"n":"1"}}}"#;
        assert_repaired(&it, call, r#"{"first":{"next":{"n":1}}}"#, &["string_to_integer"]);
    }
}

#[test]
fn hostile_schemas_are_refused_with_a_reason() {
    for (schema, word) in [
        ("{", "EOF"),
        (r##"{"$ref": "#"}"##, "back to itself"),
        (r#"{"$ref": "https://example.com/x"}"#, "points outside"),
        (r#"{"properties": {"a": {"pattern": "(?=x)"}}}"#, "regex"),
        (r#"{"properties": {"a": {"type": "strin"}}}"#, "strin"),
    ] {
        let error = Definition::compile(schema, Rules::default(), &[]).unwrap_err();
        assert!(error.to_string().contains(word), "{schema}: {error}");
    }
}

#[test]
fn large_arguments_are_validated_but_not_repaired() {
    let it = task();
    let long = "x".repeat(parse::MAX_REPAIRED_BYTES);
    assert!(it.prepare(&format!(r#"{{"task":"{long}"}}"#), Policy::Repair).is_ok());
    assert_rejected(&it, &format!(r#"{{"task":"{long}","max_steps":"5"}}"#), "too large to say where");
    let deep = format!(r#"{{"task":"x","options":{{"a":{}1{}}},"max_steps":"5"}}"#, "[".repeat(40), "]".repeat(40));
    assert!(it.prepare(&deep, Policy::Repair).is_ok());
    assert_rejected(&it, &deep.replace("\"x\"", &format!("\"{}\"", "x".repeat(60_000))), "too large to say where");
    let repair =
        it.prepare(&format!(r#"{{"task":"x","note":"{}"}}"#, "y".repeat(5000)), Policy::Repair).unwrap().repairs;
    assert!(repair[0].before.as_ref().unwrap().len() < 600);
}
