//! Results and events as JSON text, for REST and for models.

use std::collections::BTreeMap;

use openskill_proto::v1::{
    Dialect, ErrorCode, ExportToolsResponse, InvokeEvent, Meta, Repair, Skill, SkillError, SkillResult, SkillStatus,
    invoke_event::Event, skill_error, skill_result,
};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::call::request::Input;

/// The normalized result, `code` by name, `data` and `details` as JSON.
#[derive(Serialize)]
struct Normalized<'a> {
    success: bool,
    skill_id: &'a str,
    trace_id: &'a str,
    data: Option<&'a RawValue>,
    error: Option<Failure<'a>>,
    meta: Option<MetaJson<'a>>,
    text: &'a str,
}

#[derive(Serialize)]
struct Failure<'a> {
    code: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a RawValue>,
    grade: &'static str,
    blame: &'static str,
    retryable: bool,
    #[serde(skip_serializing_if = "is_zero")]
    retry_after_ms: u64,
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
}

/// A result in its JSON form.
pub fn result(result: &SkillResult) -> String {
    to_string(&normalized(result))
}

fn normalized(result: &SkillResult) -> Normalized<'_> {
    Normalized {
        success: result.success,
        skill_id: &result.skill_id,
        trace_id: &result.trace_id,
        data: data(result),
        error: result.error.as_ref().map(failure),
        meta: result.meta.as_ref().map(meta),
        text: &result.text,
    }
}

fn data(result: &SkillResult) -> Option<&RawValue> {
    match &result.output {
        Some(skill_result::Output::DataJson(text)) => serde_json::from_str(text).ok(),
        _ => None,
    }
}

fn failure(error: &SkillError) -> Failure<'_> {
    Failure {
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
    }
}

/// One change. Nothing there is no null there.
#[derive(Serialize)]
struct RepairJson<'a> {
    path: &'a str,
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a RawValue>,
}

fn repair(repair: &Repair) -> RepairJson<'_> {
    RepairJson {
        path: &repair.path,
        kind: &repair.kind,
        before: serde_json::from_str(&repair.before_json).ok(),
        after: serde_json::from_str(&repair.after_json).ok(),
    }
}

/// The second envelope: `status`, `data`, `text`, `stats`, `context`, and `error` if and only if `status` is `error`.
pub(crate) fn status_envelope(result: &SkillResult, input: &Input) -> String {
    #[derive(Serialize)]
    struct Status<'a> {
        status: &'static str,
        data: Option<&'a RawValue>,
        text: &'a str,
        stats: Stats,
        context: Context<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Typed<'a>>,
    }
    #[derive(Serialize)]
    struct Stats {
        time_ms: f64,
    }
    #[derive(Serialize)]
    struct Context<'a> {
        /// The skill's view: paths are relative to the folder that holds its allowed root.
        cwd: &'static str,
        params_input: Option<&'a RawValue>,
    }
    #[derive(Serialize)]
    struct Typed<'a> {
        #[serde(flatten)]
        failure: Failure<'a>,
        r#type: &'static str,
    }
    let meta = result.meta.as_ref();
    let params = input.text().unwrap_or_default();
    to_string(&Status {
        status: match (result.success, meta.is_some_and(|meta| meta.truncated)) {
            (false, _) => "error",
            (true, true) => "partial",
            (true, false) => "success",
        },
        data: data(result),
        text: &result.text,
        stats: Stats { time_ms: meta.map_or(0.0, |meta| meta.latency_ms) },
        context: Context { cwd: ".", params_input: serde_json::from_str(&params).ok() },
        error: result.error.as_ref().map(|error| Typed { failure: failure(error), r#type: error.grade().json_name() }),
    })
}

/// A body for what failed before there was a call: the same shape as a result.
pub(crate) fn refusal(code: ErrorCode, message: &str, trace_id: &str) -> String {
    let error = SkillError::new(code, message);
    result(&SkillResult {
        trace_id: trace_id.to_owned(),
        text: message.to_owned(),
        error: Some(error),
        meta: Some(Meta::default()),
        ..SkillResult::default()
    })
}

/// An event's name and its data, as a server-sent event has them.
pub(crate) fn event(event: &InvokeEvent) -> (&'static str, String) {
    let call_id = &event.call_id;
    match &event.event {
        Some(Event::Accepted(it)) => {
            ("accepted", json!({"call_id": call_id, "trace_id": it.trace_id, "version": it.version}).to_string())
        }
        Some(Event::Progress(it)) => {
            let fraction = (it.fraction >= 0.0).then_some(it.fraction);
            ("progress", json!({"call_id": call_id, "fraction": fraction, "message": it.message}).to_string())
        }
        Some(Event::Log(it)) => {
            ("log", json!({"call_id": call_id, "level": it.level, "message": it.message}).to_string())
        }
        Some(Event::Partial(it)) => {
            #[derive(Serialize)]
            struct PartialJson<'a> {
                call_id: &'a str,
                data: Option<&'a RawValue>,
            }
            ("partial", to_string(&PartialJson { call_id, data: serde_json::from_str(&it.data_json).ok() }))
        }
        Some(Event::InputRequired(_) | Event::Artifact(_)) => ("unknown", "{}".to_owned()),
        Some(Event::Result(it)) if !it.rendered_json.is_empty() => ("result", it.rendered_json.clone()),
        Some(Event::Result(it)) => ("result", result(it)),
        None => ("unknown", "{}".to_owned()),
    }
}

/// An event as one line of JSON, with its name as `event`.
pub fn event_line(it: &InvokeEvent) -> String {
    let (name, data) = event(it);
    format!("{{\"event\":\"{name}\",\"data\":{data}}}\n")
}

/// A skill, with its schemas.
pub fn skill(skill: &Skill) -> Value {
    let schema = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let status = match skill.status() {
        SkillStatus::Available => "available",
        SkillStatus::Unavailable | SkillStatus::Unspecified => "unavailable",
    };
    json!({
        "id": skill.id,
        "version": skill.version,
        "description": skill.description,
        "runner": skill.runner,
        "toolset": skill.toolset,
        "status": status,
        "status_reason": skill.status_reason,
        "workers": skill.workers,
        "timeout_ms": (skill.timeout_ms > 0).then_some(skill.timeout_ms),
        "idempotent": skill.idempotent,
        "destructive": skill.destructive,
        "session_affinity": skill.session_affinity,
        "input_schema": schema(&skill.input_schema_json),
        "output_schema": schema(&skill.output_schema_json),
        "examples": skill.example_inputs_json.iter().map(|text| schema(text)).collect::<Vec<_>>(),
    })
}

/// Exported tools, in the dialect that was asked for.
pub fn tools(response: &ExportToolsResponse, dialect: Dialect) -> String {
    let tools: Vec<&RawValue> = response.tools_json.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    #[derive(Serialize)]
    struct Tools<'a> {
        dialect: &'a str,
        tools: Vec<&'a RawValue>,
        skill_ids: BTreeMap<&'a str, &'a str>,
        disabled: Vec<Value>,
        notes: &'a [String],
    }
    let disabled = response.disabled.iter().map(|it| {
        let retry_after_ms = (it.retry_after_ms > 0).then_some(it.retry_after_ms);
        json!({ "skill_id": it.skill_id, "reason": it.reason, "retry_after_ms": retry_after_ms })
    });
    to_string(&Tools {
        dialect: dialect.name(),
        tools,
        skill_ids: response.skill_ids.iter().map(|(name, id)| (name.as_str(), id.as_str())).collect(),
        disabled: disabled.collect(),
        notes: &response.notes,
    })
}

fn to_string(value: &impl Serialize) -> String {
    // Every type here is plain data with string keys, which can always be written.
    serde_json::to_string(value).unwrap_or_default()
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn data_goes_out_as_it_came() {
        assert!(result(&success(false)).contains("\"data\":{\"n\":12345678901234567890123},\"error\":null"));
    }

    #[test]
    fn an_error_has_its_codes_name_and_no_data() {
        let body = parse(&refusal(ErrorCode::ForbiddenPath, "no", "t"));
        assert_eq!((&body["success"], &body["data"]), (&json!(false), &Value::Null));
        assert_eq!(body["error"]["code"], "FORBIDDEN_PATH");
        assert_eq!(body["error"]["grade"], "param_error");
    }

    #[test]
    fn the_status_envelope_has_an_error_if_and_only_if_it_failed() {
        let input = Input::Json("{\"text\":\"x\"}".into());
        let body = parse(&status_envelope(&success(false), &input));
        assert_eq!(body["status"], "success");
        assert_eq!(body["context"]["params_input"], json!({"text": "x"}));
        assert!(body.get("error").is_none());
        assert_eq!(parse(&status_envelope(&success(true), &input))["status"], "partial");
        let failed = SkillResult { error: Some(SkillError::new(ErrorCode::Timeout, "late")), ..SkillResult::default() };
        let body = parse(&status_envelope(&failed, &input));
        assert_eq!((&body["status"], &body["error"]["type"]), (&json!("error"), &json!("execution_error")));
    }
}
