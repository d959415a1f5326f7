use serde_json::json;

use super::*;
use crate::message::Tokens;
use crate::model::StopReason;
use crate::tests::{Streams, calls, history, read, sent, streams};
use crate::wire::WireError;

fn wire() -> OpenAiResponses {
    OpenAiResponses { model: "gpt-5".to_owned(), name: "openai:gpt-5".to_owned() }
}

const REASONING: &str = r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA/+="}}"#;
const COMPLETED: &str = r#"{"type":"response.completed","response":{"id":"r","status":"completed","error":null,"incomplete_details":null,"output":[],"usage":{"input_tokens":11,"output_tokens":7}}}"#;

/// Returns a response with reasoning, text and two calls whose deltas alternate.
fn recorded() -> String {
    streams(&[
        r#"{"type":"response.created","sequence_number":0,"response":{"id":"r","status":"in_progress","error":null,"output":[]}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}"#,
        REASONING,
        r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","content":[],"role":"assistant"}}"#,
        r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"Grüß 🦀"}"#,
        r#"{"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","content":[{"type":"output_text","text":"Grüß 🦀"}]}}"#,
        r#"{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"call_a","name":"add"}}"#,
        r#"{"type":"response.output_item.added","output_index":3,"item":{"id":"fc_2","type":"function_call","status":"in_progress","arguments":"","call_id":"call_b","name":"read"}}"#,
        r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"{\"n\": 12345678"}"#,
        r#"{"type":"response.function_call_arguments.delta","item_id":"fc_2","output_index":3,"delta":"[1, 2,]"}"#,
        r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"901234567890123}"}"#,
        r#"{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":2,"arguments":"{\"n\": 12345678901234567890123}"}"#,
        r#"{"type":"response.output_item.done","output_index":2,"item":{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"n\": 12345678901234567890123}","call_id":"call_a","name":"add"}}"#,
        COMPLETED,
    ])
}

#[test]
fn interleaved_calls_keep_every_byte_of_their_arguments() {
    let reply = read(&wire(), &recorded()).unwrap();
    let expected = vec![("call_a", "add", r#"{"n": 12345678901234567890123}"#), ("call_b", "read", "[1, 2,]")];
    assert_eq!(calls(&reply), (StopReason::Done, expected));
    assert_eq!((reply.text.as_str(), reply.tokens), ("Grüß 🦀", Tokens { input: 11, output: 7 }));
}

#[test]
fn no_border_of_chunks_matters_and_no_cut_passes() {
    let recorded = recorded();
    // The last event is recognized even without its closing braces.
    Streams { whole: &recorded, end: "}\n\n" }.hold(&wire());
}

#[test]
fn only_reasoning_models_are_asked_for_encrypted_content() {
    for model in ["o1", "o3-mini", "o4-mini", "gpt-5", "gpt-5.4-mini", "gpt-6", "openai/gpt-5-codex", "codex-mini"] {
        assert!(reasons(model), "{model}");
    }
    for model in ["gpt-4o", "gpt-4.1", "gpt-5-chat-latest", "gpt-oss-20b", "omni", "qwen3", ""] {
        assert!(!reasons(model), "{model}");
    }
    let wire = OpenAiResponses { model: "gpt-4.1".to_owned(), name: "openai:gpt-4.1".to_owned() };
    assert_eq!(sent(&wire, &history("")).get("include"), None);
}

#[test]
fn the_limit_of_tokens_leaves_the_call_out_that_it_cut_off() {
    let stream = streams(&[
        r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"fc_1","type":"function_call","arguments":"","call_id":"a","name":"add"}}"#,
        r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":"{\"n\":"}"#,
        r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":1,"output_tokens":2}}}"#,
    ]);
    assert_eq!(calls(&read(&wire(), &stream).unwrap()), (StopReason::Length, vec![]));
    let filtered =
        streams(&[r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}"#]);
    assert_eq!(read(&wire(), &filtered).unwrap().stop, StopReason::Refused);
    let refused = streams(&[r#"{"type":"response.refusal.delta","delta":"No"}"#, COMPLETED]);
    assert_eq!(read(&wire(), &refused).unwrap().stop, StopReason::Refused);
}

#[test]
fn failures_within_the_stream_are_the_provider_s() {
    for (event, status) in [
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"Oh"}}}"#,
            500,
        ),
        (r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"Oh"}}}"#, 429),
        (r#"{"type":"error","code":"invalid_prompt","message":"Oh","param":null}"#, 400),
        (r#"{"error":{"message":"Oh","type":"server_error","code":503}}"#, 503),
    ] {
        match read(&wire(), &streams(&[event])) {
            Err(WireError::Failed(failure)) => assert_eq!(failure.status, status, "{event}"),
            other => panic!("{event}: {other:?}"),
        }
    }
    let stray = streams(&[r#"{"type":"response.function_call_arguments.delta","output_index":7,"delta":"{"}"#]);
    assert!(matches!(read(&wire(), &stray), Err(WireError::Malformed(_))));
}

#[test]
fn an_answer_that_comes_at_its_end_alone_is_read_too() {
    let item = r#"{"type":"function_call","id":"fc_1","call_id":"a","name":"add","arguments":"{\"n\": 12345678901234567890123}"}"#;
    let message = r#"{"type":"message","content":[{"type":"output_text","text":"Hi"}]}"#;
    let stream = streams(&[&format!(r#"{{"type":"response.completed","response":{{"output":[{message},{item}]}}}}"#)]);
    let reply = read(&wire(), &stream).unwrap();
    assert_eq!(calls(&reply).1, [("a", "add", r#"{"n": 12345678901234567890123}"#)]);
    assert_eq!(reply.text, "Hi");
}

#[test]
fn the_history_is_written_as_the_format_wants_it() {
    let mut request = history("");
    request.tools = vec![r#"{"type":"function","name":"add","parameters":{}}"#.to_owned()];
    let body = sent(&wire(), &request);
    assert_eq!(
        (&body["instructions"], &body["store"], &body["stream"]),
        (&json!("Be brief."), &json!(false), &json!(true))
    );
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(body["input"][0], json!({"role": "user", "content": "Add é"}));
    assert_eq!(body["input"][1], json!({"role": "assistant", "content": "Well"}));
    let arguments = "{\"n\": 12345678901234567890123}";
    let call = json!({"type": "function_call", "call_id": "call_1", "name": "add", "arguments": arguments});
    assert_eq!(body["input"][2], call);
    assert_eq!(body["input"][4], json!({"type": "function_call_output", "call_id": "call_1", "output": "3"}));
    assert_eq!(body["input"][5]["call_id"], body["input"][3]["call_id"]);
    assert!(body.get("tool_choice").is_none());
    request.may_call = false;
    assert_eq!(sent(&wire(), &request)["tool_choice"], "none");
}

#[test]
fn reasoning_goes_back_before_its_call_and_only_in_its_turn() {
    let reply = read(&wire(), &recorded()).unwrap();
    assert!(reply.calls[1].opaque.is_empty());
    let mut request = history(&reply.calls[0].opaque);
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA/+="});
    let input = &sent(&wire(), &request)["input"];
    assert_eq!((&input[1], &input[3]["type"]), (&reasoning, &json!("function_call")));
    assert!(!String::from_utf8(wire().body(&request, false)).unwrap().contains("gAAA"));
    request.messages.push(Message::User("And now?".to_owned()));
    assert!(!sent(&wire(), &request).to_string().contains("gAAA"));
}
