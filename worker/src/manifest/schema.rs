//! What a declared schema must be: valid JSON Schema 2020-12 that needs nothing from outside.

use openskill_proto::{json, limits::MAX_JSON_DEPTH};
use serde_json::Value;

const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// Gives the schema back if it can be used. The arguments' schema must be an object's.
pub(super) fn check(field: &'static str, schema: Value, of_arguments: bool) -> Result<Value, (&'static str, String)> {
    let text = schema.to_string();
    if text.len() > MAX_SCHEMA_BYTES || json::depth(text.as_bytes()) > MAX_JSON_DEPTH {
        return Err((field, format!("larger than {MAX_SCHEMA_BYTES} bytes or deeper than {MAX_JSON_DEPTH}")));
    }
    if of_arguments && schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err((field, "arguments are an object: write `type: object`".to_owned()));
    }
    // Without the crate's resolvers a reference to a file or the network can't be followed: it fails here.
    match jsonschema::draft202012::new(&schema) {
        Ok(_) => Ok(schema),
        Err(error) => Err((field, format!("no valid JSON Schema 2020-12: {error}"))),
    }
}
