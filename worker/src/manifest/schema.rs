//! What a declared schema must be: valid JSON Schema 2020-12 that needs nothing from outside.

use openskill_skill::schema;
use serde_json::Value;

/// Gives the schema back if it can be used. The arguments' schema must be an object's.
pub(super) fn check(field: &'static str, given: Value, of_arguments: bool) -> Result<Value, (&'static str, String)> {
    if of_arguments && given.get("type").and_then(Value::as_str) != Some("object") {
        return Err((field, "arguments are an object: write `type: object`".to_owned()));
    }
    schema::check(&given).and_then(|_| schema::compile(&given)).map_err(|reason| (field, reason))?;
    Ok(given)
}
