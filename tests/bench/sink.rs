//! A collector that takes traces and throws them away: `bench otlp-sink`. What is measured is what sending them costs.

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::bare::stdin_ended;

struct Sink;

#[tonic::async_trait]
impl TraceService for Sink {
    async fn export(
        &self,
        _: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Serves until stdin ends.
pub(crate) async fn serve(listen: &str) -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind(listen).await?;
    println!("{}", listener.local_addr()?);
    // A batch of spans is larger than a usual message.
    let service = TraceServiceServer::new(Sink).max_decoding_message_size(64 << 20);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    tokio::select! {
        served = Server::builder().add_service(service).serve_with_incoming(incoming) => served?,
        _ = stdin_ended() => {}
    }
    Ok(())
}
