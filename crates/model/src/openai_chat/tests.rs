use serde_json::json;

use super::*;
use crate::failure::ProviderError;
use crate::message::Tokens;
use crate::model::StopReason;
use crate::tests::{Streams, calls, history, read, sent, streams};
use crate::wire::WireError;

fn wire(flavour: Flavour) -> OpenAiChat {
    OpenAiChat { model: "m".to_owned(), name: "openai:m".to_owned(), flavour }
}

fn compatible() -> OpenAiChat {
    wire(Flavour::Compatible)
}

/// Returns a chunk with this delta.
fn delta(delta: &str) -> String {
    format!(
        r#"{{"id":"c","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#
    )
}

/// Returns a chunk with this delta of a call.
fn call(call: &str) -> String {
    delta(&format!(r#"{{"tool_calls":[{call}]}}"#))
}

fn finish(reason: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

/// Returns a stream of these chunks with a finish reason and `[DONE]`.
fn done(chunks: &[String], reason: &str) -> String {
    let finish = finish(reason);
    let mut all: Vec<_> = chunks.iter().map(String::as_str).collect();
    all.extend([finish.as_str(), "[DONE]"]);
    streams(&all)
}

/// Returns a stream with two calls whose deltas alternate, as OpenAI sends them.
fn recorded() -> String {
    let chunks = [
        delta(r#"{"role":"assistant","content":null,"refusal":null}"#),
        delta(r#"{"content":"Gr\u00fc\u00df "}"#),
        delta(r#"{"content":"dich 🦀"}"#),
        call(r#"{"index":0,"id":"call_a","type":"function","function":{"name":"add","arguments":""}}"#),
        call(r#"{"index":1,"id":"call_b","type":"function","function":{"name":"read","arguments":"{\"p"}}"#),
        call(r#"{"index":0,"function":{"arguments":"{\"n\": 123456789012"}}"#),
        call(r#"{"index":1,"function":{"arguments":"ath\": \"é\"}"}}"#),
        call(r#"{"index":0,"function":{"arguments":"34567890123, \"n\": 1.0}"}}"#),
        finish("tool_calls"),
        r#"{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}"#.to_owned(),
    ];
    let mut all: Vec<_> = chunks.iter().map(String::as_str).collect();
    all.push("[DONE]");
    streams(&all)
}

#[test]
fn interleaved_calls_keep_every_byte_of_their_arguments() {
    let reply = read(&compatible(), &recorded()).unwrap();
    let expected =
        [("call_a", "add", r#"{"n": 12345678901234567890123, "n": 1.0}"#), ("call_b", "read", r#"{"path": "é"}"#)];
    assert_eq!(calls(&reply), (StopReason::Done, expected.to_vec()));
    assert_eq!((reply.text.as_str(), reply.tokens), ("Grüß dich 🦀", Tokens { input: 11, output: 7 }));
}

#[test]
fn no_border_of_chunks_matters_and_no_cut_passes() {
    Streams { whole: &recorded(), end: "data: [DONE]" }.hold(&compatible());
}

#[test]
fn calls_are_told_apart_however_a_server_numbers_them() {
    let two = [("a", "add", "{\"n\":1}"), ("b", "add", "{\"n\":2}")];
    let cases: [(&str, Vec<&str>, _); 7] = [
        (
            "without an index",
            vec![
                r#"{"id":"a","function":{"name":"add","arguments":"{\"n\":1}"}}"#,
                r#"{"id":"b","function":{"name":"add","arguments":"{\"n\":2}"}}"#,
            ],
            two,
        ),
        (
            "without an index, in parts",
            vec![
                r#"{"id":"a","function":{"name":"add","arguments":"{\"n\":"}}"#,
                r#"{"function":{"arguments":"1}"}}"#,
                r#"{"id":"b","function":{"name":"add"}}"#,
                r#"{"id":"b","function":{"arguments":"{\"n\":2}"}}"#,
            ],
            two,
        ),
        (
            "all with index 0",
            vec![
                r#"{"index":0,"id":"a","function":{"name":"add","arguments":"{\"n\":1}"}}"#,
                r#"{"index":0,"id":"b","function":{"name":"add","arguments":"{\"n\":2}"}}"#,
            ],
            two,
        ),
        (
            "with equal ids",
            vec![
                r#"{"index":0,"id":"a","function":{"name":"add","arguments":"{\"n\":1}"}}"#,
                r#"{"index":1,"id":"a","function":{"name":"add","arguments":"{\"n\":2}"}}"#,
            ],
            [("a", "add", "{\"n\":1}"), ("a", "add", "{\"n\":2}")],
        ),
        (
            "without ids and indexes",
            vec![
                r#"{"function":{"name":"add","arguments":"{\"n\":1}"}}"#,
                r#"{"function":{"name":"add","arguments":"{\"n\":2}"}}"#,
            ],
            [("", "add", "{\"n\":1}"), ("", "add", "{\"n\":2}")],
        ),
        (
            "with id and name repeated, and an empty end",
            vec![
                r#"{"index":0,"id":"a","function":{"name":"add","arguments":"{\"n\""}}"#,
                r#"{"index":0,"id":"a","function":{"name":"add","arguments":":1}"}}"#,
                r#"{"index":0,"id":"","function":{"name":"","arguments":""}}"#,
                r#"{"index":1,"id":"b","function":{"name":"add","arguments":"{\"n\":2}"}}"#,
                r#"{"index":2,"id":"","function":{"arguments":null}}"#,
            ],
            two,
        ),
        (
            "with a new id in each part",
            vec![
                r#"{"index":0,"id":"a","function":{"name":"add"}}"#,
                r#"{"index":0,"id":"x","function":{"arguments":"{\"n\""}}"#,
                r#"{"index":0,"id":"y","function":{"arguments":":1}"}}"#,
                r#"{"index":1,"id":"b","function":{"name":"add","arguments":"{\"n\":2}"}}"#,
            ],
            two,
        ),
    ];
    for (case, chunks, expected) in cases {
        let chunks: Vec<_> = chunks.into_iter().map(call).collect();
        let reply = read(&compatible(), &done(&chunks, "tool_calls")).unwrap();
        assert_eq!(calls(&reply).1, expected, "{case}");
    }
}

#[test]
fn arguments_are_taken_as_they_are() {
    for (written, taken) in [
        (r#"{"n" : 12345678901234567890123}"#, r#"{"n" : 12345678901234567890123}"#),
        (r#""[1, 2,]""#, "[1, 2,]"),
        (r#""""#, ""),
        ("null", ""),
    ] {
        let chunk = call(&format!(r#"{{"index":0,"id":"a","function":{{"name":"add","arguments":{written}}}}}"#));
        let reply = read(&compatible(), &done(&[chunk], "stop")).unwrap();
        assert_eq!(calls(&reply), (StopReason::Done, vec![("a", "add", taken)]));
    }
}

#[test]
fn a_call_that_the_limit_of_tokens_cut_off_is_left_out() {
    let chunks = [
        call(r#"{"index":0,"id":"a","function":{"name":"add","arguments":"{\"n\":1}"}}"#),
        call(r#"{"index":1,"id":"b","function":{"name":"add","arguments":"{\"n\":"}}"#),
    ];
    let reply = read(&compatible(), &done(&chunks, "length")).unwrap();
    assert_eq!(calls(&reply), (StopReason::Length, vec![("a", "add", "{\"n\":1}")]));
}

#[test]
fn an_answer_without_a_choice_is_an_error() {
    for chunks in [vec![r#"{"choices":[]}"#, "[DONE]"], vec![r#"{"choices":null}"#, "[DONE]"], vec!["[DONE]"]] {
        let error = read(&compatible(), &streams(&chunks)).unwrap_err();
        assert_eq!(error, WireError::Malformed("it has no choices".to_owned()));
    }
}

#[test]
fn null_content_other_choices_and_parts_are_read() {
    let other = r#"{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":null}]}"#.to_owned();
    let parts = delta(r#"{"content":[{"type":"thinking","thinking":[]},{"type":"text","text":"yes"}]}"#);
    let reply =
        read(&compatible(), &done(&[delta(r#"{"content":null,"tool_calls":null}"#), other, parts], "stop")).unwrap();
    assert_eq!((reply.text.as_str(), reply.calls.len(), reply.stop), ("yes", 0, StopReason::Done));
}

#[test]
fn refusals_and_filters_are_told() {
    let reply = read(&compatible(), &done(&[delta(r#"{"refusal":"I can't"}"#)], "stop")).unwrap();
    assert_eq!((reply.text.as_str(), reply.stop), ("I can't", StopReason::Refused));
    let reply = read(&compatible(), &done(&[delta(r#"{"content":"a"}"#)], "content_filter")).unwrap();
    assert_eq!(reply.stop, StopReason::Refused);
}

#[test]
fn an_error_within_the_stream_is_the_provider_s() {
    let text = delta(r#"{"content":"a"}"#);
    for (error, status) in [
        (r#"data: {"error":{"message":"Busy","type":"server_error","code":null}}"#, 500),
        (r#"data: {"error":{"message":"Busy","type":"BadRequestError","code":400}}"#, 400),
        (r#"data: {"object":"error","message":"Busy","code":429}"#, 429),
        (r#"error: {"code":400,"message":"Busy","type":"invalid_request_error"}"#, 400),
        ("event: error\ndata: {\"code\":\"overloaded\",\"message\":\"Busy\"}", 529),
    ] {
        let stream = format!("data: {text}\n\n{error}\n\ndata: [DONE]\n\n");
        match read(&compatible(), &stream) {
            Err(WireError::Failed(failure)) => assert_eq!(failure.status, status, "{error}"),
            other => panic!("{error}: {other:?}"),
        }
    }
    let stream = "event: error\ndata: out of memory\n\n";
    let expected = WireError::Failed(ProviderError::from_text("out of memory"));
    assert_eq!(read(&compatible(), stream).unwrap_err(), expected);
    let aborted = done(&[text], "abort");
    assert_eq!(read(&compatible(), &aborted).unwrap_err(), WireError::CutOff);
}

#[test]
fn too_many_calls_are_refused() {
    let chunks: Vec<_> = (0..257).map(|n| call(&format!(r#"{{"index":{n},"function":{{"name":"add"}}}}"#))).collect();
    let error = read(&compatible(), &done(&chunks, "stop")).unwrap_err();
    assert!(matches!(error, WireError::Malformed(_)), "{error:?}");
}

#[test]
fn the_history_is_written_as_the_format_wants_it() {
    let mut request = history("");
    request.tools = vec![
        r#"{"type":"function","function":{"name":"add","parameters":{"maximum":12345678901234567890123}}}"#.to_owned(),
    ];
    let body = String::from_utf8(compatible().body(&request, true)).unwrap();
    assert!(body.contains(&request.tools[0]), "tools are sent byte for byte");
    let body = sent(&compatible(), &request);
    let results = &body["messages"].as_array().unwrap()[3..];
    assert_eq!(body["messages"][0], json!({"role": "system", "content": "Be brief."}));
    assert_eq!(body["messages"][1], json!({"role": "user", "content": "Add é"}));
    let calls = &body["messages"][2]["tool_calls"];
    assert_eq!(body["messages"][2]["content"], "Well");
    let add = json!({"name": "add", "arguments": "{\"n\": 12345678901234567890123}"});
    assert_eq!(calls[0], json!({"id": "call_1", "type": "function", "function": add}));
    assert_eq!(calls[1]["function"], json!({"name": "no_such_tool", "arguments": "{\"invalid_json\":\"[1, 2,]\"}"}));
    assert_eq!(results[0], json!({"role": "tool", "content": "3", "tool_call_id": "call_1"}));
    assert_eq!(results[1]["tool_call_id"], calls[1]["id"]);
    assert!(body.get("tool_choice").is_none() && body.get("parallel_tool_calls").is_none());
    assert_eq!((&body["stream"], &body["stream_options"]["include_usage"]), (&json!(true), &json!(true)));
    request.may_call = false;
    let last = sent(&compatible(), &request);
    assert_eq!((&last["tool_choice"], last["tools"].as_array().unwrap().len()), (&json!("none"), 1));
}

#[test]
fn each_flavour_gets_the_fields_that_it_knows() {
    let mut request = history("");
    request.tools = vec!["{}".to_owned()];
    let (openai, other) = (sent(&wire(Flavour::OpenAi), &request), sent(&compatible(), &request));
    assert_eq!((&openai["max_completion_tokens"], openai.get("max_tokens")), (&json!(100), None));
    assert_eq!((&other["max_tokens"], other.get("max_completion_tokens")), (&json!(100), None));
    let dashscope = sent(&wire(Flavour::DashScope), &request);
    assert_eq!((&dashscope["parallel_tool_calls"], &dashscope["max_tokens"]), (&json!(true), &json!(100)));
    assert_eq!(wire(Flavour::DashScope).dialect(), Dialect::Dashscope);
    request.max_tokens = 0;
    assert_eq!(sent(&compatible(), &request).get("max_tokens"), None);
}

#[test]
fn reasoning_and_signatures_go_back_to_the_model_that_gave_them() {
    let chunks = [
        delta(r#"{"reasoning_content":"Hmm \"x"}"#),
        delta(r#"{"reasoning_content":"\""}"#),
        call(
            r#"{"index":0,"id":"a","extra_content":{"google":{"thought_signature":"S"}},"function":{"name":"add","arguments":"{}"}}"#,
        ),
    ];
    let reply = read(&compatible(), &done(&chunks, "tool_calls")).unwrap();
    assert_eq!(reply.text, "", "reasoning is no answer");
    let request = history(&reply.calls[0].opaque);
    let message = &sent(&compatible(), &request)["messages"][2];
    assert_eq!(message["reasoning_content"], "Hmm \"x\"");
    assert_eq!(message["tool_calls"][0]["extra_content"], json!({"google": {"thought_signature": "S"}}));
    let other = OpenAiChat { name: "openai:other".to_owned(), ..compatible() };
    assert_eq!(sent(&other, &request)["messages"][2].get("reasoning_content"), None);
    let without = String::from_utf8(compatible().body(&request, false)).unwrap();
    assert!(!without.contains("Hmm") && !without.contains("extra_content"));
}
