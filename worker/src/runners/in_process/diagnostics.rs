//! Functions for testing and measuring the call path: `echo`, `wait`, `fail`, `ask`, `artifact`.

use std::time::Duration;

use bytes::Bytes;
use openskill_proto::limits::MAX_ARTIFACT_BYTES;
use openskill_proto::v1::{ErrorCode, Progress, SkillError, execute_event::Event};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::events::EventSink;
use crate::questions::QuestionAnswer;

/// Returns its arguments unchanged, byte for byte.
pub(super) async fn echo(input: Bytes, _events: EventSink) -> Result<String, SkillError> {
    String::from_utf8(input.to_vec()).map_err(|_| SkillError::new(ErrorCode::InvalidJson, "the input is not UTF-8"))
}

/// `{"ms": 250, "steps": 5}`: waits, and reports progress at each step.
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

/// `{"code": "NOT_FOUND", "message": "..."}`: fails with this error.
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
        None => {
            let message = format!("'{code}' is not an error code that a skill may use");
            Err(SkillError::new(ErrorCode::InvalidArgument, message))
        }
    }
}

/// `{"message": "Which file?", "schema": {...}}`: asks the user, and returns the outcome.
pub(super) async fn ask(input: Bytes, events: EventSink) -> Result<String, SkillError> {
    #[derive(Deserialize)]
    struct Ask {
        message: String,
        schema: Option<Value>,
    }
    let Ask { message, schema } = read(&input)?;
    match events.ask(&message, schema).await {
        QuestionAnswer::Accept(content) => Ok(format!("{{\"action\": \"accept\", \"content\": {content}}}")),
        QuestionAnswer::Decline => Ok(json!({"action": "decline"}).to_string()),
        QuestionAnswer::Cancel => Ok(json!({"action": "cancel"}).to_string()),
        QuestionAnswer::Unavailable(reason) => Err(SkillError::new(ErrorCode::AskUserUnavailable, reason)),
    }
}

/// `{"name": "a.bin", "media_type": "...", "bytes": 300000}`: produces an artifact of this size, whose bytes count up.
pub(super) async fn artifact(input: Bytes, events: EventSink) -> Result<String, SkillError> {
    #[derive(Deserialize)]
    struct Produce {
        name: String,
        #[serde(default)]
        media_type: String,
        bytes: usize,
    }
    let Produce { name, media_type, bytes } = read(&input)?;
    let content = (0..bytes.min(MAX_ARTIFACT_BYTES + 1)).map(|it| it as u8).collect();
    events.artifact(&name, &media_type, content).await;
    Ok("null".to_owned())
}

fn read<T: serde::de::DeserializeOwned>(input: &[u8]) -> Result<T, SkillError> {
    openskill_proto::json::read(input).map_err(|error| SkillError::new(ErrorCode::InvalidArgument, error.to_string()))
}
