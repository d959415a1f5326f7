//! From how a call ended to the result its caller gets, in the form the caller used.

use std::time::Instant;

use openskill_proto::limits::MAX_OUTPUT_BYTES;
use openskill_proto::render;
use openskill_proto::v1::skill_error::More;
use openskill_proto::v1::skill_result::Output;
use openskill_proto::v1::{Envelope, ErrorCode, Meta, SkillError, SkillResult};
use prost::Message as _;

use super::outcome::Outcome;
use super::request::Call;
use crate::arguments::structs;

/// The largest response that is sent. Larger than any result as text, which may appear in it twice (data and rendered_json).
pub(crate) const MAX_RESPONSE_BYTES: usize = 3 * (MAX_OUTPUT_BYTES + 1024 * 1024);

/// The result of `call`, in the form its caller used.
pub(crate) fn result(call: &Call, outcome: Outcome) -> SkillResult {
    let Outcome { result, attempts, repairs, warnings: mut own, .. } = outcome;
    let latency_ms = micros_as_ms(call.received);
    let mut warnings = result.warnings;
    warnings.append(&mut own);
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
        output: data.map(Output::DataJson),
        error: result.error,
        meta: Some(Meta {
            latency_ms,
            version: result.version,
            truncated: result.truncated,
            runner: result.runner,
            worker_id: result.worker_id,
            attempts,
            repairs,
            warnings,
            jail: result.jail,
        }),
        text,
        rendered_json: String::new(),
        artifacts: result.artifacts,
    };
    if call.envelope == Envelope::Status {
        result.rendered_json = render::status_envelope(&result, &call.input.text().unwrap_or_default());
    }
    if call.wants_value() { with_values(result) } else { result }
}

/// Turns data and details into `Value` and `Struct`. A result that has no such form, or too large a one, becomes a failure:
/// a success must not lose its data.
fn with_values(mut result: SkillResult) -> SkillResult {
    if let Some(error) = &mut result.error
        && let Some(More::DetailsJson(text)) = &error.more
    {
        error.more = structs::struct_from_json(text).ok().map(More::Details);
    }
    if let Some(Output::DataJson(text)) = &result.output {
        match structs::from_json(text) {
            Ok(value) => result.output = Some(Output::Data(value)),
            Err(error) => {
                let message =
                    format!("the result can't be a google.protobuf.Value ({error}): send the arguments as input_json");
                return failed(result, SkillError::new(ErrorCode::ExecutionError, message));
            }
        }
    }
    if result.encoded_len() > MAX_RESPONSE_BYTES {
        let message = "the result is too large as a google.protobuf.Value: send the arguments as input_json";
        return failed(result, SkillError::new(ErrorCode::OutputTooLarge, message));
    }
    result
}

fn failed(result: SkillResult, error: SkillError) -> SkillResult {
    let text = error.message.clone();
    SkillResult { success: false, output: None, error: Some(error), text, rendered_json: String::new(), ..result }
}

/// Milliseconds since `begun`, to the microsecond.
fn micros_as_ms(begun: Instant) -> f64 {
    begun.elapsed().as_micros() as f64 / 1000.0
}
