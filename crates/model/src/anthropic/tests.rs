use serde_json::json;

use super::*;
use crate::message::Tokens;
use crate::model::StopReason;
use crate::tests::{Streams, calls, history, read, sent, streams};
use crate::wire::WireError;

fn wire() -> Anthropic {
    Anthropic { model: "claude".to_owned(), name: "anthropic:claude".to_owned() }
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","content":[],"usage":{"input_tokens":5,"cache_creation_input_tokens":2,"cache_read_input_tokens":4,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

fn tool_use(index: u32, id: &str, name: &str) -> String {
    format!(
        r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"tool_use","id":"{id}","name":"{name}","input":{{}}}}}}"#
    )
}

fn part(index: u32, part: &str) -> String {
    let part = serde_json::Value::from(part);
    format!(
        r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"input_json_delta","partial_json":{part}}}}}"#
    )
}

fn stop_reason(reason: &str) -> String {
    format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":9}}}}"#
    )
}

/// Returns a message stream with a thinking block, text and two calls.
fn recorded() -> String {
    let (add, read, reason) = (tool_use(2, "toolu_a", "add"), tool_use(3, "toolu_b", "read"), stop_reason("tool_use"));
    let parts = [part(2, ""), part(2, "{\"n\": 12345678901"), part(3, "[1, 2,]"), part(2, "234567890123}")];
    streams(&[
        START,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hmm"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"Sig/+="}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Grüß 🦀"}}"#,
        &add,
        &parts[0],
        &parts[1],
        &read,
        &parts[2],
        &parts[3],
        r#"{"type":"content_block_stop","index":2}"#,
        &reason,
        STOP,
    ])
}

#[test]
fn calls_keep_every_byte_of_their_arguments() {
    let reply = read(&wire(), &recorded()).unwrap();
    let expected = vec![("toolu_a", "add", r#"{"n": 12345678901234567890123}"#), ("toolu_b", "read", "[1, 2,]")];
    assert_eq!(calls(&reply), (StopReason::Done, expected));
    assert_eq!((reply.text.as_str(), reply.tokens), ("Grüß 🦀", Tokens { input: 11, output: 9 }));
}

#[test]
fn no_border_of_chunks_matters_and_no_cut_passes() {
    Streams { whole: &recorded(), end: "}\n\n" }.hold(&wire());
}

#[test]
fn calls_without_parts_have_the_arguments_of_their_start() {
    let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"add","input":{"n": 12345678901234567890123}}}"#;
    let (empty, reason) = (tool_use(1, "b", "now"), stop_reason("tool_use"));
    let reply = read(&wire(), &streams(&[start, &empty, &reason, STOP])).unwrap();
    assert_eq!(calls(&reply).1, [("a", "add", r#"{"n": 12345678901234567890123}"#), ("b", "now", "{}")]);
}

#[test]
fn the_limit_of_tokens_leaves_the_call_out_that_it_cut_off() {
    for reason in ["max_tokens", "model_context_window_exceeded"] {
        for last in [vec![part(1, "{\"n\": ")], vec![]] {
            let (first, whole, cut, reason) =
                (tool_use(0, "a", "add"), part(0, "{}"), tool_use(1, "b", "add"), stop_reason(reason));
            let mut events = vec![START, &first, &whole, &cut];
            events.extend(last.iter().map(String::as_str));
            events.extend([reason.as_str(), STOP]);
            assert_eq!(
                calls(&read(&wire(), &streams(&events)).unwrap()),
                (StopReason::Length, vec![("a", "add", "{}")])
            );
        }
    }
    let reason = stop_reason("refusal");
    assert_eq!(read(&wire(), &streams(&[START, &reason, STOP])).unwrap().stop, StopReason::Refused);
}

#[test]
fn an_error_within_the_stream_is_the_provider_s() {
    let text = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#;
    for (kind, status) in [
        ("overloaded_error", 529),
        ("rate_limit_error", 429),
        ("api_error", 500),
        ("timeout_error", 504),
        ("invalid_request_error", 400),
        ("authentication_error", 401),
    ] {
        let error = format!(
            "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":\"Oh\"}}}}\n\n"
        );
        match read(&wire(), &(streams(&[START, text]) + &error)) {
            Err(WireError::Failed(failure)) => assert_eq!(failure.status, status, "{kind}"),
            other => panic!("{kind}: {other:?}"),
        }
    }
}

#[test]
fn the_history_is_written_as_the_format_wants_it() {
    let mut request = history("");
    request.messages.push(Message::User("And?".to_owned()));
    request.tools =
        vec![r#"{"name":"add","input_schema":{"type":"object","maximum":12345678901234567890123}}"#.to_owned()];
    let text = String::from_utf8(wire().body(&request, true)).unwrap();
    assert!(text.contains(&request.tools[0]) && text.contains(r#""input":{"n": 12345678901234567890123}"#), "{text}");
    let body = sent(&wire(), &request);
    assert_eq!((&body["system"], &body["max_tokens"]), (&json!("Be brief."), &json!(100)));
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(
        messages.iter().map(|it| it["role"].as_str().unwrap()).collect::<Vec<_>>(),
        ["user", "assistant", "user"]
    );
    assert_eq!(messages[1]["content"][0], json!({"type": "text", "text": "Well"}));
    let second = &messages[1]["content"][2];
    assert_eq!((&second["name"], &second["input"]), (&json!("no_such_tool"), &json!({"invalid_json": "[1, 2,]"})));
    let results = &messages[2]["content"];
    assert_eq!(results[0], json!({"type": "tool_result", "tool_use_id": "call_1", "content": "3"}));
    let refused = json!({"type": "tool_result", "tool_use_id": second["id"], "content": "unknown", "is_error": true});
    assert_eq!(results[1], refused);
    assert_eq!(results[2], json!({"type": "text", "text": "And?"}));
    assert!(body.get("tool_choice").is_none());
}

#[test]
fn tools_are_defined_wherever_the_history_has_calls() {
    let mut request = history("");
    request.may_call = false;
    let body = sent(&wire(), &request);
    let names: Vec<_> = body["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!((names, &body["tool_choice"]), (vec!["add", "no_such_tool"], &json!({"type": "none"})));
    let empty = ModelRequest { messages: vec![Message::User("Hi".to_owned())], ..ModelRequest::default() };
    let body = sent(&wire(), &empty);
    assert_eq!((body.get("tools"), body.get("tool_choice"), body.get("system")), (None, None, None));
    assert_eq!(body["max_tokens"], DEFAULT_MAX_TOKENS);
}

#[test]
fn thoughts_go_back_first_as_they_came_and_only_in_their_turn() {
    let reply = read(&wire(), &recorded()).unwrap();
    let mut request = history(&reply.calls[0].opaque);
    let content = &sent(&wire(), &request)["messages"][1]["content"];
    assert_eq!(content[0], json!({"type": "thinking", "thinking": "Hmm", "signature": "Sig/+="}));
    assert_eq!((&content[1]["type"], &content[2]["type"]), (&json!("text"), &json!("tool_use")));
    assert!(!String::from_utf8(wire().body(&request, false)).unwrap().contains("Hmm"));
    let other = Anthropic { name: "anthropic:other".to_owned(), ..wire() };
    assert!(!sent(&other, &request).to_string().contains("Hmm"));
    request.messages.push(Message::User("And?".to_owned()));
    assert!(!sent(&wire(), &request).to_string().contains("Hmm"));
    let redacted =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"X"}}"#;
    let (call, reason) = (tool_use(1, "a", "add"), stop_reason("tool_use"));
    let reply = read(&wire(), &streams(&[redacted, &call, &reason, STOP])).unwrap();
    let request = history(&reply.calls[0].opaque);
    let content = &sent(&wire(), &request)["messages"][1]["content"];
    assert_eq!(content[0], json!({"type": "redacted_thinking", "data": "X"}));
}

#[test]
fn empty_text_is_not_sent() {
    let mut request = history("");
    request.messages.push(Message::Assistant { text: " \n".to_owned(), calls: Vec::new() });
    request.messages.push(Message::User("Hello?".to_owned()));
    let messages = &sent(&wire(), &request)["messages"];
    assert_eq!(messages.as_array().unwrap().len(), 3);
    assert_eq!(messages[2]["content"][2]["text"], "Hello?");
}
