//! The short form of a schema: `parameters: {task: {type: string, required: true, description: ...}}`.

use serde_json::{Map, Value, json};

/// The parameters as written, in their order.
pub(super) type Parameters = Map<String, Value>;

/// What a parameter may have: `required`, and the words of JSON Schema that people use. The long form knows them all.
const WORDS: [&str; 25] = [
    "required",
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

/// The schema of an object with these parameters and no others. On failure: the parameter's name and the reason.
pub(super) fn to_schema(parameters: &Parameters) -> Result<Value, (String, String)> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, parameter) in parameters {
        let fail = |reason: String| (name.clone(), format!("parameter '{name}': {reason}"));
        let Some(words) = parameter.as_object() else {
            return Err(fail("write {type: ..., description: ...}".to_owned()));
        };
        if let Some(word) = words.keys().find(|word| !WORDS.contains(&word.as_str())) {
            return Err(fail(format!("'{word}' is none of {}", WORDS.join(", "))));
        }
        let known = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
        let kinds =
            words.get("type").map_or(&[][..], |kind| kind.as_array().map_or(std::slice::from_ref(kind), Vec::as_slice));
        if let Some(kind) = kinds.iter().find(|kind| !known(kind)) {
            return Err(fail(format!("the type {kind} is none of {}", TYPES.join(", "))));
        }
        match words.get("required") {
            Some(Value::Bool(true)) => required.push(name.clone()),
            Some(Value::Bool(false)) | None => {}
            Some(_) => return Err(fail("required is true or false".to_owned())),
        }
        let mut schema = words.clone();
        schema.shift_remove("required");
        properties.insert(name.clone(), Value::Object(schema));
    }
    Ok(json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false }))
}
