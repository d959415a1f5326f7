//! Prepares any text against a schema with many features. The result is valid and stable, and was changed if and only if
//! the text was invalid. If the text has several lines, the first one is the schema.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use openskill_gateway::arguments::{Definition, Policy, Rules, compile_schema};
use serde_json::Value;

const SCHEMA: &str = r##"{
    "type": "object",
    "properties": {
        "task": {"type": "string"},
        "max_steps": {"type": "integer", "minimum": 1, "default": 5},
        "ratio": {"type": ["number", "null"]},
        "flag": {"type": "boolean"},
        "mode": {"enum": ["Like New", "used", 3, true, null]},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "compare": {"type": "object", "properties": {"with": {"type": ["string", "null"]}}, "required": ["with"]},
        "numbers": {"type": "array", "items": {"type": "number"}, "minItems": 1},
        "any": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/node"}, {"type": "array", "items": {"type": "boolean"}}]},
        "node": {"$ref": "#/$defs/node"}
    },
    "required": ["task", "max_steps"],
    "$defs": {"node": {
        "type": "object",
        "properties": {"next_node": {"$ref": "#/$defs/node"}, "value": {"type": "integer"}},
        "required": ["value"],
        "additionalProperties": false
    }}
}"##;

static DEFINITION: LazyLock<Definition> = LazyLock::new(|| compile(SCHEMA).unwrap());

fn compile(schema: &str) -> Option<Definition> {
    let aliases = [("query".to_owned(), "task".to_owned())].into();
    Definition::compile(schema, Rules { aliases, ..Rules::default() }, &[]).ok()
}

fn check(definition: &Definition, text: &str) {
    let Ok(prepared) = definition.prepare(text, Policy::Repair) else { return };
    let value: Value = serde_json::from_str(&prepared.text).unwrap();
    assert!(compile_schema(definition.schema().unwrap()).unwrap().is_valid(&value));
    let again = definition.prepare(&prepared.text, Policy::Strict).unwrap();
    assert!(again.repairs.is_empty() && again.text == prepared.text);
    assert_eq!(prepared.repairs.is_empty(), definition.prepare(text, Policy::Strict).is_ok());
}

fuzz_target!(|text: &str| {
    match text.split_once('\n').and_then(|(schema, text)| Some((compile(schema)?, text))) {
        Some((own, text)) => check(&own, text),
        None => check(&DEFINITION, text),
    }
});
