//! Checks declared schemas: valid JSON Schema 2020-12 without external references.

use openskill_skill::schema;
use serde_json::Value;

/// Returns the schema if it is usable. The schema of arguments must describe an object.
pub(super) fn check(field: &'static str, given: Value, of_arguments: bool) -> Result<Value, (&'static str, String)> {
    if of_arguments && given.get("type").and_then(Value::as_str) != Some("object") {
        return Err((field, "arguments are an object: write `type: object`".to_owned()));
    }
    schema::check(&given).and_then(|_| schema::compile(&given)).map_err(|reason| (field, reason))?;
    Ok(given)
}
