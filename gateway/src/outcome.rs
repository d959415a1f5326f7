//! From what a worker answered to what the caller gets.

use std::time::Instant;

use openskill_proto::v1::{Envelope, ExecuteResult, Meta, SkillError, SkillResult, skill_error, skill_result};

use crate::arguments::structs;
use crate::call::Call;
use crate::render;

/// How a call ended, whoever ended it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) result: ExecuteResult,
    pub(crate) attempts: u32,
}

impl Outcome {
    pub(crate) fn of(result: ExecuteResult) -> Self {
        Self { result, attempts: 0 }
    }

    pub(crate) fn failed(error: SkillError) -> Self {
        Self::of(ExecuteResult { error: Some(error), ..ExecuteResult::default() })
    }
}

/// The result of `call`, in JSON form: `data_json` and `details_json`.
pub(crate) fn result(call: &Call, outcome: Outcome) -> SkillResult {
    let Outcome { result, attempts } = outcome;
    let latency_ms = micros_as_ms(call.received);
    let mut warnings = result.warnings;
    if call.trace.replaced {
        warnings.push("X-Trace-Id was not 1 to 128 visible ASCII characters and was replaced".to_owned());
    }
    let text = match &result.error {
        _ if !result.text.is_empty() => result.text,
        Some(error) => error.message.clone(),
        None => format!("{} succeeded in {latency_ms} ms", call.skill_id),
    };
    let data = result.success.then(|| String::from_utf8_lossy(&result.data_json).into_owned());
    let mut result = SkillResult {
        success: result.success,
        skill_id: call.skill_id.clone(),
        trace_id: call.trace.id.clone(),
        output: data.map(skill_result::Output::DataJson),
        error: result.error,
        meta: Some(Meta {
            latency_ms,
            version: result.version,
            truncated: result.truncated,
            runner: result.runner,
            worker_id: result.worker_id,
            attempts,
            repairs: Vec::new(),
            warnings,
        }),
        text,
        rendered_json: String::new(),
    };
    if call.envelope == Envelope::Status {
        result.rendered_json = render::status_envelope(&result, &call.input);
    }
    result
}

/// The same result with data and details as `Value` and `Struct`, for callers who sent a `Struct`.
pub(crate) fn with_values(mut result: SkillResult) -> SkillResult {
    if let Some(skill_result::Output::DataJson(text)) = &result.output {
        result.output = Some(skill_result::Output::Data(structs::from_json(text)));
    }
    if let Some(error) = &mut result.error
        && let Some(skill_error::More::DetailsJson(text)) = &error.more
    {
        error.more = Some(skill_error::More::Details(structs::struct_from_json(text)));
    }
    result
}

/// Milliseconds since `begun`, to the microsecond.
fn micros_as_ms(begun: Instant) -> f64 {
    begun.elapsed().as_micros() as f64 / 1000.0
}
