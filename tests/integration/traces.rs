//! One trace from the caller to the script or the back end, exported over OTLP.

use openskill_proto::trace::{TraceContext, derive_trace_id, hex};
use openskill_tests::system::{Setup, System};
use serde_json::json;

mod collector;
mod encrypted;
mod kept;
mod lost;
mod outcomes;
mod turns;
mod way;

use collector::Collector;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

const INVOKE: &str = "openskill.v1.SkillService/Invoke";
const REST_INVOKE: &str = "POST /skills/{id}:invoke";
const EXECUTE: &str = "openskill.v1.WorkerService/Execute";
const EXECUTE_STREAM: &str = "openskill.v1.WorkerService/ExecuteStream";

fn parent() -> TraceContext {
    TraceContext::parse(PARENT).unwrap()
}

/// A system that exports to this collector, soon.
fn traced(setup: Setup, endpoint: &str) -> Setup {
    setup.with("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).with("OTEL_BSP_SCHEDULE_DELAY", "50")
}

async fn environment_of_script(system: &System, headers: &[(&str, &str)]) -> serde_json::Value {
    let answer = system.post("/skills/reveals:invoke", headers, "{}").await.json();
    assert_eq!(answer["success"], true, "{answer}");
    answer["data"]["environment"].clone()
}

#[tokio::test]
async fn a_script_gets_the_context_of_its_run() {
    let (collector, endpoint) = Collector::listen().await;
    let system = traced(Setup::up(), &endpoint).start().await;
    let environment = environment_of_script(&system, &[("x-trace-id", "demo-123")]).await;
    let trace_id = derive_trace_id("demo-123");
    let trace = collector.trace(trace_id, 5).await;
    let run = trace.span("run cli:python");
    assert_eq!(environment["TRACEPARENT"], format!("00-{}-{}-01", hex(&trace_id), hex(&run.span_id)));
    assert_eq!(environment["OPENSKILL_TRACE_ID"], "demo-123");
    let server = trace.span(REST_INVOKE);
    assert!(server.parent_span_id.is_empty(), "the root of the trace");
    assert_eq!(collector::attribute(server, "openskill.trace_id"), "demo-123");
    assert_eq!(collector::attribute(run, "openskill.isolation"), "fork");
    assert_eq!(collector::attribute(run, "openskill.start"), "fork");
}

#[tokio::test]
async fn the_trace_context_reaches_the_script_without_an_exporter() {
    let system = Setup::up().start().await;
    let environment = environment_of_script(&system, &[("traceparent", PARENT), ("x-trace-id", "mine")]).await;
    assert_eq!((&environment["TRACEPARENT"], &environment["OPENSKILL_TRACE_ID"]), (&json!(PARENT), &json!("mine")));
    let malformed = environment_of_script(&system, &[("traceparent", "00-nonsense")]).await;
    assert_ne!(malformed["TRACEPARENT"], "00-nonsense");
    assert_eq!(malformed["TRACEPARENT"].as_str().unwrap().len(), 55);
}

#[tokio::test]
async fn every_call_writes_one_log_line_with_the_required_fields() {
    let system = Setup::up().with("OPENSKILL_LOG_FORMAT", "json").start().await;
    system.post("/skills/refuses:invoke", &[("x-trace-id", "log-1")], "{}").await;
    let line = system.process.log.line(&["openskill::call", "log-1"]).await;
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    for (field, expected) in [
        ("trace_id", json!("log-1")),
        ("skill_id", json!("refuses")),
        ("runner_type", json!("cli:python")),
        ("success", json!(false)),
        ("error.code", json!("INVALID_ARGUMENT")),
        ("error.blame", json!("caller")),
        ("error.message_bytes", json!("n must be positive".len())),
    ] {
        assert_eq!(line[field], expected, "{field} in {line}");
    }
    assert!(line["latency_ms"].as_f64().unwrap() > 0.0);
    assert!(line.get("error.message").is_none(), "a skill's words are not for the log: {line}");
    assert!(line.get("span_id").is_none(), "there is no span: {line}");
    let lines = system.process.log.text().lines().filter(|line| line.contains("openskill::call")).count();
    assert_eq!(lines, 1);
}

#[tokio::test]
async fn the_log_line_of_a_call_names_its_span() {
    let (collector, endpoint) = Collector::listen().await;
    let system = traced(Setup::up(), &endpoint).with("OPENSKILL_LOG_FORMAT", "json").start().await;
    system.post("/skills/in_echo:invoke", &[("traceparent", PARENT), ("x-trace-id", "log-2")], "{}").await;
    let line = system.process.log.line(&["openskill::call", "log-2"]).await;
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    let trace = collector.trace(parent().trace_id, 5).await;
    assert_eq!(line["otel_trace_id"], hex(&parent().trace_id));
    assert_eq!(line["span_id"], hex(&trace.span(REST_INVOKE).span_id));
}
