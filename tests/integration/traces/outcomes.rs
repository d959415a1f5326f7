//! How the spans of a call say how it ended.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::StreamExt as _;
use openskill_proto::metadata::TRACEPARENT;
use openskill_proto::v1::{InvokeRequest, SkillResult};
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, Setup, System, code, request};
use openskill_tests::wait::until_true;
use rustix::process::Signal;
use serde_json::json;

use super::collector::{Collector, attribute, events, failed};
use super::way::with_http_skill;
use super::{EXECUTE, EXECUTE_STREAM, INVOKE, PARENT, parent, traced};

fn in_trace(call: InvokeRequest) -> tonic::Request<InvokeRequest> {
    let mut request = tonic::Request::new(call);
    request.metadata_mut().insert(TRACEPARENT, PARENT.parse().unwrap());
    request
}

async fn call(system: &System, call: InvokeRequest) -> SkillResult {
    system.skills().await.invoke(in_trace(call)).await.unwrap().into_inner()
}

#[tokio::test]
async fn a_failure_is_an_error_with_its_code_and_without_its_message() {
    let (collector, endpoint) = Collector::listen().await;
    let system = traced(Setup::up(), &endpoint).start().await;
    let failing = json!({"code": "EXECUTION_ERROR", "message": "the password is s3cr3t"});
    assert_eq!(code(&call(&system, request("in_fail", failing)).await), "EXECUTION_ERROR");
    let trace = collector.trace(parent().trace_id, 5).await;
    trace.is_whole(&parent());
    for span in trace.0.iter().map(|it| &it.span) {
        assert!(failed(span), "{span:?}");
        assert_eq!(
            (attribute(span, "error.type"), attribute(span, "openskill.blame")),
            ("EXECUTION_ERROR".into(), "skill".into())
        );
    }
    assert_eq!(attribute(trace.span(INVOKE), "rpc.response.status_code"), "OK");
    assert!(!format!("{trace:?}").contains("s3cr3t"));
}

#[tokio::test]
async fn a_caller_at_fault_is_no_error_of_the_server() {
    let (collector, endpoint) = Collector::listen().await;
    let system = traced(Setup::up(), &endpoint).start().await;
    assert_eq!(code(&call(&system, request("refuses", json!({}))).await), "INVALID_ARGUMENT");
    let trace = collector.trace(parent().trace_id, 5).await;
    assert!(!failed(trace.span(INVOKE)) && !failed(trace.of("worker", EXECUTE)), "{trace:?}");
    assert!(failed(trace.span("execute_tool refuses")) && failed(trace.of("gateway", EXECUTE)), "{trace:?}");
    assert_eq!(attribute(trace.span(INVOKE), "error.type"), "INVALID_ARGUMENT");
}

#[tokio::test]
async fn a_skill_that_does_not_exist_is_in_no_name() {
    let (collector, endpoint) = Collector::listen().await;
    let system = traced(Setup::up(), &endpoint).start().await;
    assert_eq!(code(&call(&system, request("s3cr3t", json!({}))).await), "NOT_FOUND");
    let trace = collector.trace(parent().trace_id, 1).await;
    assert_eq!(trace.names(), [INVOKE]);
    assert!(!format!("{trace:?}").contains("s3cr3t"), "{trace:?}");
}

#[tokio::test]
async fn each_attempt_of_a_call_that_is_retried_has_a_span() {
    let tries = AtomicUsize::new(0);
    let server = Backend::start(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::json(503, &json!({})),
        _ => Reply::json(200, &json!({})),
    });
    let server = server.await;
    let (collector, endpoint) = Collector::listen().await;
    let (system, _folder) = with_http_skill(&server, &endpoint, "idempotent: true\n").await;
    let result = call(&system, request("asks", json!({"city": "Ghent"}))).await;
    assert!(result.success, "{result:?}");
    let trace = collector.trace(parent().trace_id, 8).await;
    trace.is_whole(&parent());
    let tool = trace.span("execute_tool asks");
    assert_eq!((failed(tool), attribute(tool, "openskill.attempts")), (false, "2".to_owned()));
    assert_eq!(events(tool, "openskill.attempt"), [("openskill.retry".to_owned(), "1".to_owned())]);
    let attempts = trace.0.iter().filter(|it| it.service == "gateway" && it.span.name == EXECUTE);
    let mut attempts: Vec<_> =
        attempts.map(|it| (attribute(&it.span, "openskill.attempt"), failed(&it.span), &it.span.span_id)).collect();
    attempts.sort();
    assert_eq!(attempts.iter().map(|it| (it.0.as_str(), it.1)).collect::<Vec<_>>(), [("1", true), ("2", false)]);
    for (number, _, id) in attempts {
        let child = trace.0.iter().find(|it| it.span.parent_span_id == *id).unwrap();
        assert_eq!((child.service, failed(&child.span)), ("worker", number == "1"));
    }
    let mut requests: Vec<_> = trace.0.iter().filter(|it| it.span.name == "GET").map(|it| &it.span).collect();
    requests.sort_by_key(|span| span.start_time_unix_nano);
    assert_eq!(requests.iter().map(|it| attribute(it, "error.type")).collect::<Vec<_>>(), ["503", ""]);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_of_its_request() {
    // It is sent before the body ends.
    let sent = || futures_util::stream::once(tokio::task::yield_now()).filter_map(|()| std::future::ready(None));
    let begin = || futures_util::stream::iter([Bytes::from("{\"degrees\":")]);
    let half = move || Reply::pieces("application/json", begin().chain(sent()));
    let server = Backend::start(move |_| half().with("content-length", "100")).await;
    let (collector, endpoint) = Collector::listen().await;
    let (system, _folder) = with_http_skill(&server, &endpoint, "").await;
    assert_eq!(code(&call(&system, request("asks", json!({"city": "Ghent"}))).await), "NETWORK_ERROR");
    let trace = collector.trace(parent().trace_id, 5).await;
    let request = trace.span("GET");
    assert!(failed(request), "{request:?}");
    assert_eq!(attribute(request, "error.type"), "NETWORK_ERROR");
    assert_eq!(attribute(request, "http.response.status_code"), "200");
}

#[tokio::test]
async fn too_many_redirects_are_an_error_of_the_last_request() {
    let server = Backend::start(|_| Reply::redirect(307, "/again")).await;
    let (collector, endpoint) = Collector::listen().await;
    let (system, _folder) = with_http_skill(&server, &endpoint, "").await;
    assert_eq!(code(&call(&system, request("asks", json!({"city": "Ghent"}))).await), "EXECUTION_ERROR");
    let trace = collector.trace(parent().trace_id, 10).await;
    let mut requests: Vec<_> = trace.0.iter().filter(|it| it.span.name == "GET").map(|it| &it.span).collect();
    requests.sort_by_key(|span| span.start_time_unix_nano);
    let errors: Vec<_> = requests.iter().map(|it| attribute(it, "error.type")).collect();
    assert_eq!(errors, ["", "", "", "", "", "EXECUTION_ERROR"]);
}

/// A server that never finishes its answer.
async fn silent() -> Backend {
    Backend::start(|_| Reply::pieces("application/json", futures_util::stream::pending::<Bytes>().boxed())).await
}

#[tokio::test]
async fn an_attempt_names_its_worker_and_how_the_request_ended() {
    let server = silent().await;
    let (collector, endpoint) = Collector::listen().await;
    let (system, _folder) = with_http_skill(&server, &endpoint, "").await;
    let mut client = system.skills().await;
    let running = tokio::spawn(async move {
        let call = InvokeRequest { timeout_ms: 60_000, ..request("asks", json!({"city": "Ghent"})) };
        client.invoke(in_trace(call)).await.unwrap().into_inner()
    });
    until_true("the request is there", PATIENCE, || !server.seen().is_empty()).await;
    system.worker_pids().into_iter().for_each(|pid| processes::send(pid, Signal::KILL));
    assert_eq!(code(&running.await.unwrap()), "UNAVAILABLE");
    let trace = collector.trace(parent().trace_id, 3).await;
    let attempt = trace.of("gateway", EXECUTE);
    assert!(failed(attempt) && attribute(attempt, "server.address").ends_with("/worker-1.sock"), "{attempt:?}");
    assert_eq!(attribute(attempt, "rpc.response.status_code"), "UNAVAILABLE");
    assert_eq!(attribute(attempt, "server.port"), "", "a socket has none");
}

#[tokio::test]
async fn a_call_that_times_out_says_so_down_to_the_request() {
    let server = silent().await;
    let (collector, endpoint) = Collector::listen().await;
    let (system, _folder) = with_http_skill(&server, &endpoint, "").await;
    let late = InvokeRequest { timeout_ms: 300, ..request("asks", json!({"city": "Ghent"})) };
    assert_eq!(code(&call(&system, late).await), "TIMEOUT");
    let trace = collector.trace(parent().trace_id, 5).await;
    trace.is_whole(&parent());
    for name in [INVOKE, "execute_tool asks", "GET"] {
        assert_eq!(attribute(trace.span(name), "error.type"), "TIMEOUT", "{name}");
    }
    assert!(failed(trace.span("GET")) && failed(trace.span("execute_tool asks")));
    assert_eq!(attribute(trace.of("gateway", EXECUTE), "rpc.response.status_code"), "OK", "the worker answered");
}

#[tokio::test]
async fn a_call_that_is_cancelled_says_so_down_to_the_request() {
    let server = silent().await;
    let (collector, endpoint) = Collector::listen().await;
    let (system, _folder) = with_http_skill(&server, &endpoint, "").await;
    let call = InvokeRequest { timeout_ms: 60_000, ..request("asks", json!({"city": "Ghent"})) };
    let mut client = system.skills().await;
    let running = tokio::spawn(async move {
        let mut events = client.invoke_stream(in_trace(call)).await.unwrap().into_inner();
        while let Ok(Some(_)) = events.message().await {}
    });
    until_true("the request is there", PATIENCE, || !server.seen().is_empty()).await;
    running.abort();
    let trace = collector.trace(parent().trace_id, 5).await;
    trace.is_whole(&parent());
    for span in trace.0.iter().map(|it| &it.span) {
        assert_eq!(attribute(span, "error.type"), "CANCELLED", "{span:?}");
    }
    assert!(!failed(trace.of("worker", EXECUTE_STREAM)), "the caller went away");
    assert!(failed(trace.of("gateway", EXECUTE_STREAM)) && failed(trace.span("GET")));
    assert_eq!(attribute(trace.of("gateway", EXECUTE_STREAM), "rpc.response.status_code"), "CANCELLED");
}

#[tokio::test]
async fn a_call_that_an_open_circuit_refuses_has_no_attempt() {
    let (collector, endpoint) = Collector::listen().await;
    let system = traced(Setup::up(), &endpoint).start().await;
    let moody = |fail| InvokeRequest { session_id: "one".to_owned(), ..request("moody", json!({ "fail": fail })) };
    for _ in 0..3 {
        system.invoke(moody(true)).await;
    }
    assert_eq!(code(&call(&system, moody(false)).await), "CIRCUIT_OPEN");
    let trace = collector.trace(parent().trace_id, 2).await;
    assert_eq!(trace.names(), ["execute_tool moody", INVOKE]);
    let tool = trace.span("execute_tool moody");
    assert_eq!((failed(tool), attribute(tool, "error.type")), (true, "CIRCUIT_OPEN".to_owned()));
    assert_eq!(events(tool, "openskill.circuit.state"), [("openskill.circuit".to_owned(), "refused".to_owned())]);
    // The third failure opened it, and its span says so.
    until_true("the circuit is seen to open", PATIENCE, || {
        collector.all().iter().any(|it| {
            events(&it.span, "openskill.circuit.state").contains(&("openskill.circuit".to_owned(), "open".to_owned()))
        })
    })
    .await;
}

#[tokio::test]
async fn repairs_are_told_by_kind_and_path_without_values() {
    let (collector, endpoint) = Collector::listen().await;
    let system = traced(Setup::up(), &endpoint).start().await;
    let result = call(&system, request("typed", json!({"task": "s3cr3t", "max_steps": "3"}))).await;
    let trace = collector.trace(parent().trace_id, 5).await;
    let tool = trace.span("execute_tool typed");
    let repairs = result.meta.unwrap().repairs;
    assert!(!repairs.is_empty());
    let expected: Vec<_> = repairs.iter().map(|it| ("openskill.repair".to_owned(), it.path.clone())).collect();
    assert_eq!(events(tool, "openskill.repair.path"), expected);
    assert!(!format!("{trace:?}").contains("s3cr3t"), "{trace:?}");
}
