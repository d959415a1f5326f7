//! Spans on their way: none is lost while there is room, and what is lost is counted and said.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use http::Method;
use openskill_proto::v1::{InvokeRequest, invoke_event::Event};
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::port::Port;
use openskill_tests::rest;
use openskill_tests::system::{PATIENCE, Setup, System, request};
use openskill_tests::wait::{until, until_true};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message as _;
use serde_json::json;
use tonic::{Request, Response, Status};

use super::collector::{Collector, serve};
use super::{EXECUTE_STREAM, traced};

/// Makes so many calls over one stream, and returns how many succeeded.
async fn run_many(system: &System, count: usize) -> usize {
    let call = |number| InvokeRequest { call_id: format!("call-{number}"), ..request("in_echo", json!({})) };
    let calls: Vec<_> = (0..count).map(call).collect();
    let mut events = system.skills().await.invoke_many(tokio_stream::iter(calls)).await.unwrap().into_inner();
    let mut succeeded = 0;
    while let Some(event) = events.message().await.unwrap() {
        succeeded += usize::from(matches!(event.event, Some(Event::Result(result)) if result.success));
    }
    succeeded
}

#[tokio::test]
async fn no_span_of_four_thousand_calls_of_one_stream_is_lost() {
    const CALLS: usize = 4000;
    let (collector, endpoint) = Collector::listen().await;
    let setup = Setup::up().with("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    let system = setup.start().await;
    assert_eq!(run_many(&system, CALLS).await, CALLS);
    until_true("all spans are there", PATIENCE, || collector.count() >= 5 * CALLS).await;
    let mut names: HashMap<_, usize> = HashMap::new();
    for found in collector.all() {
        *names.entry((found.service, found.span.name)).or_default() += 1;
    }
    let expected = [
        ("gateway", "openskill.v1.SkillService/InvokeMany"),
        ("gateway", "execute_tool in_echo"),
        ("gateway", EXECUTE_STREAM),
        ("worker", EXECUTE_STREAM),
        ("worker", "run inproc"),
    ];
    assert_eq!(names, expected.map(|(service, name)| ((service, name.to_owned()), CALLS)).into());
    assert!(!system.process.log.text().contains("spans were lost"));
}

/// The log lines about lost spans.
fn told(system: &System) -> Vec<String> {
    system.process.log.text().lines().filter(|line| line.contains("spans were lost")).map(str::to_owned).collect()
}

fn failed_exports(system: &System) -> usize {
    system.process.log.text().lines().filter(|line| line.contains("spans could not be exported")).count()
}

/// Calls a system whose collector takes nothing: every call succeeds, and each of its two processes says once what was lost.
async fn calls_are_not_affected(setup: Setup) -> Vec<String> {
    let setup = setup.flag("--workers", 1).with("OPENSKILL_LOG", "info,openskill::traces=debug");
    let system = setup.start().await;
    let begun = Instant::now();
    assert_eq!(run_many(&system, 200).await, 200);
    until_true("an export failed", PATIENCE, || failed_exports(&system) >= 1 && !told(&system).is_empty()).await;
    assert_eq!(run_many(&system, 200).await, 200);
    until_true("more exports failed", PATIENCE, || failed_exports(&system) >= 6).await;
    let lines = told(&system);
    assert!(begun.elapsed() < Duration::from_secs(55), "too slow to tell how many lines a minute there are");
    assert!((1..=2).contains(&lines.len()), "{lines:?}");
    lines
}

#[tokio::test]
async fn calls_do_not_notice_a_collector_that_is_down() {
    let port = Port::reserve();
    let setup = traced(Setup::up(), &format!("http://{}", port.address())).with("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 100);
    let lines = calls_are_not_affected(setup).await;
    assert!(lines.iter().all(|line| !line.contains("failed=0") && line.contains("dropped=0")), "{lines:?}");
}

/// Answers nothing, or that it refuses.
struct Unwilling {
    answers: bool,
}

#[tonic::async_trait]
impl TraceService for Unwilling {
    async fn export(
        &self,
        _: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        if self.answers {
            return Err(Status::permission_denied("s3cr3t"));
        }
        std::future::pending().await
    }
}

#[tokio::test]
async fn calls_do_not_notice_a_collector_that_refuses() {
    let endpoint = serve(TraceServiceServer::new(Unwilling { answers: true })).await;
    let setup = traced(Setup::up(), &endpoint).with("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 100);
    let lines = calls_are_not_affected(setup).await;
    assert!(lines.iter().all(|line| !line.contains("s3cr3t")), "a server's words are not for the log: {lines:?}");
}

#[tokio::test]
async fn calls_do_not_notice_a_collector_that_does_not_answer_and_the_queue_stays_bounded() {
    let endpoint = serve(TraceServiceServer::new(Unwilling { answers: false })).await;
    // The queue is full long before the first export fails, which says what was lost, also on a busy machine.
    let setup = traced(Setup::up(), &endpoint)
        .with("OTEL_EXPORTER_OTLP_TIMEOUT", 1500)
        .with("OTEL_BSP_MAX_QUEUE_SIZE", 150)
        .with("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 50);
    let lines = calls_are_not_affected(setup).await;
    assert!(lines.iter().any(|line| !line.contains("dropped=0")), "{lines:?}");
}

/// A collector that rejects some spans of each message, and takes the others.
struct Choosy;

fn but_tools(request: &ExportTraceServiceRequest) -> ExportTraceServiceResponse {
    let scopes = request.resource_spans.iter().flat_map(|it| &it.scope_spans);
    let tools = scopes.flat_map(|it| &it.spans).filter(|it| it.name.starts_with("execute_tool"));
    let partial =
        ExportTracePartialSuccess { rejected_spans: tools.count() as i64, error_message: "s3cr3t".to_owned() };
    ExportTraceServiceResponse { partial_success: Some(partial) }
}

#[tonic::async_trait]
impl TraceService for Choosy {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        Ok(Response::new(but_tools(request.get_ref())))
    }
}

/// Of three spans that a call has at the gateway, one is rejected: the metrics and the log say so.
async fn rejected_spans_are_counted(setup: Setup) {
    const CALLS: usize = 20;
    let system = setup.flag("--workers", 1).start().await;
    assert_eq!(run_many(&system, CALLS).await, CALLS);
    until("all spans are counted", PATIENCE, async || {
        let metrics = rest::send(system.address, Method::GET, "/metrics", &[], "").await;
        let metrics = String::from_utf8(metrics.body.to_vec()).unwrap();
        let expected =
            |end: &str, spans: usize| metrics.contains(&format!("openskill_spans_total{{end=\"{end}\"}} {spans}\n"));
        (expected("ok", 2 * CALLS) && expected("failed", CALLS)).then_some(())
    })
    .await;
    until_true("the log tells of them", PATIENCE, || !told(&system).is_empty()).await;
    let lines = told(&system);
    assert!(lines.iter().all(|line| line.contains("dropped=0")), "{lines:?}");
    assert!(!system.process.log.text().contains("s3cr3t"), "a collector's words are not for the log");
}

#[tokio::test]
async fn spans_that_a_collector_rejects_are_counted_over_grpc() {
    let endpoint = serve(TraceServiceServer::new(Choosy)).await;
    rejected_spans_are_counted(traced(Setup::up(), &endpoint)).await;
}

#[tokio::test]
async fn spans_that_a_collector_rejects_are_counted_over_http() {
    let server = Backend::start(|seen| match seen.path() {
        "/v1/traces" => {
            let request = ExportTraceServiceRequest::decode(seen.body.clone()).unwrap();
            Reply::new(200, "application/x-protobuf", but_tools(&request).encode_to_vec())
        }
        _ => Reply::new(200, "application/x-protobuf", ""),
    });
    let server = server.await;
    let setup = traced(Setup::up(), &server.url("/")).with("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    rejected_spans_are_counted(setup).await;
}

/// All spans that the log says were lost: dropped, and failed.
fn lost(log: &str) -> (usize, usize) {
    let number = |line: &str, key: &str| line.split(key).nth(1)?.split_whitespace().next()?.parse::<usize>().ok();
    let lines = log.lines().filter(|line| line.contains("spans were lost"));
    let numbers = lines.filter_map(|line| Some((number(line, "dropped=")?, number(line, "failed=")?)));
    numbers.fold((0, 0), |all, it| (all.0 + it.0, all.1 + it.1))
}

/// Calls a system that exports full batches alone, ends it, and returns what it says was lost once that is all spans of the call.
async fn lost_at_the_end(endpoint: &str, batch: usize) -> (usize, usize) {
    let setup = Setup::up().with("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).with("OTEL_BSP_SCHEDULE_DELAY", 3_600_000);
    let system = setup.with("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", batch).start().await;
    system.invoke(request("in_echo", json!({}))).await;
    assert_eq!(told(&system), [""; 0], "nothing is lost before the end");
    let mut process = system.process;
    process.terminate();
    process.ended().await;
    until("every span is told", PATIENCE, async || {
        let (dropped, failed) = lost(&process.log.text());
        (dropped + failed == 5).then_some((dropped, failed))
    })
    .await
}

#[tokio::test]
async fn a_process_that_ends_says_what_a_dead_collector_did_not_take() {
    let port = Port::reserve();
    assert_eq!(lost_at_the_end(&format!("http://{}", port.address()), 4).await, (0, 5));
}

#[tokio::test]
async fn a_process_that_ends_says_for_which_spans_there_was_no_time() {
    let endpoint = serve(TraceServiceServer::new(Unwilling { answers: false })).await;
    assert_eq!(lost_at_the_end(&endpoint, 2).await, (1, 4), "a batch of each process is on its way");
}
