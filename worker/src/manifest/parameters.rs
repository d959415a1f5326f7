//! The short form of an input schema: `parameters: {task: {type: string, required: true, description: ...}}`.

use serde_json::{Map, Value, json};

use super::arguments::Aliases;

/// The parameters as the manifest contains them, in order.
pub(super) type Parameters = Map<String, Value>;

/// The keywords that a parameter may have: `required`, `aliases`, `secret`, and common JSON Schema keywords. The
/// long form, `input_schema`, allows all of JSON Schema.
const WORDS: [&str; 28] = [
    "required",
    "aliases",
    "secret",
    "writeOnly",
    "type",
    "description",
    "default",
    "examples",
    "enum",
    "const",
    "title",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "items",
    "minItems",
    "maxItems",
    "uniqueItems",
    "properties",
    "additionalProperties",
    "anyOf",
    "oneOf",
];

const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];

/// Converts the parameters to the schema of an object with exactly these properties, and to aliases. An error
/// contains the parameter's name and the reason.
pub(super) fn to_schema(parameters: &Parameters) -> Result<(Value, Aliases), (String, String)> {
    let mut aliases = Aliases::new();
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, parameter) in parameters {
        let fail = |reason: String| (name.clone(), format!("parameter '{name}': {reason}"));
        let Some(words) = parameter.as_object() else {
            return Err(fail("write {type: ..., description: ...}".to_owned()));
        };
        if let Some(word) = words.keys().find(|word| !WORDS.contains(&word.as_str())) {
            return Err(fail(format!("'{word}' is not one of {}", WORDS.join(", "))));
        }
        let known = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
        let kinds =
            words.get("type").map_or(&[][..], |kind| kind.as_array().map_or(std::slice::from_ref(kind), Vec::as_slice));
        if let Some(kind) = kinds.iter().find(|kind| !known(kind)) {
            return Err(fail(format!("the type {kind} is not one of {}", TYPES.join(", "))));
        }
        match words.get("required") {
            Some(Value::Bool(true)) => required.push(name.clone()),
            Some(Value::Bool(false)) | None => {}
            Some(_) => return Err(fail("required must be true or false".to_owned())),
        }
        let mut schema = words.clone();
        schema.shift_remove("required");
        match schema.shift_remove("secret") {
            // The gateway recognizes secrets by this keyword. To validators and models it is an annotation.
            Some(Value::Bool(true)) => drop(schema.insert("writeOnly".to_owned(), true.into())),
            Some(Value::Bool(false)) | None => {}
            Some(_) => return Err(fail("secret must be true or false".to_owned())),
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

fn other_names(aliases: Option<Value>) -> Result<Vec<String>, String> {
    match aliases {
        None => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(vec![one]),
        Some(list) => serde_json::from_value(list).map_err(|_| "aliases must be a list of names".to_owned()),
    }
}
