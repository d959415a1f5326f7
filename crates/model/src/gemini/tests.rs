use serde_json::json;

use super::*;
use crate::message::Tokens;
use crate::model::StopReason;
use crate::tests::{Streams, calls, history, read, sent, streams};
use crate::wire::WireError;

fn wire() -> Gemini {
    Gemini { model: "gemini-3-pro".to_owned(), name: "gemini:gemini-3-pro".to_owned() }
}

fn parts(parts: &str) -> String {
    format!(r#"{{"candidates":[{{"content":{{"role":"model","parts":[{parts}]}},"index":0}}]}}"#)
}

fn finish(reason: &str) -> String {
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{{"text":""}}]}},"finishReason":"{reason}"}}],"usageMetadata":{{"promptTokenCount":11,"candidatesTokenCount":4,"thoughtsTokenCount":3}}}}"#
    )
}

/// Returns a candidate with a thought, text and two calls, the first of which is signed.
fn recorded() -> String {
    let (thought, text) = (parts(r#"{"text":"Hmm","thought":true}"#), parts(r#"{"text":"Grüß 🦀"}"#));
    let first = parts(
        r#"{"functionCall":{"id":"g1","name":"add","args":{"n": 12345678901234567890123}},"thoughtSignature":"Sig/+="}"#,
    );
    let second = parts(r#"{"functionCall":{"name":"now"}}"#);
    streams(&[&thought, &text, &first, &second, &finish("STOP")])
}

#[test]
fn calls_keep_every_byte_of_their_arguments() {
    let reply = read(&wire(), &recorded()).unwrap();
    let expected = vec![("g1", "add", r#"{"n": 12345678901234567890123}"#), ("", "now", "{}")];
    assert_eq!(calls(&reply), (StopReason::Done, expected));
    assert_eq!((reply.text.as_str(), reply.tokens), ("Grüß 🦀", Tokens { input: 11, output: 7 }));
}

#[test]
fn no_border_of_chunks_matters_and_no_cut_passes() {
    Streams { whole: &recorded(), end: "}\n\n" }.hold(&wire());
}

#[test]
fn a_reason_in_each_chunk_does_not_end_the_answer() {
    let early = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}"#;
    let call = parts(r#"{"functionCall":{"name":"add","args":{}}}"#);
    let reply = read(&wire(), &streams(&[early, &call])).unwrap();
    assert_eq!((reply.text.as_str(), reply.calls.len()), ("a", 1));
}

#[test]
fn every_end_has_its_meaning() {
    for (reason, stop) in [
        ("STOP", StopReason::Done),
        ("MAX_TOKENS", StopReason::Length),
        ("SAFETY", StopReason::Refused),
        ("RECITATION", StopReason::Refused),
        ("PROHIBITED_CONTENT", StopReason::Refused),
    ] {
        assert_eq!(read(&wire(), &streams(&[&finish(reason)])).unwrap().stop, stop, "{reason}");
    }
    let cut = Err(WireError::CutOff);
    assert_eq!(read(&wire(), &streams(&[&finish("MALFORMED_FUNCTION_CALL")])), cut);
    let blocked = r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3}}"#;
    assert_eq!(read(&wire(), &streams(&[blocked])).unwrap().stop, StopReason::Refused);
    for nothing in [
        r#"{"candidates":[]}"#,
        r#"{"candidates":null}"#,
        r#"{"usageMetadata":{}}"#,
        r#"{"candidates":[{"content":{}}]}"#,
    ] {
        assert_eq!(read(&wire(), &streams(&[nothing])), cut, "{nothing}");
    }
}

#[test]
fn an_error_within_the_stream_is_the_provider_s() {
    let error = r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#;
    match read(&wire(), &streams(&[&parts(r#"{"text":"a"}"#), error])) {
        Err(WireError::Failed(failure)) => assert_eq!(failure.status, 503),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_history_is_written_as_the_format_wants_it() {
    let mut request = history("");
    request.tools = vec![r#"{"name":"add","parameters":{"type":"OBJECT"}}"#.to_owned()];
    let text = String::from_utf8(wire().body(&request, true)).unwrap();
    assert!(text.contains(r#""args":{"n": 12345678901234567890123}"#), "{text}");
    let body = sent(&wire(), &request);
    assert_eq!(body["systemInstruction"], json!({"parts": [{"text": "Be brief."}]}));
    assert_eq!(body["tools"], json!([{"functionDeclarations": [{"name": "add", "parameters": {"type": "OBJECT"}}]}]));
    assert_eq!((&body["generationConfig"], body.get("toolConfig")), (&json!({"maxOutputTokens": 100}), None));
    let contents = &body["contents"];
    assert_eq!(contents[0], json!({"role": "user", "parts": [{"text": "Add é"}]}));
    assert_eq!((&contents[1]["role"], &contents[1]["parts"][0]), (&json!("model"), &json!({"text": "Well"})));
    let second = json!({"functionCall": {"name": "no_such_tool", "args": {"invalid_json": "[1, 2,]"}}});
    assert_eq!(contents[1]["parts"][2], second);
    let results = [
        json!({"functionResponse": {"name": "add", "response": {"output": "3"}}}),
        json!({"functionResponse": {"name": "no_such_tool", "response": {"error": "unknown"}}}),
    ];
    assert_eq!(contents[2], json!({"role": "user", "parts": results}));
    request.may_call = false;
    let body = sent(&wire(), &request);
    assert_eq!(body["toolConfig"], json!({"functionCallingConfig": {"mode": "NONE"}}));
    assert!(body.get("tools").is_some());
}

#[test]
fn signatures_and_ids_go_back_to_the_model_that_gave_them() {
    let reply = read(&wire(), &recorded()).unwrap();
    let request = history(&reply.calls[0].opaque);
    let contents = &sent(&wire(), &request)["contents"];
    let signature = |part: usize| contents[1]["parts"][part].get("thoughtSignature").cloned();
    assert_eq!((signature(1), signature(2)), (Some(json!("Sig/+=")), None));
    assert_eq!(contents[1]["parts"][1]["functionCall"]["id"], "g1");
    assert_eq!(contents[2]["parts"][0]["functionResponse"]["id"], "g1");
    assert_eq!(contents[2]["parts"][1]["functionResponse"].get("id"), None);
}

#[test]
fn calls_of_other_models_are_signed_as_the_provider_allows() {
    let reply = read(&wire(), &recorded()).unwrap();
    let other = Gemini { name: "gemini:gemini-4".to_owned(), model: "gemini-4".to_owned() };
    for (wire, opaque, with_opaque) in
        [(&other, reply.calls[0].opaque.as_str(), true), (&wire(), "", true), (&wire(), &reply.calls[0].opaque, false)]
    {
        let body: serde_json::Value = serde_json::from_slice(&wire.body(&history(opaque), with_opaque)).unwrap();
        let parts = &body["contents"][1]["parts"];
        assert_eq!(parts[1]["thoughtSignature"], NO_SIGNATURE);
        assert_eq!(parts[2].get("thoughtSignature"), None);
    }
    let old = Gemini { name: "gemini:gemini-2.5-pro".to_owned(), model: "gemini-2.5-pro".to_owned() };
    assert!(!sent(&old, &history("")).to_string().contains("thoughtSignature"), "older models demand none");
}
