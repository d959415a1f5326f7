//! What a declared schema must be: valid JSON Schema 2020-12 that needs nothing from outside.

use openskill_proto::schema::{self, MAX_PATTERN_BYTES};
use serde_json::Value;

/// Gives the schema back if it can be used. The arguments' schema must be an object's.
pub(super) fn check(field: &'static str, schema: Value, of_arguments: bool) -> Result<Value, (&'static str, String)> {
    if of_arguments && schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err((field, "arguments are an object: write `type: object`".to_owned()));
    }
    schema::check(&schema).map_err(|reason| (field, reason))?;
    compile(&schema).map_err(|reason| (field, reason))?;
    Ok(schema)
}

/// Compiles a schema: draft 2020-12, or the one its `$schema` names; offline; regular expressions in linear time.
pub(crate) fn compile(schema: &Value) -> Result<jsonschema::Validator, String> {
    let patterns = jsonschema::PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    let built = jsonschema::options().offline().with_pattern_options(patterns).build(schema);
    built.map_err(|error| format!("no valid JSON Schema 2020-12: {error}"))
}
