//! Renders a prepared call as JSON.

use serde::Serialize;
use serde_json::value::RawValue;

use super::result::{ErrorJson, RepairJson, error_json, repair};
use crate::json::to_text;
use crate::v1::PreparedCall;

/// Renders a prepared call with this trace id. `success` tells whether the call could begin. If not, `arguments`
/// is null.
pub fn prepared_call(prepared: &PreparedCall, trace_id: &str) -> String {
    #[derive(Serialize)]
    struct PreparedJson<'a> {
        success: bool,
        skill_id: &'a str,
        trace_id: &'a str,
        version: &'a str,
        arguments: Option<&'a RawValue>,
        repairs: Vec<RepairJson<'a>>,
        error: Option<ErrorJson<'a>>,
    }
    to_text(&PreparedJson {
        success: prepared.error.is_none(),
        skill_id: &prepared.skill_id,
        trace_id,
        version: &prepared.version,
        arguments: serde_json::from_str(&prepared.arguments_json).ok(),
        repairs: prepared.repairs.iter().map(repair).collect(),
        error: prepared.error.as_ref().map(error_json),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{ErrorCode, SkillError};

    #[test]
    fn arguments_keep_their_bytes_and_are_null_beside_an_error() {
        let arguments_json = r#"{"n": 12345678901234567890123}"#.to_owned();
        let ready = PreparedCall { skill_id: "echo".to_owned(), arguments_json, ..PreparedCall::default() };
        let text = prepared_call(&ready, "t");
        assert!(text.contains(r#""success":true"#) && text.contains(r#""arguments":{"n": 12345678901234567890123}"#));
        let error = Some(SkillError::new(ErrorCode::InvalidArgument, "text is missing"));
        let text = prepared_call(&PreparedCall { error, ..PreparedCall::default() }, "t");
        assert!(text.contains(r#""success":false"#) && text.contains(r#""arguments":null"#), "{text}");
        assert!(text.contains(r#""code":"INVALID_ARGUMENT""#), "{text}");
    }
}
