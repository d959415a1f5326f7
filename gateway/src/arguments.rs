//! From what a caller wrote to what a skill gets: one JSON object as text. Pure and synchronous.
//!
//! Text is checked and passed on byte for byte; only a `Struct` has to be written anew.

use openskill_proto::json;
use openskill_proto::limits::{MAX_JSON_DEPTH, MAX_REQUEST_BYTES};
use openskill_proto::v1::{ErrorCode, SkillError};
use serde_json::value::RawValue;

pub(crate) mod structs;

/// The arguments of a call, as they came.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    /// For people: numbers are doubles.
    Struct(prost_types::Struct),
    /// For programs: text.
    Json(String),
}

/// One JSON object, or what is wrong with it.
pub(crate) fn prepare(input: &Input) -> Result<String, SkillError> {
    let invalid = |code, message: String| Err(SkillError::new(code, message));
    let text = match input {
        Input::Json(text) => text.clone(),
        Input::Struct(fields) => match structs::to_json(fields) {
            Ok(text) => text,
            Err(error) => return invalid(ErrorCode::InvalidArgument, error.to_string()),
        },
    };
    if text.len() > MAX_REQUEST_BYTES {
        // A Struct may grow when it is written as JSON.
        return invalid(ErrorCode::InvalidArgument, format!("the input is over {MAX_REQUEST_BYTES} bytes as JSON"));
    }
    if json::depth(text.as_bytes()) > MAX_JSON_DEPTH {
        return invalid(ErrorCode::InvalidJson, format!("the input nests deeper than {MAX_JSON_DEPTH} levels"));
    }
    match serde_json::from_str::<&RawValue>(&text) {
        Err(error) => invalid(ErrorCode::InvalidJson, format!("the input is not valid JSON: {error}")),
        Ok(value) if !value.get().starts_with('{') => {
            invalid(ErrorCode::InvalidArgument, "the input must be a JSON object of arguments".to_owned())
        }
        Ok(_) => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> ErrorCode {
        prepare(&Input::Json(text.to_owned())).unwrap_err().code()
    }

    #[test]
    fn an_object_is_passed_on_byte_for_byte() {
        let text = " {\"n\": 12345678901234567890123, \"n2\":1.0e2 } ";
        assert_eq!(prepare(&Input::Json(text.to_owned())).unwrap(), text);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert_eq!(code("[1]"), ErrorCode::InvalidArgument);
        assert_eq!(code("null"), ErrorCode::InvalidArgument);
        assert_eq!(code("{\"a\": }"), ErrorCode::InvalidJson);
        assert_eq!(code("{} {}"), ErrorCode::InvalidJson);
        assert_eq!(code(""), ErrorCode::InvalidJson);
        assert_eq!(code(&format!("{{\"a\": {}}}", "[".repeat(100_000))), ErrorCode::InvalidJson);
    }
}
