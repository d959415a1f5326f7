use openskill_proto::v1::{ErrorCode, InvokeRequest, SkillError};
use openskill_telemetry::metrics::table::ALL;
use openskill_telemetry::metrics::text::Format;
use openskill_telemetry::metrics::{MetricKind, ProcessKind};

use super::*;
use crate::call::request::RequestContext;

fn call(skill: &str) -> Call {
    let request = InvokeRequest { skill_id: skill.to_owned(), ..InvokeRequest::default() };
    Call::new(request, RequestContext::unknown())
}

fn failed(code: ErrorCode, blame: Blame) -> ExecuteResult {
    let error = Some(SkillError::new(code, "").with_blame(blame));
    ExecuteResult { error, runner: "http".to_owned(), ..ExecuteResult::default() }
}

fn text(metrics: &Metrics, now: &Gauges) -> String {
    Format::Prometheus.encode(&metrics.snapshot(now))
}

#[track_caller]
fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|it| it == *line), "{line} is missing in:\n{text}");
    }
}

#[test]
fn calls_are_counted_by_skill_runner_code_and_blame() {
    let metrics = Metrics::new(1);
    let (own, shared) = (metrics.skills.get("a", "http"), metrics.skills.get("b", "http"));
    let ok =
        ExecuteResult { success: true, runner: "http".to_owned(), jail: "strict".to_owned(), ..Default::default() };
    metrics.count_call(&call("a"), Some(&own), &ok);
    metrics.count_call(&call("a"), Some(&own), &failed(ErrorCode::Timeout, Blame::Caller));
    metrics.count_call(&call("b"), Some(&shared), &failed(ErrorCode::McpNotFound, Blame::Skill));
    let refused = ExecuteResult { runner: String::new(), ..failed(ErrorCode::Overloaded, Blame::Gateway) };
    metrics.count_call(&call("a"), Some(&own), &refused);
    metrics.count_call(&call("nobody's"), None, &failed(ErrorCode::NotFound, Blame::Caller));
    let text = text(&metrics, &Gauges::default());
    has(
        &text,
        &[
            "openskill_calls_total{code=\"OK\"} 1",
            "openskill_calls_total{code=\"NOT_FOUND\"} 1",
            "openskill_calls_total{code=\"CANCELLED\"} 0",
            "openskill_call_errors_total{code=\"TIMEOUT\",blame=\"caller\"} 1",
            "openskill_call_errors_total{code=\"TIMEOUT\",blame=\"skill\"} 0",
            "openskill_skill_calls_total{skill=\"a\",runner=\"http\"} 3",
            "openskill_skill_calls_total{skill=\"_other\",runner=\"http\"} 1",
            "openskill_skill_errors_total{skill=\"a\",runner=\"http\",code=\"TIMEOUT\",blame=\"caller\"} 1",
            "openskill_skill_errors_total{skill=\"_other\",runner=\"http\",code=\"MCP_NOT_FOUND\",blame=\"skill\"} 1",
            "openskill_skill_call_duration_seconds_count{skill=\"a\",runner=\"http\"} 2",
            "openskill_call_queue_duration_seconds_count 3",
            "openskill_jailed_calls_total{level=\"strict\"} 1",
            "openskill_jailed_calls_total{level=\"off\"} 0",
        ],
    );
    assert!(!text.contains("nobody"), "{text}");
}

#[test]
fn circuits_are_shown_for_skills_with_series_and_the_worst_of_the_others() {
    let metrics = Metrics::new(2);
    ["a", "b", "c", "d"].iter().for_each(|skill| drop(metrics.skills.get(skill, "http")));
    metrics.circuit_changed(false, CircuitState::HalfOpen);
    let circuits = [("b", CircuitState::HalfOpen), ("c", CircuitState::Open), ("d", CircuitState::HalfOpen)];
    let circuits = circuits.map(|(skill, state)| (skill.to_owned(), state)).to_vec();
    let text = text(&metrics, &Gauges { circuits, session_circuits: [0, 5], ..Gauges::default() });
    has(
        &text,
        &[
            "openskill_skill_circuit_state{skill=\"a\"} 0",
            "openskill_skill_circuit_state{skill=\"b\"} 1",
            "openskill_skill_circuit_state{skill=\"_other\"} 2",
            "openskill_circuits{scope=\"skill\",state=\"half_open\"} 2",
            "openskill_circuits{scope=\"session\",state=\"open\"} 5",
            "openskill_circuit_changes_total{scope=\"skill\",state=\"half_open\"} 1",
            "openskill_circuit_changes_total{scope=\"session\",state=\"open\"} 0",
            "openskill_calls_limit +Inf",
        ],
    );
}

#[test]
fn a_gateway_has_every_metric_of_the_table_that_is_a_gateways() {
    let metrics = Metrics::new(1);
    let series = metrics.skills.get("a", "http");
    metrics.count_call(&call("a"), Some(&series), &failed(ErrorCode::Timeout, Blame::Skill));
    let certificate = CertificateGauge { name: "public", ends: Some(Time(0)), is_stale: false };
    let operations = Some(OperationGauges { waiting: 1, running: 1, oldest: Duration::from_secs(1) });
    let snapshot = metrics.snapshot(&Gauges { certificates: vec![certificate], operations, ..Gauges::default() });
    let mut found: Vec<_> = snapshot.families().iter().map(|family| family.metric.name).collect();
    let mut expected: Vec<_> = ALL.iter().filter(|it| it.process != ProcessKind::Worker).map(|it| it.name).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    for family in snapshot.families() {
        for series in &family.series {
            assert_eq!(series.labels.len(), family.metric.labels.len(), "{}", family.metric.name);
            let is_histogram = matches!(series.value, Value::Durations(_));
            assert_eq!(is_histogram, family.metric.kind == MetricKind::Histogram, "{}", family.metric.name);
        }
    }
}
