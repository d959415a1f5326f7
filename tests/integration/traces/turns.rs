//! A turn of the agent is one trace: its requests to the model, its calls, and the sub-agents among them.

use openskill_proto::trace::derive_trace_id;
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::folder::Folder;
use openskill_tests::repository;
use openskill_tests::system::{Setup, System};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::{Value, json};

use super::collector::{Collector, Trace, attribute, failed};
use super::traced;

const SECRET: &str = "what the user said";

/// An answer of a model: text, or a call.
fn answer(text: &str, call: Option<(&str, Value)>) -> Reply {
    let chunk = |delta: Value, reason: Value| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}))
    };
    let body = match call {
        None => chunk(json!({ "content": text }), Value::Null) + &chunk(json!({}), "stop".into()),
        Some((name, arguments)) => {
            let function = json!({"name": name, "arguments": arguments.to_string()});
            let call = json!({"index": 0, "id": "one", "type": "function", "function": function});
            chunk(json!({ "tool_calls": [call] }), Value::Null) + &chunk(json!({}), "tool_calls".into())
        }
    };
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}});
    Reply::new(200, "text/event-stream", body + &format!("data: {usage}\n\ndata: [DONE]\n\n"))
}

/// A model that delegates to `researcher`, which echoes.
async fn model() -> Backend {
    Backend::start(|seen| {
        let body = seen.json();
        let messages = body["messages"].as_array().unwrap();
        let is_researcher = messages[0]["content"].as_str().unwrap().starts_with("You are the researcher.");
        let has_result = messages.last().unwrap()["role"] == "tool";
        match (is_researcher, has_result) {
            (false, false) => answer("", Some(("researcher", json!({ "task": SECRET })))),
            (true, false) => answer("", Some(("echo", json!({ "text": SECRET })))),
            _ => answer(SECRET, None),
        }
    })
    .await
}

async fn start(model: &Backend, endpoint: &str) -> (System, Folder) {
    let folder = Folder::new();
    let agent = "agent: {prompt: You are the researcher., tools: [echo]}";
    folder.write("researcher.yaml", format!("id: researcher\ntype: agent\n{agent}\n"));
    let setup = Setup::with_skills(&[folder.path(), &repository().join("worker/skills")]).flag("--workers", 1);
    let setup = setup.with("OPENAI_API_BASE", model.url("")).with("OPENAI_MODEL", "scripted");
    let system = traced(setup.with("OPENSKILL_AGENT_STORE", "memory"), endpoint).start().await;
    system.has_skill("researcher").await;
    system.has_skill("echo").await;
    (system, folder)
}

/// The spans of this name.
fn named<'a>(trace: &'a Trace, name: &str) -> Vec<&'a Span> {
    trace.0.iter().map(|it| &it.span).filter(|it| it.name == name).collect()
}

async fn say(system: &System) -> (Value, [u8; 16]) {
    let headers = [("content-type", "application/json")];
    let answer = system.post("/agent/chat", &headers, json!({ "message": SECRET }).to_string()).await.json();
    let trace_id = derive_trace_id(answer["events"][0]["data"]["trace_id"].as_str().unwrap());
    (answer, trace_id)
}

#[tokio::test]
async fn a_turn_its_requests_its_calls_and_its_sub_agent_are_one_trace() {
    let model = model().await;
    let (collector, endpoint) = Collector::listen().await;
    let (system, _folder) = start(&model, &endpoint).await;
    let (answered, trace_id) = say(&system).await;
    assert_eq!(answered["done"]["end"], "completed", "{answered}");
    // Two turns, two requests of each, a call of each with two spans, and the three of the script's run.
    let trace = collector.trace(trace_id, 13).await;
    let turn = trace.span("invoke_agent openskill");
    let sub = trace.span("invoke_agent researcher");
    assert!(turn.parent_span_id.is_empty(), "the root of the trace");
    assert_eq!(sub.parent_span_id, trace.span("execute_tool researcher").span_id);
    let requests = named(&trace, "chat scripted");
    let of = |parent: &Span| requests.iter().filter(|it| it.parent_span_id == parent.span_id).count();
    assert_eq!((of(turn), of(sub), requests.len()), (2, 2, 4), "{:?}", trace.names());
    let calls = named(&trace, "call");
    assert!(calls.iter().any(|it| it.parent_span_id == turn.span_id), "{:?}", trace.names());
    assert!(calls.iter().any(|it| it.parent_span_id == sub.span_id), "{:?}", trace.names());
    for (key, expected) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "scripted"),
        ("server.address", "127.0.0.1"),
    ] {
        assert!(requests.iter().all(|it| attribute(it, key) == expected), "{key}: {requests:?}");
    }
    assert!(requests.iter().all(|it| it.kind() == SpanKind::Client && !failed(it)), "{requests:?}");
    let whole = format!("{requests:?}");
    for part in ["gen_ai.usage.input_tokens", "IntValue(100)", "gen_ai.response.finish_reasons", "tool_calls"] {
        assert!(whole.contains(part), "{part}: {whole}");
    }
    assert_eq!(attribute(turn, "gen_ai.agent.name"), "openskill");
    assert_eq!(attribute(turn, "gen_ai.conversation.id"), answered["conversation_id"]);
    assert_eq!(attribute(turn, "openskill.agent.end"), "completed");
    assert_eq!((turn.kind(), sub.kind()), (SpanKind::Internal, SpanKind::Internal));
    assert!(!format!("{trace:?}").contains(SECRET), "a span holds text");
}

#[tokio::test]
async fn a_turn_whose_model_fails_is_exported_though_it_was_not_sampled() {
    let model = Backend::start(|_| Reply::json(401, &json!({"error": {"message": "no such key"}}))).await;
    let (collector, endpoint) = Collector::listen().await;
    let folder = Folder::new();
    let setup = Setup::with_skills(&[folder.path()]).flag("--workers", 1).with("OPENSKILL_AGENT_STORE", "memory");
    let setup = setup.with("OPENAI_API_BASE", model.url("")).with("OPENAI_MODEL", "scripted");
    let system = traced(setup, &endpoint).with("OTEL_TRACES_SAMPLER_ARG", "0").start().await;
    let (answered, trace_id) = say(&system).await;
    assert_eq!(answered["done"]["end"], "failed", "{answered}");
    let trace = collector.trace(trace_id, 2).await;
    let (turn, request) = (trace.span("invoke_agent openskill"), trace.span("chat scripted"));
    assert!(failed(turn) && failed(request), "{trace:?}");
    assert_eq!(
        (attribute(request, "error.type").as_str(), attribute(turn, "openskill.agent.end").as_str()),
        ("401", "failed")
    );
}
