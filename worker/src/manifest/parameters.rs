//! The short form of a schema: `parameters: {task: {type: string, required: true, description: ...}}`.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The parameters as written, in their order.
pub(super) type Parameters = Map<String, Value>;

#[derive(Debug, Deserialize)]
struct Short {
    #[serde(default)]
    required: bool,
}

/// The schema of an object with these parameters and no others. What is not `required` is schema already.
pub(super) fn to_schema(parameters: &Parameters) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, parameter) in parameters {
        let mut schema = parameter.clone();
        if Short::deserialize(parameter).is_ok_and(|short| short.required) {
            required.push(name.clone());
        }
        if let Some(object) = schema.as_object_mut() {
            object.shift_remove("required");
        }
        properties.insert(name.clone(), schema);
    }
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}
