//! Complete exchanges with a scripted provider, in every wire format.

use std::time::Duration;

use openskill_proto::v1::Dialect;
use serde_json::{Value, json};

use super::folding::{calls, history, streams};
use super::server::{Script, Server};
use crate::model::{ModelError, ModelRequest, ModelResponse, StopReason};
use crate::{AnswerLimits, Models, ProviderConfig, Secret, WireFormat};

const KEY: &str = "sk-very-secret";

pub(super) const KINDS: [WireFormat; 5] = [
    WireFormat::OpenAiChat,
    WireFormat::OpenAiResponses,
    WireFormat::Anthropic,
    WireFormat::Gemini,
    WireFormat::DashScope,
];

/// Returns a stream with text and two calls in a provider's format.
pub(super) fn recorded(kind: WireFormat) -> String {
    match kind {
        WireFormat::OpenAiChat | WireFormat::DashScope => streams(&[
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"Grüß 🦀"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{\"n\": 12345678901"}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"now","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"234567890123}"}}]},"finish_reason":"tool_calls"}]}"#,
            "[DONE]",
        ]),
        WireFormat::OpenAiResponses => streams(&[
            r#"{"type":"response.output_text.delta","output_index":0,"delta":"Grüß 🦀"}"#,
            r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"f1","call_id":"a","name":"add","arguments":""}}"#,
            r#"{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"f2","call_id":"b","name":"now","arguments":"{}"}}"#,
            r#"{"type":"response.function_call_arguments.delta","item_id":"f1","output_index":1,"delta":"{\"n\": 12345678901234567890123}"}"#,
            r#"{"type":"response.completed","response":{"status":"completed"}}"#,
        ]),
        WireFormat::Anthropic => streams(&[
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grüß 🦀"}}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"add","input":{}}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"n\": 12345678901234567890123}"}}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"b","name":"now","input":{}}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
            r#"{"type":"message_stop"}"#,
        ]),
        WireFormat::Gemini => streams(&[
            r#"{"candidates":[{"content":{"parts":[{"text":"Grüß 🦀"}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"id":"a","name":"add","args":{"n": 12345678901234567890123}}},{"functionCall":{"id":"b","name":"now","args":{}}}]},"finishReason":"STOP"}]}"#,
        ]),
    }
}

fn models(kind: WireFormat, url: &str, limits: AnswerLimits) -> Models {
    let key = Secret::new(KEY);
    let (name, base, model) = ("test".to_owned(), url.to_owned(), "m".to_owned());
    Models::new(vec![ProviderConfig { kind, name, base, key, model, limits }]).unwrap()
}

/// Sends one request to a provider. Returns the text that was passed on, and the answer.
pub(super) async fn ask_with(
    kind: WireFormat,
    url: &str,
    request: &ModelRequest,
    limits: AnswerLimits,
) -> (String, Result<ModelResponse, ModelError>) {
    let model = models(kind, url, limits).pick("").unwrap().unwrap();
    let mut seen = String::new();
    let reply = model.ask(request, &mut |it| seen.push_str(it)).await;
    (seen, reply)
}

async fn ask(kind: WireFormat, url: &str) -> (String, Result<ModelResponse, ModelError>) {
    ask_with(kind, url, &history(""), AnswerLimits::default()).await
}

/// Returns the result of a single script.
async fn answer(kind: WireFormat, script: Script) -> Result<ModelResponse, ModelError> {
    ask(kind, &Server::start(vec![script]).await.url).await.1
}

/// Splits a rejection into status, reason and retry delay.
fn refusal(answer: Result<ModelResponse, ModelError>) -> (u16, String, Option<Duration>) {
    match answer {
        Err(ModelError::Refused { provider, status, reason, retry_after }) => {
            assert_eq!(provider, "test");
            (status, reason, retry_after)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_format_answers_over_the_wire_whatever_its_chunks() {
    for kind in KINDS {
        for size in [1, 2, 5, 1 << 20] {
            let server = Server::start(vec![Script::stream(&recorded(kind)).in_chunks_of(size)]).await;
            let (seen, reply) = ask(kind, &server.url).await;
            let reply = reply.unwrap();
            let expected = vec![("a", "add", r#"{"n": 12345678901234567890123}"#), ("b", "now", "{}")];
            assert_eq!(calls(&reply), (StopReason::Done, expected), "{kind:?}");
            assert_eq!((seen.as_str(), reply.text.as_str()), ("Grüß 🦀", "Grüß 🦀"), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn each_format_has_its_path_its_headers_and_its_dialect() {
    for (kind, path, key, dialect) in [
        (WireFormat::OpenAiChat, "/v1/chat/completions", "authorization: Bearer sk-very-secret", Dialect::Openai),
        (WireFormat::DashScope, "/v1/chat/completions", "authorization: Bearer sk-very-secret", Dialect::Dashscope),
        (
            WireFormat::OpenAiResponses,
            "/v1/responses",
            "authorization: Bearer sk-very-secret",
            Dialect::OpenaiResponses,
        ),
        (WireFormat::Anthropic, "/v1/messages", "x-api-key: sk-very-secret", Dialect::Anthropic),
        (
            WireFormat::Gemini,
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            "x-goog-api-key: sk-very-secret",
            Dialect::Gemini,
        ),
    ] {
        let mut server = Server::start(vec![Script::stream(&recorded(kind))]).await;
        ask(kind, &server.url).await.1.unwrap();
        let asked = server.asked().await;
        assert!(asked.head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{}", asked.head);
        assert!(asked.head.contains(key) && asked.head.contains("content-type: application/json"), "{}", asked.head);
        assert_eq!(asked.head.contains("anthropic-version: 2023-06-01"), kind == WireFormat::Anthropic);
        assert!(!asked.body.contains(KEY) && serde_json::from_str::<Value>(&asked.body).is_ok(), "{}", asked.body);
        assert_eq!(models(kind, &server.url, AnswerLimits::default()).pick("").unwrap().unwrap().dialect(), dialect);
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_is_no_answer_in_any_format() {
    for kind in KINDS {
        let stream = recorded(kind);
        let cut = &stream[..stream.rfind("data:").unwrap()];
        for script in [Script::stream(cut), Script::stream(cut).then_breaks(), Script::stream("")] {
            let error = answer(kind, script).await.unwrap_err();
            assert_eq!(error, ModelError::CutOff { provider: "test".to_owned() }, "{kind:?}");
            assert!(error.is_transient());
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_complete_needs_no_end_of_the_connection() {
    for kind in [WireFormat::OpenAiChat, WireFormat::OpenAiResponses, WireFormat::Anthropic] {
        let reply = answer(kind, Script::stream(&recorded(kind)).then_hangs()).await.unwrap();
        assert_eq!(reply.calls.len(), 2, "{kind:?}");
    }
}

#[tokio::test]
async fn refusals_say_when_to_ask_again_and_why() {
    for (status, code, transient) in [
        ("429 Too Many Requests", 429, true),
        ("529 Overloaded", 529, true),
        ("500 Oops", 500, true),
        ("401 No", 401, false),
    ] {
        let body = format!(r#"{{"error":{{"message":"No: {KEY} is {}"}}}}"#, "x".repeat(1000));
        let script = Script::answer(status, "retry-after: 7\r\ncontent-type: application/json", &body);
        let error = answer(WireFormat::OpenAiChat, script).await.unwrap_err();
        assert_eq!(error.is_transient(), transient);
        let (status, reason, retry_after) = refusal(Err(error));
        assert_eq!((status, retry_after), (code, Some(Duration::from_secs(7))));
        assert!(reason.starts_with("No: *** is xxx") && reason.len() == 512, "{reason}");
    }
    let date = httpdate::fmt_http_date(std::time::SystemTime::now() + Duration::from_secs(100));
    let script = Script::answer("429 Slow", &format!("retry-after: {date}"), "{}");
    let (_, _, retry_after) = refusal(answer(WireFormat::Anthropic, script).await);
    let left = retry_after.unwrap().as_secs();
    assert!((50..=100).contains(&left), "{left}");
}

#[tokio::test]
async fn pages_of_html_and_answers_at_once_are_errors_that_say_so() {
    let page = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head></html>";
    let (status, reason, _) =
        refusal(answer(WireFormat::OpenAiChat, Script::answer("502 Bad", "content-type: text/html", page)).await);
    assert_eq!((status, reason.as_str()), (502, "an HTML page: 502 Bad Gateway"));
    let welcome =
        answer(WireFormat::OpenAiChat, Script::answer("200 OK", "content-type: text/html", page)).await.unwrap_err();
    assert!(welcome.to_string().contains("base URL"), "{welcome}");
    let failed = r#"{"error":{"message":"no such model","type":"not_found_error"}}"#;
    for kind in KINDS {
        let script = Script::answer("200 OK", "content-type: application/json", failed).in_chunks_of(10);
        let (status, reason, _) = refusal(answer(kind, script).await);
        assert_eq!((status, reason.as_str()), (404, "no such model"), "{kind:?}");
    }
    let whole =
        Script::answer("200 OK", "content-type: application/json", r#"{"choices":[{"message":{"content":"Hi"}}]}"#);
    let error = answer(WireFormat::OpenAiChat, whole).await.unwrap_err();
    assert!(
        matches!(&error, ModelError::Malformed { reason, .. } if reason.contains("instead of a stream")),
        "{error}"
    );
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let mut other = Server::start(vec![Script::stream(&recorded(WireFormat::OpenAiChat))]).await;
    for place in [format!("{}/v1/chat/completions?{KEY}", other.url), "/elsewhere".to_owned()] {
        let script = Script::answer("307 Temporary Redirect", &format!("location: {place}"), "");
        let (status, reason, _) = refusal(answer(WireFormat::OpenAiChat, script).await);
        assert!(status == 307 && reason.contains("http://127.0.0.1:") && !reason.contains(KEY), "{reason}");
    }
    // The other server received no request before: its first request is this one.
    ask_with(
        WireFormat::OpenAiChat,
        &other.url,
        &ModelRequest { system: "first".to_owned(), ..history("") },
        AnswerLimits::default(),
    )
    .await
    .1
    .unwrap();
    assert!(other.asked().await.body.contains("first"));
}

#[tokio::test]
async fn a_silent_provider_is_given_up() {
    let short = Duration::from_millis(100);
    let stream = recorded(WireFormat::Anthropic);
    let half = &stream[..stream.len() / 2];
    for (script, limits) in [
        (Script::stream(half).then_hangs(), AnswerLimits { between: short, ..AnswerLimits::default() }),
        (Script::stream("").then_hangs(), AnswerLimits { first: short, ..AnswerLimits::default() }),
    ] {
        let server = Server::start(vec![script]).await;
        let (_, answer) = ask_with(WireFormat::Anthropic, &server.url, &history(""), limits).await;
        let error = answer.unwrap_err();
        assert!(
            matches!(&error, ModelError::Unreachable { reason, .. } if reason == "it sent nothing for 0.1 s"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_secrets() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = ask(WireFormat::Gemini, &url).await.1.unwrap_err();
    assert!(error.is_transient());
    let text = error.to_string();
    assert!(text.contains(&url) && text.contains("refused") && !text.contains(KEY), "{text}");
}

#[tokio::test]
async fn dropping_the_request_closes_the_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asking = tokio::spawn(async move { ask(WireFormat::OpenAiChat, &url).await });
    let (mut stream, _) = listener.accept().await.unwrap();
    asking.abort();
    let mut rest = Vec::new();
    let closed = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest);
    let closed = tokio::time::timeout(Duration::from_secs(30), closed).await;
    assert!(closed.is_ok(), "the connection is still open");
}

#[tokio::test]
async fn an_answer_without_end_is_stopped_at_its_bound() {
    let line = format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": "x".repeat(1 << 20)}}]}));
    let error =
        answer(WireFormat::OpenAiChat, Script::stream(&line.repeat(40)).in_chunks_of(1 << 16)).await.unwrap_err();
    assert_eq!(error, ModelError::TooLarge { provider: "test".to_owned(), bound: 32 << 20 });
    let line = format!("data: {}", "x".repeat(9 << 20));
    let error = answer(WireFormat::OpenAiChat, Script::stream(&line)).await.unwrap_err();
    assert_eq!(error, ModelError::TooLarge { provider: "test".to_owned(), bound: 8 << 20 });
}

#[tokio::test]
async fn what_a_provider_gave_is_left_out_if_it_refuses_it() {
    let refusal = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Invalid `signature` in `thinking` block"}}"#;
    let refused = Script::answer("400 Bad Request", "content-type: application/json", refusal);
    let opaque = r#"{"model":"test:m","keep":[{"type":"thinking","thinking":"Hmm","signature":"S"}]}"#;
    let mut server = Server::start(vec![refused.clone(), Script::stream(&recorded(WireFormat::Anthropic))]).await;
    let (_, reply) = ask_with(WireFormat::Anthropic, &server.url, &history(opaque), AnswerLimits::default()).await;
    assert_eq!(reply.unwrap().calls.len(), 2);
    assert!(server.asked().await.body.contains("Hmm"));
    assert!(!server.asked().await.body.contains("Hmm"));
    // There is nothing to leave out, so the request is not repeated.
    let (status, _, _) = self::refusal(answer(WireFormat::Anthropic, refused).await);
    assert_eq!(status, 400);
}

#[tokio::test]
async fn calls_written_as_text_count_only_if_asked_for() {
    let text =
        json!("Sure.<tool_call>{\"name\": \"add\", \"arguments\": {\"n\": 12345678901234567890123}}</tool_call>");
    let chunk = format!(r#"{{"choices":[{{"index":0,"delta":{{"content":{text}}},"finish_reason":"stop"}}]}}"#);
    let tools = vec![r#"{"type":"function","function":{"name":"add","parameters":{}}}"#.to_owned()];
    for (text_calls, may_call) in [(true, true), (false, true), (true, false)] {
        let server = Server::start(vec![Script::stream(&streams(&[&chunk, "[DONE]"])).in_chunks_of(1)]).await;
        let request = ModelRequest { text_calls, may_call, tools: tools.clone(), ..history("") };
        let (seen, reply) = ask_with(WireFormat::OpenAiChat, &server.url, &request, AnswerLimits::default()).await;
        let reply = reply.unwrap();
        assert_eq!(seen, reply.text);
        if text_calls && may_call {
            assert_eq!(calls(&reply).1, [("", "add", r#"{"n": 12345678901234567890123}"#)]);
            assert_eq!(seen, "Sure.");
        } else {
            assert!(reply.calls.is_empty() && seen.contains("<tool_call>"));
        }
    }
}

#[tokio::test]
async fn a_temperature_is_sent_only_if_it_is_set() {
    for (kind, temperature) in KINDS.iter().flat_map(|kind| [(*kind, None), (*kind, Some(0.5))]) {
        let mut server = Server::start(vec![Script::stream(&recorded(kind))]).await;
        let request = ModelRequest { temperature, ..history("") };
        ask_with(kind, &server.url, &request, AnswerLimits::default()).await.1.unwrap();
        let body: Value = serde_json::from_str(&server.asked().await.body).unwrap();
        let place = if kind == WireFormat::Gemini { "/generationConfig/temperature" } else { "/temperature" };
        assert_eq!(body.pointer(place).and_then(Value::as_f64), temperature.map(f64::from), "{kind:?}");
    }
}
