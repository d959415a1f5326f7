//! A collector that keeps the spans it gets, over gRPC or over HTTP.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use openskill_proto::trace::TraceContext;
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::system::PATIENCE;
use openskill_tests::wait::until;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::{Span, status::StatusCode};
use prost::Message as _;
use tonic::{Request, Response, Status};

/// A span, and whose it is.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// `gateway` or `worker`.
    pub(super) service: &'static str,
    pub(super) span: Span,
}

#[derive(Clone, Default)]
pub(super) struct Collector(Arc<Mutex<Vec<Found>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.keep(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Listens for gRPC, and returns its address.
    pub(super) async fn listen() -> (Self, String) {
        let collector = Self::default();
        (collector.clone(), serve(TraceServiceServer::new(collector)).await)
    }

    /// Listens for HTTP.
    pub(super) async fn over_http() -> (Self, Backend) {
        let collector = Self::default();
        let kept = collector.clone();
        let server = Backend::start(move |seen| {
            if seen.path() == "/v1/traces" {
                kept.keep(ExportTraceServiceRequest::decode(seen.body.clone()).unwrap());
            }
            Reply::new(200, "application/x-protobuf", "")
        });
        (collector, server.await)
    }

    fn keep(&self, request: ExportTraceServiceRequest) {
        for resource in request.resource_spans {
            let attributes = resource.resource.map(|it| it.attributes).unwrap_or_default();
            let service = if text(&attributes, "service.name").ends_with("-worker") { "worker" } else { "gateway" };
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.0.lock().unwrap().extend(spans.map(|span| Found { service, span }));
        }
    }

    pub(super) fn all(&self) -> Vec<Found> {
        self.0.lock().unwrap().clone()
    }

    pub(super) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// The spans of a trace, once there are so many.
    pub(super) async fn trace(&self, trace_id: [u8; 16], count: usize) -> Trace {
        until(&format!("{count} spans"), PATIENCE, || async {
            let found: Vec<_> = self.all().into_iter().filter(|it| it.span.trace_id == trace_id).collect();
            (found.len() >= count).then_some(Trace(found))
        })
        .await
    }
}

/// Serves a gRPC service on a free port, and returns its address.
pub(super) async fn serve<S: TraceService>(service: TraceServiceServer<S>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
    address
}

/// The spans of one trace.
#[derive(Debug)]
pub(super) struct Trace(pub(super) Vec<Found>);

impl Trace {
    /// The only span of this name.
    pub(super) fn span(&self, name: &str) -> &Span {
        let mut named = self.0.iter().filter(|it| it.span.name == name);
        let found = named.next().unwrap_or_else(|| panic!("no {name} in {:?}", self.names()));
        assert!(named.next().is_none(), "{name} twice in {:?}", self.names());
        &found.span
    }

    /// The only span of this name of `gateway` or `worker`.
    pub(super) fn of(&self, service: &str, name: &str) -> &Span {
        let mut named = self.0.iter().filter(|it| it.span.name == name && it.service == service);
        let found = named.next().unwrap_or_else(|| panic!("no {name} of {service} in {:?}", self.names()));
        assert!(named.next().is_none(), "{name} twice in {:?}", self.names());
        &found.span
    }

    /// All names, sorted.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.0.iter().map(|it| it.span.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// Every span has another's id, or the caller's, as its parent.
    pub(super) fn is_whole(&self, caller: &TraceContext) {
        let ids: HashMap<_, _> = self.0.iter().map(|it| (it.span.span_id.clone(), &it.span.name)).collect();
        assert_eq!(ids.len(), self.0.len(), "ids are unique");
        for Found { span, .. } in &self.0 {
            let is_known = ids.contains_key(&span.parent_span_id) || span.parent_span_id == caller.span_id;
            assert!(is_known, "{} has no parent: {self:?}", span.name);
        }
    }
}

pub(super) fn failed(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error)
}

/// An attribute as text; empty if there is none.
pub(super) fn attribute(span: &Span, key: &str) -> String {
    text(&span.attributes, key)
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let value = attributes.iter().find(|it| it.key == key).and_then(|it| it.value.clone()?.value);
    match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        _ => String::new(),
    }
}

/// The names of a span's events, each with an attribute.
pub(super) fn events(span: &Span, key: &str) -> Vec<(String, String)> {
    span.events.iter().map(|it| (it.name.clone(), text(&it.attributes, key))).collect()
}
