//! Which calls are exported: the sampled ones, and of the others those that failed or were slow.

use openskill_tests::system::{Setup, System};
use serde_json::json;

use super::collector::{Collector, attribute};
use super::{INVOKE, REST_INVOKE, traced};

/// Calls a skill in a trace of its own, and returns the trace's id.
async fn call(system: &System, skill: &str, input: serde_json::Value, flags: &str) -> [u8; 16] {
    let trace_id: [u8; 16] = openskill_proto::trace::random_id();
    let parent = format!("00-{}-00f067aa0ba902b7-{flags}", openskill_proto::trace::hex(&trace_id));
    // Without a decision of the caller's, the X-Trace-Id names the trace.
    let header =
        if flags.is_empty() { ("x-trace-id", openskill_proto::trace::hex(&trace_id)) } else { ("traceparent", parent) };
    let body = json!({ "input": input }).to_string();
    system.post(&format!("/skills/{skill}:invoke"), &[(header.0, &header.1)], body).await;
    trace_id
}

/// Returns once everything before it has been exported: batches are exported in order.
async fn flush(system: &System, collector: &Collector) {
    let last = call(system, "in_fail", json!({"code": "EXECUTION_ERROR", "message": ""}), "").await;
    collector.trace(last, 5).await;
}

fn has(collector: &Collector, trace_id: [u8; 16]) -> bool {
    collector.all().iter().any(|it| it.span.trace_id == trace_id)
}

#[tokio::test]
async fn without_sampling_failures_and_slow_calls_are_kept_and_nothing_else() {
    let (collector, endpoint) = Collector::listen().await;
    let setup =
        traced(Setup::up(), &endpoint).with("OTEL_TRACES_SAMPLER_ARG", "0").with("OPENSKILL_TRACE_SLOW_MS", 200);
    let system = setup.start().await;
    let slow = json!({"ms": 300});
    let failing = json!({"code": "EXECUTION_ERROR", "message": ""});
    let fast = call(&system, "in_echo", json!({}), "").await;
    let declined = call(&system, "in_wait", slow.clone(), "00").await;
    let kept = call(&system, "in_wait", slow, "").await;
    let failed = call(&system, "in_fail", failing.clone(), "").await;
    let failed_unsampled = call(&system, "in_fail", failing, "00").await;
    let wanted = call(&system, "in_echo", json!({}), "01").await;
    flush(&system, &collector).await;
    assert!(!has(&collector, fast), "a success that nobody sampled");
    assert!(!has(&collector, declined), "a success that its caller did not want");
    // The worker keeps what failed there; of a slow call there are the gateway's spans.
    let slow = collector.trace(kept, 3).await;
    assert_eq!(slow.0.len(), 3, "{:?}", slow.names());
    assert_eq!(attribute(slow.span(REST_INVOKE), "openskill.kept_because"), "slow");
    for trace_id in [failed, failed_unsampled] {
        let failure = collector.trace(trace_id, 5).await;
        assert_eq!(attribute(failure.span(REST_INVOKE), "openskill.kept_because"), "failed");
    }
    let sampled = collector.trace(wanted, 5).await;
    assert_eq!(attribute(sampled.span(REST_INVOKE), "openskill.kept_because"), "");
}

#[tokio::test]
async fn a_sampler_that_is_off_exports_nothing() {
    let (collector, endpoint) = Collector::listen().await;
    let system = traced(Setup::up(), &endpoint).with("OTEL_TRACES_SAMPLER", "always_off").start().await;
    call(&system, "in_fail", json!({"code": "EXECUTION_ERROR", "message": ""}), "01").await;
    let mut process = system.process;
    process.terminate();
    process.ended().await;
    assert_eq!(collector.count(), 0, "{:?}", collector.all());
}

#[tokio::test]
async fn spans_of_the_last_calls_are_exported_before_the_exit() {
    let (collector, endpoint) = Collector::listen().await;
    let system = Setup::up().with("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).start().await;
    system.invoke(openskill_tests::system::request("in_echo", json!({}))).await;
    let mut process = system.process;
    process.terminate();
    process.ended().await;
    assert!(collector.all().iter().any(|it| it.span.name == INVOKE));
    assert_eq!(collector.count(), 5, "{:?}", collector.all());
}
