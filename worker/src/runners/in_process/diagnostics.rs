//! Functions for trying out and measuring the way to a skill and back: `echo`, `wait`, `fail`.

use std::time::Duration;

use bytes::Bytes;
use openskill_proto::v1::{ErrorCode, Progress, SkillError, execute_event::Event};
use serde::Deserialize;

use crate::events::EventSink;

/// Gives its arguments back, byte for byte.
pub(super) async fn echo(input: Bytes, _events: EventSink) -> Result<String, SkillError> {
    String::from_utf8(input.to_vec()).map_err(|_| SkillError::new(ErrorCode::InvalidJson, "the input is not UTF-8"))
}

/// `{"ms": 250, "steps": 5}`: waits, and says so at each step.
pub(super) async fn wait(input: Bytes, events: EventSink) -> Result<String, SkillError> {
    #[derive(Deserialize)]
    struct Wait {
        ms: u64,
        #[serde(default)]
        steps: u32,
    }
    let Wait { ms, steps } = read(&input)?;
    let step = Duration::from_micros(ms.saturating_mul(1000) / u64::from(steps.max(1)));
    for number in 1..=steps.max(1) {
        tokio::time::sleep(step).await;
        if steps > 0 {
            let fraction = f64::from(number) / f64::from(steps);
            let message = format!("step {number} of {steps}");
            events.send(Event::Progress(Progress { fraction, message })).await;
        }
    }
    Ok(format!("{{\"waited_ms\": {ms}}}"))
}

/// `{"code": "NOT_FOUND", "message": "..."}`: fails that way.
pub(super) async fn fail(input: Bytes, _events: EventSink) -> Result<String, SkillError> {
    #[derive(Deserialize)]
    struct Fail {
        code: String,
        #[serde(default)]
        message: String,
    }
    let Fail { code, message } = read(&input)?;
    match ErrorCode::from_skill(&code) {
        Some(code) => Err(SkillError::new(code, message)),
        None => Err(SkillError::new(ErrorCode::InvalidArgument, format!("'{code}' is no error code of a skill"))),
    }
}

fn read<T: serde::de::DeserializeOwned>(input: &[u8]) -> Result<T, SkillError> {
    serde_json::from_slice(input).map_err(|error| SkillError::new(ErrorCode::InvalidArgument, error.to_string()))
}
