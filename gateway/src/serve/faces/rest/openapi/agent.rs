//! Describes the agent's operations.

use serde_json::{Map, Value, json};

use super::components::{count, either, list_of, object, record, schema, text, type_schemas};
use super::description::{Description, in_path, json_of, query, text_of};

/// Returns the schemas that these operations use.
pub(super) fn schemas() -> Map<String, Value> {
    let limits =
        ["max_tool_calls", "max_iterations", "max_tokens", "timeout_ms", "max_cost_micros", "max_validation_retries"];
    let limits: Map<_, _> = limits.map(|name| (name.to_owned(), count())).into_iter().collect();
    let message = object(
        json!({
            "text": text(),
            "model": { "type": "string", "description": "provider:model, provider, or a model of the default provider." },
            "mode": { "enum": ["ask", "read_only", "auto"] },
            "limits": object(limits.into(), &[]),
            "toolset": text(),
        }),
        &["text"],
    );
    let answer = json!({ "id": text(), "answer": { "oneOf": type_schemas(&["string", "number", "boolean"]) } });
    let answers = json!({
        "request_id": text(),
        "answers": list_of(&object(answer, &["id", "answer"])),
        "declined": { "type": "boolean", "default": false },
    });
    let decision = json!({
        "request_id": text(),
        "decision": { "enum": ["allow", "allow_conversation", "edit", "deny"] },
        "arguments": { "type": "object", "description": "edit: the arguments to call with." },
        "reason": { "type": "string", "description": "deny: the reason, which the model reads." },
    });
    let id = json!({ "type": "string", "minLength": 1 });
    let input =
        |name: &str, schema: Value| object(json!({ "conversation_id": id, name: schema }), &["conversation_id", name]);
    let messages = json!({ "oneOf": [text(), schema("UserMessage")] });
    let new_or_not = json!({ "type": "string", "description": "Empty or absent: the message begins a conversation." });
    let schemas = [
        ("UserMessage", message),
        ("ChatRequest", either(&INPUTS)),
        (INPUTS[0], object(json!({ "conversation_id": new_or_not, "message": messages }), &["message"])),
        (INPUTS[1], input("answers", object(answers, &["request_id"]))),
        (INPUTS[2], input("decision", object(decision, &["request_id", "decision"]))),
        (INPUTS[3], input("cancel", json!({ "type": "object", "description": "Ends the turn." }))),
        ("ChatExchange", exchange()),
        ("Conversation", conversation()),
    ];
    schemas.map(|(name, schema)| (name.to_owned(), schema)).into_iter().collect()
}

/// The messages that a client sends to the agent.
const INPUTS: [&str; 4] = ["ChatMessage", "ChatAnswers", "ChatDecision", "ChatCancel"];

fn exchange() -> Value {
    let names = json!([
        "started",
        "text",
        "reply",
        "tool_call",
        "progress",
        "tool_result",
        "input_required",
        "answered",
        "approval_required",
        "decided",
        "waiting",
        "usage",
        "summarized",
        "done",
    ]);
    let event = record(json!({ "event": { "enum": names }, "data": { "type": "object" } }), &[]);
    let done = json!({
        "end": { "enum": ["completed", "waiting", "limit", "cancelled", "failed"] },
        "text": text(),
        "error": { "type": ["string", "null"] },
        "limit": { "type": ["string", "null"] },
        "usage": { "type": "object" },
    });
    record(
        json!({
            "conversation_id": text(),
            "events": list_of(&event),
            "left_out": { "type": "integer", "description": "Number of events that were left out: the conversation contains them." },
            "done": { "type": "object", "properties": done },
        }),
        &[],
    )
}

fn conversation() -> Value {
    let time = json!({ "type": "string", "format": "date-time" });
    let properties = json!({
        "id": text(),
        "title": text(),
        "created": time,
        "used": time,
        "last_number": count(),
        "state": { "enum": ["unspecified", "idle", "running", "waiting"] },
    });
    json!({ "type": "object", "properties": properties })
}

fn id() -> Value {
    in_path("id", text(), "The conversation's id.")
}

pub(crate) fn chat() -> Description {
    let mut events = json_of("The events of the turn, up to done.", &schema("ChatExchange"));
    events["content"]["text/event-stream"] = json!({ "schema": { "description": "Named events with JSON." } });
    Description::new("agent", "chat", "Send a message, an answer or a decision, and get the agent's events")
        .set("description", "With Accept: text/event-stream, events come as they happen. Otherwise the answer comes after the last one.")
        .body(json!({ "schema": schema("ChatRequest") }))
        .response(200, events)
        .failures(&[400, 404, 500, 503])
}

pub(crate) fn list_conversations() -> Description {
    let limit = json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX, "default": 50 });
    let cursor = json!({ "name": "cursor", "in": "query", "schema": text(), "description": "next_cursor of the previous page." });
    let conversations = list_of(&schema("Conversation"));
    let page = record(json!({ "conversations": conversations, "next_cursor": { "type": ["string", "null"] } }), &[]);
    Description::new("agent", "list_conversations", "List your conversations, most recently used first")
        .set("parameters", [query("limit", limit), cursor])
        .ok(&page)
}

pub(crate) fn get_conversation() -> Description {
    Description::new("agent", "get_conversation", "Get a conversation without its events")
        .set("parameters", [id()])
        .ok(&schema("Conversation"))
}

pub(crate) fn delete_conversation() -> Description {
    Description::new("agent", "delete_conversation", "Delete a conversation; a running turn is cancelled first")
        .set("parameters", [id()])
        .ok(&json!({ "type": "object" }))
}

pub(crate) fn watch_conversation() -> Description {
    let parameters = [
        id(),
        query("after", json!({ "type": "integer", "minimum": 0, "default": 0 })),
        json!({ "name": "follow", "in": "query", "schema": { "type": "boolean" }, "description": "Default: true for server-sent events." }),
        json!({ "name": "Last-Event-ID", "in": "header", "schema": count(), "description": "Used instead of after. A malformed value is ignored." }),
    ];
    let summary = "Get the events of a conversation as JSON lines or server-sent events";
    Description::new("agent", "watch_conversation", summary)
        .set("parameters", parameters)
        .response(200, text_of("The events.", &["application/x-ndjson", "text/event-stream"]))
}
