//! Renders the metadata of a call for the `_meta` of an MCP tool result.

use serde::Serialize;

use super::result::{ErrorJson, RepairJson, error_json, repair};
use crate::json::to_text;
use crate::v1::SkillResult;

#[derive(Serialize)]
struct CallMeta<'a> {
    #[serde(rename = "openskill.dev/trace_id")]
    trace_id: &'a str,
    #[serde(rename = "openskill.dev/attempts")]
    attempts: u32,
    #[serde(rename = "openskill.dev/repairs", skip_serializing_if = "Vec::is_empty")]
    repairs: Vec<RepairJson<'a>>,
    #[serde(rename = "openskill.dev/warnings", skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    #[serde(rename = "openskill.dev/error", skip_serializing_if = "Option::is_none")]
    error: Option<ErrorJson<'a>>,
}

/// Renders a JSON object with the trace id, the attempts, the repairs, the warnings and the error of a call.
pub fn call_meta(result: &SkillResult) -> String {
    let meta = result.meta.as_ref();
    to_text(&CallMeta {
        trace_id: &result.trace_id,
        attempts: meta.map_or(0, |it| it.attempts),
        repairs: meta.map(|it| it.repairs.iter().map(repair).collect()).unwrap_or_default(),
        warnings: meta.map_or(&[], |it| &it.warnings),
        error: result.error.as_ref().map(error_json),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{ErrorCode, Meta, Repair, SkillError};
    use serde_json::json;

    fn about(result: &SkillResult) -> serde_json::Value {
        serde_json::from_str(&call_meta(result)).unwrap()
    }

    #[test]
    fn what_did_not_happen_is_left_out() {
        let result = SkillResult { trace_id: "t".to_owned(), ..SkillResult::default() };
        assert_eq!(about(&result), json!({"openskill.dev/trace_id": "t", "openskill.dev/attempts": 0}));
    }

    #[test]
    fn repairs_and_errors_are_named() {
        let repair = Repair { path: "/n".to_owned(), kind: "string_to_integer".to_owned(), ..Repair::default() };
        let meta = Meta { attempts: 2, repairs: vec![repair], ..Meta::default() };
        let error = Some(SkillError::new(ErrorCode::Timeout, "too late"));
        let about = about(&SkillResult { meta: Some(meta), error, ..SkillResult::default() });
        assert_eq!(about["openskill.dev/repairs"], json!([{"path": "/n", "kind": "string_to_integer"}]));
        assert_eq!(about["openskill.dev/error"]["code"], "TIMEOUT");
    }
}
