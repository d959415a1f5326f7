//! Parses the body of a chat request. Does no I/O.

use openskill_proto::{json, v1};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::agent::Input;
use crate::entry::{Decided, Mode};

/// The expected form of a body, for error messages.
const FORM: &str = r#"send {"message": "..."}, or {"conversation_id": "...", "message" or "answers" or "decision" or "cancel": {...}}"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct ChatBody<'a> {
    #[serde(default)]
    conversation_id: String,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    answers: Option<&'a RawValue>,
    #[serde(borrow)]
    decision: Option<&'a RawValue>,
    #[serde(borrow)]
    cancel: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct MessageForm(#[serde(deserialize_with = "MessageBody::deserialize")] v1::UserMessage);

/// The fields of a [`v1::UserMessage`].
#[derive(Deserialize)]
#[serde(remote = "v1::UserMessage", deny_unknown_fields, expecting = "a string or an object")]
struct MessageBody {
    text: String,
    #[serde(default)]
    model: String,
    #[serde(default, deserialize_with = "read_mode")]
    mode: i32,
    #[serde(default, deserialize_with = "read_limits")]
    limits: Option<v1::TurnLimits>,
    #[serde(default)]
    toolset: String,
}

fn read_mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    Mode::deserialize(deserializer).map(|it| it as i32)
}

fn read_limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<v1::TurnLimits>, D::Error> {
    LimitsBody::deserialize(deserializer).map(Some)
}

/// The fields of [`v1::TurnLimits`].
#[derive(Default, Deserialize)]
#[serde(remote = "v1::TurnLimits", default, deny_unknown_fields, expecting = "an object")]
struct LimitsBody {
    max_tool_calls: u32,
    max_iterations: u32,
    max_tokens: u64,
    timeout_ms: u64,
    max_cost_micros: u64,
    max_validation_retries: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct AnswersBody {
    request_id: String,
    #[serde(default)]
    answers: Vec<AnswerEntry>,
    #[serde(default)]
    declined: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct AnswerEntry {
    id: String,
    answer: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct DecisionBody<'a> {
    request_id: String,
    decision: Decided,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(default)]
    reason: String,
}

/// Parses a body into the conversation id, which is empty for a new conversation, and the input.
///
/// # Errors
/// The body is invalid. The message says why and what to send instead.
pub(super) fn parse(bytes: &[u8]) -> Result<(String, Input), String> {
    let body: ChatBody<'_> = read(bytes, "the body")?;
    let input = match (body.message, body.answers, body.decision, body.cancel) {
        (Some(it), None, None, None) => Input::Message(message(it)?),
        (None, Some(it), None, None) => Input::Answers(answers(it)?),
        (None, None, Some(it), None) => Input::Decision(decision(it)?),
        (None, None, None, Some(it)) if is_set(it) => Input::Cancel(v1::CancelTurn {}),
        _ => return Err(format!("give one of message, answers, decision and cancel: {FORM}")),
    };
    Ok((body.conversation_id, input))
}

/// Returns whether the value is `{}` or `true`.
fn is_set(cancel: &RawValue) -> bool {
    matches!(serde_json::from_str(cancel.get()), Ok(Value::Bool(true) | Value::Object(_)))
}

fn message(raw: &RawValue) -> Result<v1::UserMessage, String> {
    if let Ok(text) = serde_json::from_str(raw.get()) {
        return Ok(v1::UserMessage { text, ..v1::UserMessage::default() });
    }
    read(raw.get().as_bytes(), "message").map(|MessageForm(message)| message)
}

fn answers(raw: &RawValue) -> Result<v1::UserAnswers, String> {
    let it: AnswersBody = read(raw.get().as_bytes(), "answers")?;
    let answers = it.answers.into_iter().map(answer).collect::<Result<_, _>>()?;
    Ok(v1::UserAnswers { request_id: it.request_id, answers, declined: it.declined })
}

/// Converts an answer. Accepts numbers and booleans in place of strings.
fn answer(it: AnswerEntry) -> Result<v1::UserAnswer, String> {
    let answer = match it.answer {
        Value::String(text) => text,
        Value::Bool(_) | Value::Number(_) => it.answer.to_string(),
        _ => return Err("answers can't be read: each answer must be a string, a number, true or false".to_owned()),
    };
    Ok(v1::UserAnswer { id: it.id, answer })
}

fn decision(raw: &RawValue) -> Result<v1::UserDecision, String> {
    let it: DecisionBody<'_> = read(raw.get().as_bytes(), "decision")?;
    Ok(v1::UserDecision {
        request_id: it.request_id,
        decision: it.decision as i32,
        arguments_json: it.arguments.map(|it| it.get().to_owned()).unwrap_or_default(),
        reason: it.reason,
    })
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &str) -> Result<T, String> {
    json::read(bytes).map_err(|error| format!("{what} can't be read: {error}; {FORM}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, Input) {
        parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_message_is_a_text_or_has_a_model_a_mode_and_limits() {
        let (conversation, Input::Message(short)) = parsed(r#"{"message": "hi"}"#) else { panic!() };
        assert_eq!(
            (conversation.as_str(), short.text.as_str(), short.mode()),
            ("", "hi", v1::ApprovalMode::Unspecified)
        );
        let long = r#"{"conversation_id": "c", "message": {"text": "hi", "model": "openai:m", "mode": "read_only",
                       "limits": {"max_tool_calls": 3}, "toolset": "files"}}"#;
        let (conversation, Input::Message(long)) = parsed(long) else { panic!() };
        assert_eq!(
            (conversation.as_str(), long.model.as_str(), long.mode()),
            ("c", "openai:m", v1::ApprovalMode::ReadOnly)
        );
        assert_eq!((long.limits.unwrap().max_tool_calls, long.toolset.as_str()), (3, "files"));
    }

    #[test]
    fn answers_count_as_text() {
        let text = r#"{"conversation_id": "c", "answers": {"request_id": "r",
                       "answers": [{"id": "a", "answer": true}, {"id": "b", "answer": 12345678901234567890}, {"id": "c", "answer": "x"}]}}"#;
        let (_, Input::Answers(it)) = parsed(text) else { panic!() };
        let texts: Vec<_> = it.answers.iter().map(|it| it.answer.as_str()).collect();
        assert_eq!(texts, ["true", "12345678901234567890", "x"]);
    }

    #[test]
    fn edited_arguments_keep_their_bytes() {
        let text = r#"{"conversation_id": "c", "decision": {"request_id": "r", "decision": "edit", "arguments": {"n": 1.50}}}"#;
        let (_, Input::Decision(it)) = parsed(text) else { panic!() };
        assert_eq!((it.decision(), it.arguments_json.as_str()), (v1::Decision::Edit, r#"{"n": 1.50}"#));
    }

    #[test]
    fn a_turn_is_cancelled_with_an_object_or_true() {
        for cancel in ["{}", "true"] {
            assert_eq!(
                parsed(&format!(r#"{{"conversation_id": "c", "cancel": {cancel}}}"#)).1,
                Input::Cancel(v1::CancelTurn {})
            );
        }
    }

    #[test]
    fn a_body_that_can_be_read_in_two_ways_or_in_none_is_refused() {
        for text in [
            "",
            "[]",
            r#"["", "hi"]"#,
            r#"{"message": ["hi"]}"#,
            r#"{"message": {"text": "hi", "limits": [1]}}"#,
            r#"{"conversation_id": "c", "decision": ["r", "allow"]}"#,
            r#"{"conversation_id": "c", "answers": ["r", []]}"#,
            r#"{"conversation_id": "c", "answers": {"request_id": "r", "answers": [["a", "x"]]}}"#,
            "{}",
            r#"{"message": "hi", "cancel": {}}"#,
            r#"{"message": {}}"#,
            r#"{"message": {"text": "hi", "mode": "previous"}}"#,
            r#"{"message": {"text": "hi", "colour": 1}}"#,
            r#"{"conversation_id": "c", "cancel": false}"#,
            r#"{"conversation_id": "c", "decision": {"request_id": "r", "decision": "maybe"}}"#,
            r#"{"conversation_id": "c", "answers": {"request_id": "r", "answers": [{"id": "a", "answer": []}]}}"#,
        ] {
            let refused = parse(text.as_bytes()).unwrap_err();
            assert!(!refused.is_empty(), "{text}");
        }
    }
}
