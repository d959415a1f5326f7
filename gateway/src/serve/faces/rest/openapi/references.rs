//! Embeds a skill's schema in the document. Its references are relative to the schema, and must become relative to
//! the document, because code generators and Swagger UI ignore `$id`.

use serde_json::{Map, Value};

/// Rewrites a schema's references for its place in the document, such as `#/components/schemas/echo.input`.
pub(super) fn moved(mut schema: Value, place: &str) -> Value {
    if let Some(root) = schema.as_object_mut() {
        root.shift_remove("$id");
        root.shift_remove("$schema");
        relate(root, place);
    }
    schema
}

/// Keywords whose values are data, not schemas.
const DATA: [&str; 5] = ["const", "default", "enum", "example", "examples"];

/// Keywords whose values are maps of schemas by user-defined names.
const NAMED: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

fn relate(schema: &mut Map<String, Value>, place: &str) {
    for (keyword, value) in schema.iter_mut() {
        match value {
            Value::String(target) if keyword == "$ref" && (target == "#" || target.starts_with("#/")) => {
                target.replace_range(..1, place);
            }
            _ if DATA.contains(&keyword.as_str()) => {}
            Value::Object(schemas) if NAMED.contains(&keyword.as_str()) => {
                schemas.values_mut().filter_map(Value::as_object_mut).for_each(|it| relate(it, place));
            }
            Value::Object(schema) => relate(schema, place),
            Value::Array(schemas) => {
                schemas.iter_mut().filter_map(Value::as_object_mut).for_each(|it| relate(it, place));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_follow_their_schema_and_data_stays() {
        let schema = json!({
            "$id": "urn:x",
            "properties": { "$ref": { "$ref": "#/$defs/a" }, "self": { "items": [{ "$ref": "#" }] }, "const": { "$ref": "#/$defs/a" } },
            "anyOf": [{ "$ref": "https://elsewhere.example/x" }],
            "const": { "$ref": "#/$defs/a" },
            "$defs": { "a": { "default": { "$ref": "#" } } },
        });
        let expected = json!({
            "properties": { "$ref": { "$ref": "#/p/$defs/a" }, "self": { "items": [{ "$ref": "#/p" }] }, "const": { "$ref": "#/p/$defs/a" } },
            "anyOf": [{ "$ref": "https://elsewhere.example/x" }],
            "const": { "$ref": "#/$defs/a" },
            "$defs": { "a": { "default": { "$ref": "#" } } },
        });
        assert_eq!(moved(schema, "#/p"), expected);
        assert_eq!(moved(json!(true), "#/p"), json!(true));
    }
}
