//! One trace from the caller to the script, exported over OTLP.

use std::sync::{Arc, Mutex};

use openskill_proto::trace::derive_trace_id;
use openskill_tests::system::{PATIENCE, Setup, System};
use openskill_tests::wait::until;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;
use tonic::{Request, Response, Status};

/// A collector that keeps spans, each with its service's name.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<(String, Span)>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let attributes = format!("{:?}", resource.resource);
            let service = if attributes.contains("openskill-worker") { "worker" } else { "gateway" };
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.0.lock().unwrap().extend(spans.map(|span| (service.to_owned(), span)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    async fn listen() -> (Self, String) {
        let collector = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let service = TraceServiceServer::new(collector.clone());
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        (collector, address)
    }

    /// The spans of gateway and worker in a trace.
    async fn pair(&self, trace_id: [u8; 16]) -> (Span, Span) {
        until("both spans are exported", PATIENCE, || async {
            let spans = self.0.lock().unwrap();
            let find = |wanted: &str| {
                spans
                    .iter()
                    .find(|(service, span)| service == wanted && span.trace_id == trace_id)
                    .map(|it| it.1.clone())
            };
            find("gateway").zip(find("worker"))
        })
        .await
    }
}

async fn environment_of_script(system: &System, headers: &[(&str, &str)]) -> serde_json::Value {
    let answer = system.post("/skills/reveals:invoke", headers, "{}").await.json();
    assert_eq!(answer["success"], true, "{answer}");
    answer["data"]["environment"].clone()
}

#[tokio::test]
async fn a_call_is_one_trace_across_gateway_and_worker() {
    let (collector, endpoint) = Collector::listen().await;
    let system =
        Setup::up().with("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).with("OTEL_BSP_SCHEDULE_DELAY", "100").start().await;
    let environment = environment_of_script(&system, &[("x-trace-id", "demo-123")]).await;
    let trace_id = derive_trace_id("demo-123");
    let (gateway, worker) = collector.pair(trace_id).await;
    assert_eq!((gateway.name.as_str(), worker.name.as_str()), ("invoke", "execute"));
    assert!(gateway.parent_span_id.is_empty(), "the root of the trace");
    assert_eq!(worker.parent_span_id, gateway.span_id);
    let expected =
        format!("00-{}-{}-01", openskill_proto::trace::hex(&trace_id), openskill_proto::trace::hex(&worker.span_id));
    assert_eq!(environment["TRACEPARENT"], expected);
    assert_eq!(environment["OPENSKILL_TRACE_ID"], "demo-123");

    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    environment_of_script(&system, &[("traceparent", parent)]).await;
    let trace_id = openskill_proto::trace::TraceContext::parse(parent).unwrap();
    let (gateway, worker) = collector.pair(trace_id.trace_id).await;
    assert_eq!(gateway.parent_span_id, trace_id.span_id);
    assert_eq!(worker.parent_span_id, gateway.span_id);
    // Only our own spans, none of the libraries'.
    assert!(collector.0.lock().unwrap().iter().all(|(_, span)| ["invoke", "execute"].contains(&span.name.as_str())));
}

#[tokio::test]
async fn the_trace_context_reaches_the_script_without_an_exporter() {
    let system = Setup::up().start().await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let environment = environment_of_script(&system, &[("traceparent", parent), ("x-trace-id", "mine")]).await;
    assert_eq!((&environment["TRACEPARENT"], &environment["OPENSKILL_TRACE_ID"]), (&json!(parent), &json!("mine")));
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
    let lines = system.process.log.text().lines().filter(|line| line.contains("openskill::call")).count();
    assert_eq!(lines, 1);
}
