//! Converts a call's outcome to a result in the caller's format.

use std::sync::Arc;
use std::time::Instant;

use openskill_proto::limits::MAX_OUTPUT_BYTES;
use openskill_proto::render;
use openskill_proto::v1::skill_error::More;
use openskill_proto::v1::skill_result::Output;
use openskill_proto::v1::{Envelope, ErrorCode, Meta, SkillError, SkillResult};
use prost::Message as _;

use super::blocking_pool::{BlockingPool, HEAVY_BYTES};
use super::operation::Protocol;
use super::outcome::Outcome;
use super::request::Call;
use crate::arguments::structs::{self, NoValue};

/// The maximum size of a response, in bytes. Any result fits, even if its text occurs twice (data and
/// rendered_json).
pub(crate) const MAX_RESPONSE_BYTES: usize = 3 * (MAX_OUTPUT_BYTES + 1024 * 1024);

/// Builds the result of `call` in the caller's format. Uses `pool` if a large result must be parsed.
pub(crate) async fn result_with_pool(pool: &BlockingPool, call: Arc<Call>, outcome: Outcome) -> SkillResult {
    let is_parsed = call.input.is_struct || call.envelope == Envelope::Status;
    if is_parsed && outcome.result.data_json.len().max(call.input.text().len()) > HEAVY_BYTES {
        return Box::pin(pool.run(move || result(&call, outcome))).await;
    }
    result(&call, outcome)
}

/// Builds the result of `call` in the caller's format.
pub(crate) fn result(call: &Call, outcome: Outcome) -> SkillResult {
    let Outcome { result, attempts, may_have_run, repairs, defaults, warnings: mut own, agent } = outcome;
    let speaks_mcp = call.operation.protocol == Protocol::Mcp;
    let latency_ms = micros_as_ms(call.received);
    let mut warnings = result.warnings;
    warnings.append(&mut own);
    warnings.extend(call.trace.warning());
    let error = result.error.map(|error| SkillError { may_have_run, ..error });
    let text = match &error {
        _ if !result.text.is_empty() => result.text,
        Some(error) => error.message.clone(),
        // Over MCP, the model reads the data, so it needs no summary.
        None if speaks_mcp => String::new(),
        None => format!("{} succeeded in {latency_ms} ms", call.skill_id),
    };
    let content_json = if speaks_mcp { String::from_utf8(result.content_json.into()).ok() } else { None };
    // Checking is faster than converting, and workers send UTF-8.
    let into_text = |json: Vec<u8>| {
        String::from_utf8(json).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    };
    let data = result.success.then(|| into_text(result.data_json.into()));
    let mut result = SkillResult {
        success: result.success,
        skill_id: call.skill_id.clone(),
        trace_id: call.trace.id.clone(),
        output: data.map(Output::DataJson),
        error,
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
            agent,
            defaults,
        }),
        text,
        rendered_json: String::new(),
        artifacts: result.artifacts,
        content_json: content_json.unwrap_or_default(),
    };
    if call.envelope == Envelope::Status {
        result.rendered_json = render::status_envelope(&result, call.input.text());
    }
    if call.input.is_struct { with_values(result) } else { result }
}

/// Converts data and details to `Value` and `Struct`. A result that can't be converted, or becomes too large, turns
/// into a failure: a success must not lose its data.
fn with_values(mut result: SkillResult) -> SkillResult {
    if let Some(error) = &mut result.error
        && let Some(More::DetailsJson(text)) = &error.more
    {
        match structs::struct_from_json(text) {
            Ok(details) => error.more = Some(More::Details(details)),
            Err(reason) => {
                error.more = None;
                let warning = format!(
                    "the error's details were dropped because they can't be represented as a google.protobuf.Struct: {reason}"
                );
                result.meta.get_or_insert_default().warnings.push(warning);
            }
        }
    }
    if let Some(Output::DataJson(text)) = &result.output {
        match structs::from_json(text) {
            Ok(value) => result.output = Some(Output::Data(value)),
            Err(reason) => {
                let code = match reason {
                    NoValue::TooMany => ErrorCode::OutputTooLarge,
                    NoValue::TooDeep | NoValue::NotJson(_) => ErrorCode::ExecutionError,
                };
                let message = format!(
                    "the skill ran, but its result can't be represented as a google.protobuf.Value: {reason}. Callers get it as JSON \
                     text if they send the arguments as input_json"
                );
                return with_error(result, SkillError::new(code, message));
            }
        }
    }
    if result.encoded_len() > MAX_RESPONSE_BYTES {
        let message = "the result is too large as a google.protobuf.Value: send the arguments as input_json";
        return with_error(result, SkillError::new(ErrorCode::OutputTooLarge, message));
    }
    result
}

/// Replaces the result of a skill that ran.
fn with_error(result: SkillResult, error: SkillError) -> SkillResult {
    let text = error.message.clone();
    let error = Some(SkillError { may_have_run: true, ..error });
    SkillResult { success: false, output: None, error, text, rendered_json: String::new(), ..result }
}

/// Returns the milliseconds since `begun`, with microsecond precision.
fn micros_as_ms(begun: Instant) -> f64 {
    begun.elapsed().as_micros() as f64 / 1000.0
}
