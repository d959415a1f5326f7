//! Answers to the questions of skills. Workers check them, and gateways before they store them.

use openskill_proto::json::depth;
use openskill_proto::limits::{MAX_ANSWER_BYTES, MAX_JSON_DEPTH};
use serde_json::Value;

use crate::schema;

/// The maximum number of errors that the rejection of an answer lists.
const MAX_FAULTS: usize = 5;

/// Validates the content of an answer, a JSON object, against the schema of its question.
///
/// # Errors
/// Why the content does not fit. The schema must have been [checked](schema::check).
pub fn validate(content: &str, schema: Option<&Value>) -> Result<(), String> {
    let invalid = |reason: String| Err(format!("the answer's content {reason}"));
    if content.len() > MAX_ANSWER_BYTES {
        return invalid(format!("has {} bytes; at most {MAX_ANSWER_BYTES} are accepted", content.len()));
    }
    if depth(content.as_bytes()) > MAX_JSON_DEPTH {
        return invalid(format!("is nested deeper than {MAX_JSON_DEPTH} levels"));
    }
    let value = match serde_json::from_str::<Value>(content) {
        Ok(value @ Value::Object(_)) => value,
        Ok(_) => return invalid("must be a JSON object with one key for each value the question asks for".to_owned()),
        Err(error) => return invalid(format!("is not JSON: {error}")),
    };
    let Some(schema) = schema else { return Ok(()) };
    let validator = schema::compile(schema)?;
    let faults = validator.iter_errors(&value).take(MAX_FAULTS);
    let faults: Vec<_> = faults.map(|it| fault(&it.to_string(), it.instance_path().as_str())).collect();
    if faults.is_empty() { Ok(()) } else { invalid(format!("does not fit the question: {}", faults.join("; "))) }
}

fn fault(reason: &str, path: &str) -> String {
    if path.is_empty() { reason.to_owned() } else { format!("{path}: {reason}") }
}
