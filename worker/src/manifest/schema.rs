//! The schemas that a manifest declares, also in the short form of an input schema:
//! `parameters: {task: {type: string, required: true, description: ...}}`.

use openskill_skill::defaults::Defaults;
use openskill_skill::{draft, schema};
use serde_json::{Map, Value, json};

use super::checks::{ManifestFault, refuse};
use super::rules::Aliases;

/// The keywords that a parameter may have: `required`, `aliases`, `secret`, and common JSON Schema keywords. The
/// long form, `input_schema`, allows all of JSON Schema.
const KEYWORDS: &str = include_str!("parameter_keywords.txt");

const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];

/// The parameters as the manifest contains them, in order.
pub(super) type Parameters = Map<String, Value>;

/// Checks that a schema is valid JSON Schema without external references, and converts it to draft 2020-12. An
/// argument schema must describe an object.
pub(super) fn check(field: &str, given: &Value, of_arguments: bool) -> Result<Value, ManifestFault> {
    if of_arguments && given.get("type").and_then(Value::as_str) != Some("object") {
        return refuse(field, "arguments are an object: write `type: object`");
    }
    let fault = |reason: String| ManifestFault::new(field, reason);
    let translated = draft::to_2020_12(given).map_err(fault)?;
    schema::check(&translated).and_then(|_| schema::compile(&translated)).map_err(fault)?;
    Ok(translated)
}

/// Rejects a default that its own schema refuses: calls would not get it.
pub(super) fn check_defaults(schema: &Value) -> Result<(), ManifestFault> {
    if !schema.to_string().contains("\"default\"") {
        return Ok(());
    }
    let validator = schema::compile(schema).map_err(|reason| ManifestFault::new("input_schema", reason))?;
    let (_, unfit) = Defaults::from_schema(schema, &validator);
    match unfit.first() {
        Some(it) => {
            refuse(&it.name, format!("the default of '{}' does not match its own schema: {}", it.name, it.reason))
        }
        None => Ok(()),
    }
}

/// Converts the parameters to the schema of an object with exactly these properties, and to aliases. An error
/// contains the parameter's name and the reason.
pub(super) fn from_parameters(parameters: &Parameters) -> Result<(Value, Aliases), ManifestFault> {
    let mut aliases = Aliases::new();
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, parameter) in parameters {
        let fail = |reason: String| ManifestFault::new(name, format!("parameter '{name}': {reason}"));
        let mut schema = checked_keywords(parameter).map_err(fail)?;
        if flag(&mut schema, "required").map_err(fail)? {
            required.push(name.clone());
        }
        if flag(&mut schema, "secret").map_err(fail)? {
            // The gateway recognizes secrets by this keyword. To validators and models it is an annotation.
            schema.insert("writeOnly".to_owned(), true.into());
        }
        for alias in other_names(schema.shift_remove("aliases")).map_err(fail)? {
            if let Some(other) = aliases.insert(alias.clone(), name.clone()) {
                return Err(fail(format!("the alias '{alias}' is given twice: here and for '{other}'")));
            }
        }
        properties.insert(name.clone(), Value::Object(schema));
    }
    let schema =
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    Ok((schema, aliases))
}

fn checked_keywords(parameter: &Value) -> Result<Map<String, Value>, String> {
    let Some(keywords) = parameter.as_object() else {
        return Err("write {type: ..., description: ...}".to_owned());
    };
    let known: Vec<_> = KEYWORDS.lines().collect();
    if let Some(keyword) = keywords.keys().find(|keyword| !known.contains(&keyword.as_str())) {
        return Err(format!("'{keyword}' is not one of {}", known.join(", ")));
    }
    let kinds =
        keywords.get("type").map_or(&[][..], |kind| kind.as_array().map_or(std::slice::from_ref(kind), Vec::as_slice));
    match kinds.iter().find(|kind| !kind.as_str().is_some_and(|kind| TYPES.contains(&kind))) {
        Some(kind) => Err(format!("the type {kind} is not one of {}", TYPES.join(", "))),
        None => Ok(keywords.clone()),
    }
}

/// Takes a keyword that is true or false.
fn flag(schema: &mut Map<String, Value>, keyword: &str) -> Result<bool, String> {
    match schema.shift_remove(keyword) {
        Some(Value::Bool(flag)) => Ok(flag),
        None => Ok(false),
        Some(_) => Err(format!("{keyword} must be true or false")),
    }
}

fn other_names(aliases: Option<Value>) -> Result<Vec<String>, String> {
    match aliases {
        None => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(vec![one]),
        Some(list) => serde_json::from_value(list).map_err(|_| "aliases must be a list of names".to_owned()),
    }
}
