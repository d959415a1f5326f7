//! A receiver of traces, for containers that cannot have a collector: says whose spans came, one line a batch.
//!
//! It takes any arguments and needs none: it stands where `docker-compose.yml` has a collector, with a collector's command.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program of the tests, which read what it prints")]

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use tokio::signal::unix::{SignalKind, signal};
use tonic::{Request, Response, Status};

/// The port of OTLP over gRPC.
const ADDRESS: &str = "0.0.0.0:4317";

struct Receiver;

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for of_process in request.into_inner().resource_spans {
            let service = of_process.resource.as_ref().map(service).unwrap_or_default();
            let spans = of_process.scope_spans.into_iter().flat_map(|it| it.spans);
            let names: Vec<_> = spans.map(|it| it.name).collect();
            println!("{service}: {}", names.join(", "));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn service(resource: &Resource) -> String {
    let named = resource.attributes.iter().find(|it| it.key == "service.name");
    match named.and_then(|it| it.value.clone()?.value) {
        Some(Value::StringValue(name)) => name,
        _ => String::new(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut terminated = signal(SignalKind::terminate()).unwrap();
    let stop = async move {
        let _ = terminated.recv().await;
    };
    let server = tonic::transport::Server::builder().add_service(TraceServiceServer::new(Receiver));
    server.serve_with_shutdown(ADDRESS.parse().unwrap(), stop).await.unwrap();
}
