//! Renders the result of a call as JSON: in either of its envelopes, as the metadata of an MCP tool result, and the
//! result of a preparation. Also its artifacts: their content in base64, or their handle.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::json::to_text;
use crate::v1::artifact::Content;
use crate::v1::{Artifact, Meta, PreparedCall, Repair, SkillError, SkillResult, skill_error, skill_result};

/// The normalized envelope: `code` by name, `data` and `details` as JSON.
#[derive(Serialize)]
struct ResultJson<'a> {
    success: bool,
    skill_id: &'a str,
    trace_id: &'a str,
    data: Option<&'a RawValue>,
    error: Option<ErrorJson<'a>>,
    meta: Option<MetaJson<'a>>,
    text: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<ArtifactJson<'a>>,
}

#[derive(Serialize)]
pub(super) struct ErrorJson<'a> {
    code: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a RawValue>,
    grade: &'static str,
    blame: &'static str,
    retryable: bool,
    #[serde(skip_serializing_if = "is_zero")]
    retry_after_ms: u64,
    may_have_run: bool,
}

#[derive(Serialize)]
struct MetaJson<'a> {
    latency_ms: f64,
    version: &'a str,
    truncated: bool,
    runner: &'a str,
    worker_id: &'a str,
    attempts: u32,
    repairs: Vec<RepairJson<'a>>,
    warnings: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    jail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<Value>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    defaults: &'a [String],
}

/// Renders a result in the normalized envelope.
pub fn result(result: &SkillResult) -> String {
    to_text(&ResultJson {
        success: result.success,
        skill_id: &result.skill_id,
        trace_id: &result.trace_id,
        data: data(result),
        error: result.error.as_ref().map(error_json),
        meta: result.meta.as_ref().map(meta),
        text: &result.text,
        artifacts: artifacts(result),
    })
}

fn artifacts(result: &SkillResult) -> Vec<ArtifactJson<'_>> {
    result.artifacts.iter().map(ArtifactJson::from).collect()
}

fn data(result: &SkillResult) -> Option<&RawValue> {
    match &result.output {
        Some(skill_result::Output::DataJson(text)) => serde_json::from_str(text).ok(),
        _ => None,
    }
}

pub(super) fn error_json(error: &SkillError) -> ErrorJson<'_> {
    ErrorJson {
        code: error.code().as_str_name(),
        message: &error.message,
        details: match &error.more {
            Some(skill_error::More::DetailsJson(text)) => serde_json::from_str(text).ok(),
            _ => None,
        },
        grade: error.grade().json_name(),
        blame: error.blame().json_name(),
        retryable: error.retryable,
        retry_after_ms: error.retry_after_ms,
        may_have_run: error.may_have_run,
    }
}

fn meta(meta: &Meta) -> MetaJson<'_> {
    MetaJson {
        latency_ms: meta.latency_ms,
        version: &meta.version,
        truncated: meta.truncated,
        runner: &meta.runner,
        worker_id: &meta.worker_id,
        attempts: meta.attempts,
        repairs: meta.repairs.iter().map(repair).collect(),
        warnings: &meta.warnings,
        jail: &meta.jail,
        agent: meta.agent.as_ref().map(|used| {
            json!({
                "input_tokens": used.input_tokens,
                "output_tokens": used.output_tokens,
                "iterations": used.iterations,
                "tool_calls": used.tool_calls,
                "cost_micros": used.cost_micros,
                "untrusted": used.untrusted,
            })
        }),
        defaults: &meta.defaults,
    }
}

/// One repair. Omits an absent value, because absent differs from null.
#[derive(Serialize)]
pub(super) struct RepairJson<'a> {
    path: &'a str,
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a RawValue>,
}

pub(super) fn repair(repair: &Repair) -> RepairJson<'_> {
    RepairJson {
        path: &repair.path,
        kind: &repair.kind,
        before: serde_json::from_str(&repair.before_json).ok(),
        after: serde_json::from_str(&repair.after_json).ok(),
    }
}

/// Renders a result in the second envelope: `status`, `data`, `text`, `stats`, `context`, and `error` if and only
/// if `status` is `error`. `arguments_json` contains the call's arguments. Text that is not JSON becomes null.
pub fn status_envelope(result: &SkillResult, arguments_json: &str) -> String {
    #[derive(Serialize)]
    struct StatusJson<'a> {
        status: &'static str,
        data: Option<&'a RawValue>,
        text: &'a str,
        stats: Value,
        context: ContextJson<'a>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        artifacts: Vec<ArtifactJson<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<TypedErrorJson<'a>>,
    }
    #[derive(Serialize)]
    struct ContextJson<'a> {
        /// The working directory from the skill's view. Paths are relative to the parent of its allowed root.
        cwd: &'static str,
        params_input: Option<&'a RawValue>,
    }
    #[derive(Serialize)]
    struct TypedErrorJson<'a> {
        #[serde(flatten)]
        failure: ErrorJson<'a>,
        r#type: &'static str,
    }
    let meta = result.meta.as_ref();
    let error = result.error.as_ref();
    to_text(&StatusJson {
        status: match (result.success, meta.is_some_and(|meta| meta.truncated)) {
            (false, _) => "error",
            (true, true) => "partial",
            (true, false) => "success",
        },
        data: data(result),
        text: &result.text,
        stats: json!({ "time_ms": meta.map_or(0.0, |meta| meta.latency_ms) }),
        context: ContextJson { cwd: ".", params_input: serde_json::from_str(arguments_json).ok() },
        artifacts: artifacts(result),
        error: error.map(|it| TypedErrorJson { failure: error_json(it), r#type: it.grade().json_name() }),
    })
}

/// Renders an error that ended a request before it became a call, in the shape of a result.
pub fn refusal(error: &SkillError, trace_id: &str) -> String {
    result(&SkillResult {
        trace_id: trace_id.to_owned(),
        text: error.message.clone(),
        error: Some(error.clone()),
        meta: Some(Meta::default()),
        ..SkillResult::default()
    })
}

#[derive(Serialize)]
struct CallMeta<'a> {
    #[serde(rename = "openskill.dev/trace_id")]
    trace_id: &'a str,
    #[serde(rename = "openskill.dev/attempts")]
    attempts: u32,
    #[serde(rename = "openskill.dev/repairs", skip_serializing_if = "Vec::is_empty")]
    repairs: Vec<RepairJson<'a>>,
    #[serde(rename = "openskill.dev/defaults", skip_serializing_if = "<[String]>::is_empty")]
    defaults: &'a [String],
    #[serde(rename = "openskill.dev/warnings", skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    #[serde(rename = "openskill.dev/error", skip_serializing_if = "Option::is_none")]
    error: Option<ErrorJson<'a>>,
}

/// Renders a JSON object with the trace id, the attempts, the repairs, the defaults, the warnings and the error of a
/// call.
pub fn call_meta(result: &SkillResult) -> String {
    let meta = result.meta.as_ref();
    to_text(&CallMeta {
        trace_id: &result.trace_id,
        attempts: meta.map_or(0, |it| it.attempts),
        repairs: meta.map(|it| it.repairs.iter().map(repair).collect()).unwrap_or_default(),
        defaults: meta.map_or(&[], |it| &it.defaults),
        warnings: meta.map_or(&[], |it| &it.warnings),
        error: result.error.as_ref().map(error_json),
    })
}

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
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        defaults: &'a [String],
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        warnings: &'a [String],
        error: Option<ErrorJson<'a>>,
    }
    to_text(&PreparedJson {
        success: prepared.error.is_none(),
        skill_id: &prepared.skill_id,
        trace_id,
        version: &prepared.version,
        arguments: serde_json::from_str(&prepared.arguments_json).ok(),
        repairs: prepared.repairs.iter().map(repair).collect(),
        defaults: &prepared.defaults,
        warnings: &prepared.warnings,
        error: prepared.error.as_ref().map(error_json),
    })
}

#[derive(Serialize)]
pub(super) struct ArtifactJson<'a> {
    id: &'a str,
    name: &'a str,
    media_type: &'a str,
    size_bytes: u64,
    /// The content in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    /// The handle for `ReadArtifact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    sha256: &'a str,
}

impl<'a> From<&'a Artifact> for ArtifactJson<'a> {
    fn from(artifact: &'a Artifact) -> Self {
        let (data, handle) = match &artifact.content {
            Some(Content::Data(bytes)) => (Some(STANDARD.encode(bytes)), None),
            Some(Content::Handle(handle)) => (None, Some(handle.as_str())),
            None => (None, None),
        };
        Self {
            id: &artifact.id,
            name: &artifact.name,
            media_type: &artifact.media_type,
            size_bytes: artifact.size_bytes,
            data,
            handle,
            sha256: &artifact.sha256,
        }
    }
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::ErrorCode;

    fn success(truncated: bool) -> SkillResult {
        SkillResult {
            success: true,
            skill_id: "echo".to_owned(),
            trace_id: "t".to_owned(),
            output: Some(skill_result::Output::DataJson("{\"n\":12345678901234567890123}".to_owned())),
            meta: Some(Meta { truncated, ..Meta::default() }),
            text: "done".to_owned(),
            ..SkillResult::default()
        }
    }

    fn parse(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn data_is_rendered_byte_for_byte() {
        assert!(result(&success(false)).contains("\"data\":{\"n\":12345678901234567890123},\"error\":null"));
    }

    #[test]
    fn an_error_has_its_code_by_name_and_no_data() {
        let body = parse(&refusal(&SkillError::new(ErrorCode::ForbiddenPath, "no"), "t"));
        assert_eq!((&body["success"], &body["data"]), (&json!(false), &Value::Null));
        assert_eq!(body["error"]["code"], "FORBIDDEN_PATH");
        assert_eq!((&body["error"]["grade"], &body["error"]["may_have_run"]), (&json!("param_error"), &json!(false)));
    }

    #[test]
    fn the_status_envelope_has_an_error_if_and_only_if_the_call_failed() {
        let input = "{\"text\":\"x\"}";
        let body = parse(&status_envelope(&success(false), input));
        assert_eq!(body["status"], "success");
        assert_eq!(body["context"]["params_input"], json!({"text": "x"}));
        assert!(body.get("error").is_none());
        assert_eq!(parse(&status_envelope(&success(true), input))["status"], "partial");
        let failed = SkillResult { error: Some(SkillError::new(ErrorCode::Timeout, "late")), ..SkillResult::default() };
        let body = parse(&status_envelope(&failed, input));
        assert_eq!((&body["status"], &body["error"]["type"]), (&json!("error"), &json!("execution_error")));
    }

    #[test]
    fn both_envelopes_list_artifacts_and_omit_an_empty_list() {
        let artifact =
            Artifact { id: "1".to_owned(), content: Some(Content::Handle("h".to_owned())), ..Artifact::default() };
        let with = SkillResult { artifacts: vec![artifact], ..success(false) };
        for body in [result(&with), status_envelope(&with, "{}")] {
            assert_eq!(parse(&body)["artifacts"][0]["handle"], "h", "{body}");
        }
        for body in [result(&success(false)), status_envelope(&success(false), "{}")] {
            assert!(parse(&body).get("artifacts").is_none(), "{body}");
        }
    }

    #[test]
    fn what_did_not_happen_is_left_out() {
        let result = SkillResult { trace_id: "t".to_owned(), ..SkillResult::default() };
        assert_eq!(parse(&call_meta(&result)), json!({"openskill.dev/trace_id": "t", "openskill.dev/attempts": 0}));
    }

    #[test]
    fn repairs_defaults_and_errors_are_named() {
        let repair = Repair { path: "/n".to_owned(), kind: "string_to_integer".to_owned(), ..Repair::default() };
        let defaults = vec!["/limit".to_owned()];
        let meta = Meta { attempts: 2, repairs: vec![repair], defaults, ..Meta::default() };
        let error = Some(SkillError::new(ErrorCode::Timeout, "too late"));
        let about = parse(&call_meta(&SkillResult { meta: Some(meta), error, ..SkillResult::default() }));
        assert_eq!(about["openskill.dev/repairs"], json!([{"path": "/n", "kind": "string_to_integer"}]));
        assert_eq!(about["openskill.dev/defaults"], json!(["/limit"]));
        assert_eq!(about["openskill.dev/error"]["code"], "TIMEOUT");
    }

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
