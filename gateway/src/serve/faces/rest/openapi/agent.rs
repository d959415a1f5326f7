//! The paths of the agent.

use serde_json::{Map, Value, json};

use super::components::{either, one_of, record, reference};
use super::responses::{json_of, text_of, with};

/// The paths, where an agent is served.
pub(super) fn paths() -> Map<String, Value> {
    let id = json!({ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } });
    let conversation = reference("schemas", "Conversation");
    [
        ("/agent/chat", json!({ "post": chat() })),
        ("/agent/conversations", json!({ "get": list() })),
        (
            "/agent/conversations/{id}",
            json!({
                "get": operation("get_conversation", "A conversation, without its events", json!([id]), &conversation, &[404, 503]),
                "delete": operation(
                    "delete_conversation",
                    "Delete a conversation; a running turn is cancelled first",
                    json!([id]),
                    &json!({ "type": "object" }),
                    &[404, 503],
                ),
            }),
        ),
        ("/agent/conversations/{id}/events", json!({ "get": events(&id) })),
    ]
    .map(|(path, item)| (path.to_owned(), item))
    .into_iter()
    .collect()
}

/// The schemas that the paths refer to.
pub(super) fn schemas() -> Map<String, Value> {
    let number = json!({ "type": "integer", "minimum": 0 });
    let limits =
        ["max_tool_calls", "max_iterations", "max_tokens", "timeout_ms", "max_cost_micros", "max_validation_retries"];
    let limits: Map<_, _> = limits.map(|name| (name.to_owned(), number.clone())).into_iter().collect();
    let message = object(
        json!({
            "text": { "type": "string" },
            "model": { "type": "string", "description": "provider:model, provider, or a model of the default provider." },
            "mode": { "enum": ["ask", "read_only", "auto"] },
            "limits": { "type": "object", "properties": limits, "additionalProperties": false },
            "toolset": { "type": "string" },
        }),
        &["text"],
    );
    let answer = object(
        json!({ "id": { "type": "string" }, "answer": { "oneOf": one_of(&["string", "number", "boolean"]) } }),
        &["id", "answer"],
    );
    let answers = json!({
        "request_id": { "type": "string" },
        "answers": { "type": "array", "items": answer },
        "declined": { "type": "boolean", "default": false },
    });
    let decision = json!({
        "request_id": { "type": "string" },
        "decision": { "enum": ["allow", "allow_conversation", "edit", "deny"] },
        "arguments": { "type": "object", "description": "edit: the arguments to call with." },
        "reason": { "type": "string", "description": "deny: why. The model reads it." },
    });
    let id = json!({ "type": "string", "minLength": 1 });
    let input =
        |name: &str, schema: Value| object(json!({ "conversation_id": id, name: schema }), &["conversation_id", name]);
    let messages = json!({ "oneOf": [{ "type": "string" }, reference("schemas", "UserMessage")] });
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

/// What a client sends to the agent: one of these.
const INPUTS: [&str; 4] = ["ChatMessage", "ChatAnswers", "ChatDecision", "ChatCancel"];

fn exchange() -> Value {
    let event = json!({
        "type": "object",
        "required": ["event", "data"],
        "properties": { "event": { "enum": EVENTS }, "data": { "type": "object" } },
    });
    json!({
        "type": "object",
        "required": ["conversation_id", "events", "left_out", "done"],
        "properties": {
            "conversation_id": { "type": "string" },
            "events": { "type": "array", "items": event },
            "left_out": { "type": "integer", "description": "Events that did not fit: the conversation has them." },
            "done": {
                "type": "object",
                "properties": {
                    "end": { "enum": ["completed", "waiting", "limit", "cancelled", "failed"] },
                    "text": { "type": "string" },
                    "error": { "type": ["string", "null"] },
                    "limit": { "type": ["string", "null"] },
                    "usage": { "type": "object" },
                },
            },
        },
    })
}

fn conversation() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "title": { "type": "string" },
            "created": { "type": "string", "format": "date-time" },
            "used": { "type": "string", "format": "date-time" },
            "last_number": { "type": "integer", "minimum": 0 },
            "state": { "enum": ["unspecified", "idle", "running", "waiting"] },
        },
    })
}

const EVENTS: [&str; 14] = [
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
];

fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn chat() -> Value {
    let whole = json_of("The events of the turn, up to done.", &reference("schemas", "ChatExchange"));
    let mut own = json!({ "200": whole });
    own["200"]["content"]["text/event-stream"] = json!({ "schema": { "description": "Named events with JSON." } });
    json!({
        "tags": ["agent"],
        "operationId": "chat",
        "summary": "Send a message, an answer or a decision; get what the agent does",
        "description": "With Accept: text/event-stream, events come as they happen. Otherwise the answer comes after the last one.",
        "requestBody": {
            "required": true,
            "content": { "application/json": { "schema": reference("schemas", "ChatRequest") } },
        },
        "responses": with(&own, &[400, 404, 413, 415, 500, 503]),
    })
}

fn list() -> Value {
    let parameters = json!([
        { "name": "limit", "in": "query", "schema": { "type": "integer", "minimum": 0, "maximum": u32::MAX, "default": 50 } },
        { "name": "cursor", "in": "query", "schema": { "type": "string" }, "description": "next_cursor of the previous page." },
    ]);
    let conversations = json!({ "type": "array", "items": reference("schemas", "Conversation") });
    let page = record(json!({ "conversations": conversations, "next_cursor": { "type": ["string", "null"] } }), &[]);
    operation("list_conversations", "Your conversations, the one used last first", parameters, &page, &[400, 503])
}

fn events(id: &Value) -> Value {
    let number = json!({ "type": "integer", "minimum": 0 });
    let parameters = json!([
        id,
        { "name": "after", "in": "query", "schema": { "type": "integer", "minimum": 0, "default": 0 } },
        { "name": "follow", "in": "query", "schema": { "type": "boolean" }, "description": "Default: true for server-sent events." },
        { "name": "Last-Event-ID", "in": "header", "schema": number, "description": "In place of after. A malformed one counts as none." },
    ]);
    let own = json!({ "200": text_of("The events.", &["application/x-ndjson", "text/event-stream"]) });
    json!({
        "tags": ["agent"],
        "operationId": "watch_conversation",
        "summary": "The events of a conversation, as JSON lines or server-sent events",
        "parameters": parameters,
        "responses": with(&own, &[400, 404, 503]),
    })
}

fn operation(id: &str, summary: &str, parameters: Value, schema: &Value, failures: &[u16]) -> Value {
    json!({
        "tags": ["agent"],
        "operationId": id,
        "summary": summary,
        "parameters": parameters,
        "responses": with(&json!({ "200": json_of("OK", schema) }), failures),
    })
}
