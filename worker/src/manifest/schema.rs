//! Checks that declared schemas are valid JSON Schema without external references.

use openskill_skill::{draft, schema};
use serde_json::Value;

/// Checks a schema, and converts it to draft 2020-12. An argument schema must describe an object.
pub(super) fn check(field: &'static str, given: &Value, of_arguments: bool) -> Result<Value, (&'static str, String)> {
    if of_arguments && given.get("type").and_then(Value::as_str) != Some("object") {
        return Err((field, "arguments are an object: write `type: object`".to_owned()));
    }
    let translated = draft::to_2020_12(given).map_err(|reason| (field, reason))?;
    schema::check(&translated).and_then(|_| schema::compile(&translated)).map_err(|reason| (field, reason))?;
    Ok(translated)
}
