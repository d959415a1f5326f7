use serde_json::{Value, json};

use super::*;

mod bounds;

fn definition(schema: Value, rules: Rules) -> Definition {
    Definition::compile(&schema.to_string(), rules, &[]).unwrap()
}

fn rules(aliases: &[(&str, &str)]) -> Rules {
    let aliases = aliases.iter().map(|(alias, name)| ((*alias).to_owned(), (*name).to_owned())).collect();
    Rules { aliases, ..Rules::default() }
}

/// The text that goes to the skill and the kinds of repair, or the message for the model.
fn prepare(definition: &Definition, text: &str) -> Result<(String, Vec<&'static str>), String> {
    match definition.prepare(text, Policy::Repair) {
        Ok(it) => Ok((it.text.into_owned(), it.repairs.iter().map(|repair| repair.kind.name()).collect())),
        Err(Rejected::Unreadable(reason)) => Err(reason),
        Err(Rejected::Unfit(feedback)) => Err(feedback.message()),
    }
}

fn repaired(definition: &Definition, text: &str, expected: &str, kinds: &[&str]) {
    let (out, made) = prepare(definition, text).unwrap_or_else(|message| panic!("{text}: {message}"));
    assert_eq!((out.as_str(), &made[..]), (expected, kinds), "{text}");
    let again = definition.prepare(&out, Policy::Repair).unwrap();
    assert!(again.repairs.is_empty() && again.text == out, "{text}: not stable");
}

fn refused(definition: &Definition, text: &str, word: &str) {
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
fn what_fits_goes_on_byte_for_byte() {
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
fn each_safe_repair_is_made_and_named() {
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
        ("```json\n{'task': 'x',}\n```", r#"{"task":"x"}"#, &["extracted", "syntax"]),
    ] {
        repaired(&it, text, expected, kinds);
    }
}

#[test]
fn digits_elsewhere_survive_a_repair() {
    let text = r#"{"task":"x","options":{"id":12345678901234567890123,"x":1.10},"max_steps":"3"}"#;
    let expected = r#"{"task":"x","options":{"id":12345678901234567890123,"x":1.10},"max_steps":3}"#;
    repaired(&task(), text, expected, &["string_to_integer"]);
}

#[test]
fn what_would_be_a_guess_is_refused_with_feedback() {
    let it = task();
    for (text, word) in [
        (r#"{"task":"x","tags":"a"}"#, "\"tags\" must be an array of strings"),
        (r#"{"task":"x","tags":"a, b"}"#, "\"tags\" must be an array of strings"),
        (r#"{"task":["x"]}"#, "\"task\" must be a string"),
        (r#"{"task":5}"#, "\"task\" must be a string, not 5"),
        (r#"{"task":"x","max_steps":1.5}"#, "an integer, at least 1, not 1.5"),
        (r#"{"task":"x","max_steps":"1.5"}"#, "not \"1.5\""),
        (r#"{"task":"x","max_steps":"05"}"#, "not \"05\""),
        (r#"{"task":"x","max_steps":true}"#, "not true"),
        (r#"{"task":"x","max_steps":"0"}"#, "at least 1"),
        (r#"{"task":"x","use_vision":"yes"}"#, "true or false"),
        (r#"{"task":"x","use_vision":1}"#, "true or false"),
        (r#"{"task":null}"#, "\"task\" must be a string, not null"),
        (r#"{"task":"x","mode":"Lik New"}"#, "did you mean \"Like New\"?"),
        (r#"{"task":"x","max_step":3}"#, "\"max_step\" is not known, did you mean \"max_steps\"?"),
        (r#"{"task":"x","query":"y"}"#, "\"query\" is not known, did you mean \"task\"?"),
        (r#"{"query":"x","goal":"y"}"#, "\"task\" is missing: a string"),
        (r#"{"max_steps":1,"maxSteps":2,"task":"x"}"#, "\"maxSteps\" is not known"),
        (r#"{"description":"y"}"#, "\"task\" is missing"),
        (r#"{"task":"x","task":"y"}"#, "twice"),
        (r#"{"task":"x""#, "cut off"),
        (r#"{"task":"x"} {"task":"y"}"#, "more than one"),
        (r#"{"task":NaN}"#, "NaN"),
        ("[]", "one JSON object"),
        ("5", "one JSON object"),
        (r#"[{"task":"x"}]"#, "one JSON object"),
    ] {
        refused(&it, text, word);
    }
}

#[test]
fn feedback_shows_a_call_that_is_right_with_the_models_own_values() {
    let it = task();
    let Err(Rejected::Unfit(feedback)) = it.prepare(r#"{"max_steps":7,"use_vision":"yes"}"#, Policy::Repair) else {
        panic!("not refused")
    };
    let example = feedback.example.clone().unwrap();
    assert_eq!(example, json!({"task": "text", "max_steps": 7}));
    assert!(it.prepare(&example.to_string(), Policy::Strict).is_ok());
    assert_eq!(feedback.details()["violations"][0]["path"], "/task");
    assert!(feedback.message().ends_with(r#"Example: {"task":"text","max_steps":7}"#), "{}", feedback.message());
}

#[test]
fn strict_refuses_every_deviation() {
    let it = task();
    for text in [r#"{"task":"x","max_steps":"2"}"#, r#"{"query":"x"}"#, r#"{"task":"x",}"#, r#""{\"task\":\"x\"}""#] {
        assert!(it.prepare(text, Policy::Strict).is_err(), "{text}");
    }
    let own = definition(
        json!({"properties": {"a": {"type": "integer"}}}),
        Rules { policy: Policy::Strict, ..Rules::default() },
    );
    assert!(own.prepare(r#"{"a":"1"}"#, Policy::Repair).is_err(), "the stricter of the two holds");
}

#[test]
fn a_tool_without_parameters_drops_extras_and_one_that_takes_anything_keeps_them() {
    for none in [
        json!({"type": "object", "properties": {}}),
        json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false}),
        json!({"type": "object", "additionalProperties": false}),
    ] {
        repaired(
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
        repaired(&definition(anything, Rules::default()), r#"{"a":1,"input":2}"#, r#"{"a":1,"input":2}"#, &[]);
    }
}

#[test]
fn a_destructive_skill_loses_no_key_and_gets_no_default() {
    let careful = Rules { drop_unknown: false, fill_defaults: false, ..Rules::default() };
    let schema = json!({
        "type": "object",
        "properties": {"path": {"type": "string", "default": "/"}, "deep": {"type": "boolean"}},
        "required": ["path"],
    });
    let it = definition(schema.clone(), careful);
    refused(&it, r#"{"path":"/tmp","only":"*.log"}"#, "\"only\" is not known");
    refused(&it, "{}", "\"path\" is missing");
    let it = definition(schema, Rules::default());
    repaired(&it, r#"{"path":"/tmp","only":"*.log"}"#, r#"{"path":"/tmp"}"#, &["unknown_dropped"]);
    repaired(&it, "{}", r#"{"path":"/"}"#, &["default_filled"]);
    refused(&it, r#"{"only":"*.log"}"#, "\"path\" is missing");
}

#[test]
fn a_skill_without_a_schema_gets_what_was_written() {
    let it = Definition::without_schema(Rules::default());
    repaired(&it, r#"{"any":["thing",1]}"#, r#"{"any":["thing",1]}"#, &[]);
    repaired(&it, "{'any': None}", r#"{"any":null}"#, &["syntax"]);
    refused(&it, "[1]", "one JSON object");
}

#[test]
fn lists_with_commas_are_read_where_they_can_mean_one_thing() {
    let list =
        |items: Value| definition(json!({"properties": {"a": {"type": "array", "items": items}}}), Rules::default());
    let words = list(json!({"enum": ["tolls", "highways"]}));
    repaired(&words, r#"{"a":"tolls,highways"}"#, r#"{"a":["tolls","highways"]}"#, &["string_to_array"]);
    refused(&words, r#"{"a":"tolls"}"#, "array");
    refused(&words, r#"{"a":"tolls,ferries"}"#, "array");
    let numbers = list(json!({"type": "number"}));
    repaired(&numbers, r#"{"a":"43.6, -79.3"}"#, r#"{"a":[43.6,-79.3]}"#, &["string_to_array"]);
    refused(&numbers, r#"{"a":"1,000"}"#, "array");
    refused(&numbers, r#"{"a":"43.6"}"#, "array");
    refused(&list(json!({"type": "string"})), r#"{"a":"x, y"}"#, "array");
}

#[test]
fn a_choice_of_types_is_repaired_only_where_one_fits() {
    let any = |schema: Value| definition(json!({"properties": {"a": schema}}), Rules::default());
    let number_or_flag = any(json!({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}));
    repaired(&number_or_flag, r#"{"a":"5"}"#, r#"{"a":5}"#, &["string_to_integer"]);
    repaired(&number_or_flag, r#"{"a":"True"}"#, r#"{"a":true}"#, &["string_to_boolean"]);
    repaired(&number_or_flag, r#"{"a":null}"#, "{}", &["null_dropped"]);
    refused(&number_or_flag, r#"{"a":"x"}"#, "an integer or true or false");
    repaired(&any(json!({"type": ["string", "integer"]})), r#"{"a":"5"}"#, r#"{"a":"5"}"#, &[]);
    let cards = any(json!({"oneOf": [
        {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        {"type": "array", "items": {"type": "integer"}},
    ]}));
    repaired(&cards, r#"{"a":{"n":"5"}}"#, r#"{"a":{"n":5}}"#, &["string_to_integer"]);
    repaired(&cards, r#"{"a":"[1]"}"#, r#"{"a":[1]}"#, &["string_to_array"]);
    let two = any(json!({"anyOf": [{"const": "AB"}, {"const": "ab"}]}));
    refused(&two, r#"{"a":"Ab"}"#, "\"AB\" or \"ab\"");
}

#[test]
fn names_within_objects_are_folded_too() {
    let schema = json!({"properties": {"area": {"$ref": "#/$defs/area"}}, "$defs": {"area": {
        "type": "object", "properties": {"pixel_width": {"type": "integer"}}, "required": ["pixel_width"],
        "additionalProperties": false,
    }}});
    let it = definition(schema, Rules::default());
    repaired(
        &it,
        r#"{"area":{"pixelWidth":"5"}}"#,
        r#"{"area":{"pixel_width":5}}"#,
        &["key_fold", "string_to_integer"],
    );
}

#[test]
fn hostile_schemas_are_refused_with_a_reason() {
    for (schema, word) in [
        ("{", "EOF"),
        (r##"{"$ref": "#"}"##, "back to itself"),
        (r#"{"$ref": "https://example.com/x"}"#, "leads out"),
        (r#"{"properties": {"a": {"pattern": "(?=x)"}}}"#, "regex"),
        (r#"{"properties": {"a": {"type": "strin"}}}"#, "strin"),
    ] {
        let error = Definition::compile(schema, Rules::default(), &[]).unwrap_err();
        assert!(error.to_string().contains(word), "{schema}: {error}");
    }
}

#[test]
fn values_that_are_too_large_are_checked_and_not_changed() {
    let it = task();
    let long = "x".repeat(parse::MAX_REPAIRED_BYTES);
    assert!(it.prepare(&format!(r#"{{"task":"{long}"}}"#), Policy::Repair).is_ok());
    refused(&it, &format!(r#"{{"task":"{long}","max_steps":"5"}}"#), "too large to say where");
    let deep = format!(r#"{{"task":"x","options":{{"a":{}1{}}},"max_steps":"5"}}"#, "[".repeat(40), "]".repeat(40));
    assert!(it.prepare(&deep, Policy::Repair).is_ok());
    refused(&it, &deep.replace("\"x\"", &format!("\"{}\"", "x".repeat(60_000))), "too large to say where");
    let repair =
        it.prepare(&format!(r#"{{"task":"x","note":"{}"}}"#, "y".repeat(5000)), Policy::Repair).unwrap().repairs;
    assert!(repair[0].before.as_ref().unwrap().len() < 600);
}
