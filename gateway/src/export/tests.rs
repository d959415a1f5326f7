//! Tests what each provider gets, and that calls made by these definitions are valid.

use serde_json::{Value, json};

use super::*;
use crate::arguments::{Definition, Policy, Rules};

mod profiles;

fn tool<'a>(name: &'a str, schema: &'a Value) -> Tool<'a> {
    Tool {
        name,
        title: "",
        icons: &[],
        description: "Does it.",
        schema: Some(schema),
        output_schema_json: "",
        destructive: false,
        read_only: false,
        idempotent: true,
        refuses_repairs: false,
    }
}

fn one(schema: &Value, dialect: Dialect, strict: bool) -> Value {
    read(&export(&[tool("it", schema)], dialect, strict).tools[0])
}

fn read(definition: &str) -> Value {
    serde_json::from_str(definition).unwrap()
}

fn openai_strict(schema: &Value) -> Value {
    one(schema, Dialect::OpenAi, true)["function"].clone()
}

fn property(schema: Value) -> Value {
    json!({"type": "object", "properties": {"p": schema}, "required": ["p"], "additionalProperties": false})
}

#[test]
fn an_optional_parameter_is_nullable_if_all_must_be_required() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string"},
        "b": {"type": "integer", "default": 5, "minimum": 1},
        "c": {"enum": ["x", "y"]},
        "d": {"type": "object", "properties": {"e": {"type": "boolean"}}, "additionalProperties": false},
        "f": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null},
    }, "required": ["a"]});
    let function = openai_strict(&schema);
    assert_eq!(function["strict"], true);
    let parameters = &function["parameters"];
    assert_eq!(parameters["required"], json!(["a", "b", "c", "d", "f"]));
    assert_eq!(
        parameters["properties"]["b"],
        json!({"type": ["integer", "null"], "minimum": 1, "description": "Default: 5. Use null to omit it."})
    );
    assert_eq!(
        parameters["properties"]["c"],
        json!({"type": ["string", "null"], "enum": ["x", "y", null], "description": "Use null to omit it."})
    );
    assert_eq!(parameters["properties"]["d"]["type"], json!(["object", "null"]));
    assert_eq!(parameters["properties"]["f"]["type"], json!(["string", "null"]));
    // A call that follows this definition is valid once its nulls are dropped, and gets the default of `b`.
    let definition = Definition::compile(&schema.to_string(), Rules::default(), &[]).unwrap();
    let call = r#"{"a":"x","b":null,"c":null,"d":{"e":null},"f":null}"#;
    assert_eq!(definition.prepare(call, Policy::Repair).unwrap().text, r#"{"a":"x","d":{},"f":null,"b":5}"#);
}

#[test]
fn unsupported_schemas_become_json_text_that_is_decoded() {
    for (schema, written, read) in [
        (json!({"type": "object", "additionalProperties": {"type": "integer"}}), r#"{"x": 1}"#, json!({"x": 1})),
        (json!({"type": "array"}), "[1, null]", json!([1, null])),
        (
            json!({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}),
            r#"[1, "a"]"#,
            json!([1, "a"]),
        ),
        (
            json!({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]}),
            "[1, 2]",
            json!([1, 2]),
        ),
    ] {
        let schema = property(schema);
        for dialect in [Dialect::Gemini, Dialect::DashScope] {
            let tool = one(&schema, dialect, false);
            let parameters = tool.get("parameters").unwrap_or(&tool["function"]["parameters"]);
            assert_eq!(parameters["properties"]["p"]["type"], "string", "{tool}");
            assert!(
                parameters["properties"]["p"]["description"]
                    .as_str()
                    .unwrap()
                    .starts_with("Write the value as JSON text")
            );
        }
        let definition = Definition::compile(&schema.to_string(), Rules::default(), &[]).unwrap();
        let call = json!({ "p": written }).to_string();
        let prepared = definition.prepare(&call, Policy::Repair).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&prepared.text).unwrap(), json!({ "p": read }));
    }
}

#[test]
fn no_json_text_is_asked_for_where_a_string_is_valid() {
    for schema in
        [json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}), json!({}), json!(true)]
    {
        let tool = one(&property(schema), Dialect::Gemini, false);
        let description = tool["parameters"]["properties"]["p"]["description"].as_str().unwrap();
        assert!(description.starts_with("Text only;"), "{description}");
    }
    assert_eq!(openai_strict(&property(json!({}))).get("strict"), None);
}

#[test]
fn a_choice_at_the_top_level_keeps_all_branches_and_is_never_strict() {
    let schema = json!({"type": "object", "oneOf": [
        {"properties": {"k": {"const": "x"}, "v": {"type": "integer"}}, "required": ["k", "v"]},
        {"properties": {"k": {"const": "y"}, "w": {"type": "string"}}, "required": ["k", "w"]},
    ]});
    for dialect in [Dialect::OpenAi, Dialect::OpenAiResponses, Dialect::Anthropic, Dialect::Gemini, Dialect::DashScope]
    {
        let exported = export(&[tool("it", &schema)], dialect, true);
        let text = &exported.tools[0];
        assert!(!text.contains("\"strict\":true"), "{text}");
        assert!(text.contains("Must match exactly one of"), "{text}");
        assert!(text.contains("\"x\"") && text.contains("\"y\"") && text.contains("\"w\""), "{text}");
    }
    let fixed = openai_strict(&schema);
    assert_eq!(fixed["parameters"]["properties"]["k"]["enum"], json!(["x", "y"]));
}

#[test]
fn references_are_inlined_and_recursion_ends_in_text() {
    let schema = json!({
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/a%20node"}, "other": {"$ref": "#/$defs/a%20node", "description": "Other."}},
        "required": ["tree", "other"],
        "$defs": {"a node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "next": {"anyOf": [{"$ref": "#/$defs/a%20node"}, {"type": "null"}]},
                "prev": {"allOf": [{"$ref": "#/$defs/a%20node"}]},
            },
            "required": ["value", "next", "prev"],
            "additionalProperties": false,
        }},
    });
    let function = openai_strict(&schema);
    let node = &function["parameters"]["properties"]["tree"]["properties"];
    assert_eq!(node["value"], json!({"type": "integer"}));
    assert_eq!((&node["next"]["type"], &node["prev"]["type"]), (&json!(["string", "null"]), &json!("string")));
    assert_eq!(function["parameters"]["properties"]["other"]["description"], "Other.");
    assert!(!function.to_string().contains("$ref"), "{function}");
    assert!(function.to_string().len() < 8000);
}

#[test]
fn an_optional_choice_of_words_has_a_single_type_for_gemini() {
    for schema in [
        json!({"anyOf": [{"type": "string", "enum": ["p", "q"]}, {"type": "null"}], "default": null, "title": "C"}),
        json!({"enum": ["p", "q", null]}),
        json!({"type": ["string", "null"], "enum": ["p", "q", null]}),
    ] {
        let p = &one(&property(schema), Dialect::Gemini, false)["parameters"]["properties"]["p"];
        assert_eq!((&p["type"], &p["enum"], p.get("anyOf")), (&json!("string"), &json!(["p", "q"]), None), "{p}");
    }
}

#[test]
fn references_into_what_the_top_level_loses_still_resolve() {
    let target = json!({"type": "object", "properties": {"id": {"type": "integer"}}});
    let choice = json!({"type": "object", "anyOf": [
        {"type": "object", "properties": {"kind": {"const": "a"}, "target": target}},
        {"type": "object", "properties": {"kind": {"const": "b"}, "other": {"$ref": "#/anyOf/0/properties/target"}}},
    ]});
    let part = json!({"type": "object", "properties": {"other": {"$ref": "#/allOf/0/properties/target"}}, "$defs": {"top0": {}},
        "allOf": [{"properties": {"target": target, "again": {"$ref": "#/allOf/0/properties/target"}}}]});
    for schema in [choice, part] {
        let exported = &one(&schema, Dialect::Anthropic, false)["input_schema"];
        let reference = exported["properties"]["other"]["$ref"].as_str().unwrap();
        assert_eq!(openskill_skill::schema::lookup(exported, reference), Some(&target), "{exported}");
    }
}

#[test]
fn mcp_is_always_given_properties() {
    let nothing = json!({});
    let given = Tool { schema: None, ..tool("it", &nothing) };
    let exported = read(&export(&[given], Dialect::Mcp, false).tools[0]);
    assert_eq!(exported["inputSchema"], json!({"type": "object", "properties": {}}));
    assert_eq!(one(&json!({}), Dialect::Mcp, false)["inputSchema"], json!({"type": "object", "properties": {}}));
}

#[test]
fn many_references_do_not_multiply() {
    let references: serde_json::Map<_, _> =
        (0..300).map(|at| (format!("p{at}"), json!({"$ref": "#/$defs/n"}))).collect();
    let schema = json!({"type": "object", "properties": references.clone(), "$defs": {
        "n": {"type": "object", "properties": references},
    }});
    let text = one(&schema, Dialect::OpenAi, false).to_string();
    assert!(text.len() < 2_000_000, "{}", text.len());
}

#[test]
fn keywords_next_to_a_choice_apply_to_each_branch() {
    let schema =
        property(json!({"type": "string", "description": "A word.", "anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]}));
    let p = &openai_strict(&schema)["parameters"]["properties"]["p"];
    assert_eq!(
        *p,
        json!({"description": "A word.", "anyOf": [
            {"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^b"},
        ]})
    );
    let parts =
        property(json!({"allOf": [{"type": "integer", "minimum": 1}, {"minimum": 5, "maximum": 9}, {"maximum": 7}]}));
    let p = &openai_strict(&parts)["parameters"]["properties"]["p"];
    assert_eq!(*p, json!({"type": "integer", "minimum": 5, "maximum": 7}));
}

#[test]
fn bounds_stay_with_their_type_and_the_rest_is_described() {
    let p = one(&property(json!({"type": "integer", "minItems": 3, "minimum": 2})), Dialect::OpenAi, true);
    let p = &p["function"]["parameters"]["properties"]["p"];
    assert_eq!((p["minimum"].as_i64(), p.get("minItems")), (Some(2), None));
    let anthropic =
        one(&property(json!({"type": "string", "minLength": 3, "format": "uri"})), Dialect::Anthropic, true);
    let p = &anthropic["input_schema"]["properties"]["p"];
    assert_eq!(*p, json!({"type": "string", "format": "uri", "description": "At least 3 characters."}));
    let nullable = one(&property(json!({"type": ["string", "null"], "enum": ["x", null]})), Dialect::Anthropic, true);
    assert_eq!(nullable["input_schema"]["properties"]["p"]["anyOf"][1], json!({"type": "null"}));
    let gemini = one(&property(json!({"enum": ["", "a"], "type": "string", "format": "date"})), Dialect::Gemini, false);
    assert_eq!(gemini["parameters"]["properties"]["p"]["enum"], json!(["a"]));
}

#[test]
fn a_skill_that_refuses_repairs_is_not_strict_if_that_needs_them() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let careful = Tool { refuses_repairs: true, ..tool("it", &schema) };
    let exported = export(&[careful], Dialect::OpenAi, true);
    assert_eq!(read(&exported.tools[0])["function"].get("strict"), None);
    assert!(exported.notes[0].contains("not strict"));
    assert_eq!(read(&export(&[careful], Dialect::Anthropic, true).tools[0])["strict"], true);
}

#[test]
fn only_strict_tools_count_against_anthropics_limits() {
    let open = json!({"type": "object", "properties": {}, "additionalProperties": true});
    let closed = property(json!({"type": "string"}));
    let tools: Vec<_> = (0..25).map(|_| tool("open", &open)).chain((0..25).map(|_| tool("closed", &closed))).collect();
    let exported = export(&tools, Dialect::Anthropic, true);
    let strict = exported.tools.iter().filter(|tool| read(tool)["strict"] == true).count();
    assert_eq!(strict, 20);
    assert_eq!(exported.names.len(), 50, "every name must be unique");
}

#[test]
fn a_cached_definition_is_used_unless_the_name_differs() {
    let schema = property(json!({"type": "string"}));
    let now = tool("a", &schema);
    let changed = Tool { description: "The owner of the cache drops it on a change.", ..now };
    for dialect in Dialect::ALL {
        for strict in [false, true] {
            let forms: Vec<_> = (0..2).map(|_| Forms::default()).collect();
            let known = |tools: &[(Tool<'_>, &Forms)]| export_known(tools, dialect, strict);
            let both = known(&[(now, &forms[0]), (now, &forms[1])]);
            assert_eq!(both, export(&[now, now], dialect, strict));
            assert_eq!(
                known(&[(changed, &forms[0])]).tools[0],
                both.tools[0],
                "the definition must come from the cache"
            );
            // The second one was cached under another name.
            assert_eq!(known(&[(now, &forms[1])]), export(&[now], dialect, strict));
        }
    }
}
