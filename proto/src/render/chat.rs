//! Renders conversations with the agent, and their events, as JSON.
//!
//! Enum values are their names in lower case, without the name of the enum: `read_only`. Error codes are written
//! as in results: `NOT_FOUND`.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::result::{RepairJson, repair};
use crate::json::to_text;
use crate::timestamp::Timestamp;
use crate::v1::chat_event::Event;
use crate::v1::{
    ApprovalRequested, ChatEvent, Conversation, ErrorCode, InputRequested, ListConversationsResponse, Question,
    ToolCall, ToolResult, TurnDone, Usage,
};

#[derive(Serialize)]
struct EventJson<'a, F> {
    /// `null` for events that are not stored.
    number: Option<u64>,
    conversation_id: &'a str,
    time: String,
    #[serde(flatten)]
    fields: F,
}

#[derive(Serialize)]
struct CallJson<'a> {
    call_id: &'a str,
    skill_id: &'a str,
    name: &'a str,
    arguments: Option<&'a RawValue>,
    repairs: Vec<RepairJson<'a>>,
}

#[derive(Serialize)]
struct ApprovalJson<'a> {
    request_id: &'a str,
    call_id: &'a str,
    skill_id: &'a str,
    version: &'a str,
    arguments: Option<&'a RawValue>,
    repairs: Vec<RepairJson<'a>>,
    reason: &'a str,
    expires: String,
    tainted: bool,
}

/// Returns the name and the data of an event, for a server-sent event. The name is `unknown` for an event that
/// this version does not know.
pub fn chat_event(event: &ChatEvent) -> (&'static str, String) {
    let (name, fields) = match &event.event {
        Some(Event::ToolCall(it)) => return ("tool_call", data(event, call(it))),
        Some(Event::ApprovalRequired(it)) => return ("approval_required", data(event, approval(it))),
        Some(Event::Started(it)) => {
            let mode = short(it.mode().as_str_name(), "APPROVAL_MODE_");
            ("started", json!({ "text": it.text, "model": it.model, "mode": mode, "trace_id": it.trace_id }))
        }
        Some(Event::Text(it)) => ("text", json!({ "text": it.text, "restart": it.restart })),
        Some(Event::Reply(it)) => {
            let routing = it.routing.as_ref();
            let routing = routing.map(|it| json!({ "selected_skill_id": it.selected_skill_id, "reason": it.reason }));
            ("reply", json!({ "text": it.text, "call_ids": it.call_ids, "routing": routing }))
        }
        Some(Event::Progress(it)) => {
            let fraction = (it.fraction >= 0.0).then_some(it.fraction);
            ("progress", json!({ "call_id": it.call_id, "fraction": fraction, "message": it.message }))
        }
        Some(Event::ToolResult(it)) => ("tool_result", tool_result(it)),
        Some(Event::InputRequired(it)) => ("input_required", input_required(it)),
        Some(Event::Answered(it)) => {
            let answers: Vec<_> = it.answers.iter().map(|it| json!({ "id": it.id, "answer": it.answer })).collect();
            ("answered", json!({ "request_id": it.request_id, "answers": answers, "declined": it.declined }))
        }
        Some(Event::Decided(it)) => {
            let decision = short(it.decision().as_str_name(), "DECISION_");
            ("decided", json!({ "request_id": it.request_id, "decision": decision, "reason": it.reason }))
        }
        Some(Event::Waiting(it)) => ("waiting", json!({ "request_ids": it.request_ids })),
        Some(Event::Usage(it)) => ("usage", usage(it)),
        Some(Event::Summarized(it)) => ("summarized", json!({ "until": it.until, "text": it.text })),
        Some(Event::Done(it)) => ("done", turn_done(it)),
        None => ("unknown", json!({})),
    };
    (name, data(event, fields))
}

/// Renders the data of an event. Arguments keep their original bytes, so `fields` with arguments are no [`Value`].
fn data(event: &ChatEvent, fields: impl Serialize) -> String {
    to_text(&EventJson {
        number: (event.number > 0).then_some(event.number),
        conversation_id: &event.conversation_id,
        time: Timestamp(event.time_us).to_string(),
        fields,
    })
}

/// Renders an event as one line of JSON: `{"event":NAME,"data":DATA}`.
pub fn chat_event_line(event: &ChatEvent) -> String {
    let (name, data) = chat_event(event);
    format!("{{\"event\":\"{name}\",\"data\":{data}}}\n")
}

/// Renders a conversation without its events.
pub fn conversation(it: &Conversation) -> Value {
    json!({
        "id": it.id,
        "title": it.title,
        "created": Timestamp(it.created_us).to_string(),
        "used": Timestamp(it.used_us).to_string(),
        "last_number": it.last_number,
        "state": short(it.state().as_str_name(), "CONVERSATION_STATE_"),
    })
}

/// Renders a page of conversations.
pub fn conversations(page: &ListConversationsResponse) -> String {
    json!({
        "conversations": page.conversations.iter().map(conversation).collect::<Vec<_>>(),
        "next_cursor": (!page.next_cursor.is_empty()).then_some(&page.next_cursor),
    })
    .to_string()
}

fn call(it: &ToolCall) -> CallJson<'_> {
    CallJson {
        call_id: &it.call_id,
        skill_id: &it.skill_id,
        name: &it.name,
        arguments: serde_json::from_str(&it.arguments_json).ok(),
        repairs: it.repairs.iter().map(repair).collect(),
    }
}

fn approval(it: &ApprovalRequested) -> ApprovalJson<'_> {
    ApprovalJson {
        request_id: &it.request_id,
        call_id: &it.call_id,
        skill_id: &it.skill_id,
        version: &it.version,
        arguments: serde_json::from_str(&it.arguments_json).ok(),
        repairs: it.repairs.iter().map(repair).collect(),
        reason: &it.reason,
        expires: Timestamp(it.expires_us).to_string(),
        tainted: it.tainted,
    }
}

fn tool_result(it: &ToolResult) -> Value {
    let code = it.code();
    json!({
        "call_id": it.call_id,
        "success": it.success,
        "content": it.content,
        "result_id": (!it.result_id.is_empty()).then_some(&it.result_id),
        "code": (code != ErrorCode::Unspecified).then(|| code.as_str_name()),
        "latency_ms": it.latency_ms,
        "replayed": it.replayed,
        "unknown": it.unknown,
    })
}

fn input_required(it: &InputRequested) -> Value {
    let questions: Vec<_> = it.questions.iter().map(question).collect();
    json!({ "request_id": it.request_id, "call_id": it.call_id, "message": it.message, "questions": questions })
}

fn question(it: &Question) -> Value {
    let kind = short(it.r#type().as_str_name(), "QUESTION_TYPE_");
    json!({ "id": it.id, "text": it.text, "type": kind, "options": it.options, "required": it.required })
}

fn usage(it: &Usage) -> Value {
    json!({
        "input_tokens": it.input_tokens,
        "output_tokens": it.output_tokens,
        "iterations": it.iterations,
        "tool_calls": it.tool_calls,
        "cost_micros": it.cost_micros,
    })
}

fn turn_done(it: &TurnDone) -> Value {
    json!({
        "end": short(it.end().as_str_name(), "TURN_END_"),
        "text": it.text,
        "error": (!it.error.is_empty()).then_some(&it.error),
        "limit": (!it.limit.is_empty()).then_some(&it.limit),
        "usage": usage(&it.usage.unwrap_or_default()),
    })
}

/// Shortens an enum name: `READ_ONLY` of `APPROVAL_MODE_READ_ONLY`, in lower case.
fn short(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{ApprovalMode, TurnEnd, TurnStarted};

    fn rendered(number: u64, event: Event) -> (&'static str, String) {
        chat_event(&ChatEvent { number, conversation_id: "c".to_owned(), time_us: 1_500_000, event: Some(event) })
    }

    #[test]
    fn arguments_keep_every_digit() {
        let call = ToolCall { arguments_json: "{\"n\":12345678901234567890123}".to_owned(), ..ToolCall::default() };
        let (name, data) = rendered(3, Event::ToolCall(call));
        assert_eq!(name, "tool_call");
        assert!(
            data.starts_with("{\"number\":3,\"conversation_id\":\"c\",\"time\":\"1970-01-01T00:00:01.500000Z\""),
            "{data}"
        );
        assert!(data.contains("\"arguments\":{\"n\":12345678901234567890123}"), "{data}");
    }

    #[test]
    fn enumerations_are_short_names_and_what_is_absent_is_null() {
        let started = TurnStarted { mode: ApprovalMode::ReadOnly.into(), ..TurnStarted::default() };
        let (_, started) = rendered(1, Event::Started(started));
        assert!(started.contains("\"mode\":\"read_only\""), "{started}");
        let done = TurnDone { end: TurnEnd::Waiting.into(), ..TurnDone::default() };
        let (name, done) = rendered(0, Event::Done(done));
        let done: Value = serde_json::from_str(&done).unwrap();
        assert_eq!(
            (name, &done["end"], &done["number"], &done["error"]),
            ("done", &json!("waiting"), &json!(null), &json!(null))
        );
        let failed = ToolResult { code: ErrorCode::NotFound.into(), ..ToolResult::default() };
        let (_, failed) = rendered(4, Event::ToolResult(failed));
        assert!(failed.contains("\"code\":\"NOT_FOUND\""), "{failed}");
    }

    #[test]
    fn a_conversation_says_what_its_last_turn_does() {
        let state = crate::v1::ConversationState::Waiting.into();
        let page = ListConversationsResponse {
            conversations: vec![Conversation { id: "conv_1".to_owned(), state, ..Conversation::default() }],
            next_cursor: String::new(),
        };
        let page: Value = serde_json::from_str(&conversations(&page)).unwrap();
        assert_eq!((&page["conversations"][0]["state"], &page["next_cursor"]), (&json!("waiting"), &json!(null)));
    }
}
