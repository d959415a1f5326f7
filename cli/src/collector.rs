//! The OTLP client of this process, for spans and for metrics: over gRPC, or over HTTP with protobuf.
//!
//! Each message is sent once, within its timeout, over a persistent connection. The response says how much of the
//! message the collector rejected. A client never follows redirects: its headers are secrets of one collector.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use openskill_net::tls::install_provider;
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use crate::settings::otlp::{Destination, Protocol};
use crate::settings::{SettingProblem, SettingProblems};

/// The maximum size of a response that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

const PROTOBUF: &str = "application/x-protobuf";

/// A client for one signal. Its connection belongs to the runtime that sends first.
#[derive(Debug)]
pub(crate) struct Collector {
    client: Client,
    protocol: Protocol,
    endpoint: String,
    timeout: Duration,
}

/// A message that collectors accept.
pub(crate) trait Export: Message + Default + 'static {
    type Answer: Message + Default + 'static;

    /// The gRPC method that accepts it.
    const METHOD: &'static str;

    /// Returns the part of the message that the response reports as rejected.
    fn rejection(answer: Self::Answer) -> Option<Rejection>;
}

/// The part of a message that the collector did not accept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// The number of spans or metric data points. If it is 0, the reason is only a warning.
    pub(crate) count: u64,
    /// The collector's message, logged only at level DEBUG.
    pub(crate) reason: String,
}

/// Why a message was not delivered. The sources may contain text from the collector, so they are logged only at
/// level DEBUG.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
    #[error("the collector cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the collector answered with {}", openskill_proto::error::grpc_name(.0.code()))]
    Status(#[source] Box<Status>),
    #[error("the collector answered with HTTP status {}", .0.as_u16())]
    HttpStatus(StatusCode),
}

impl From<reqwest::Error> for SendError {
    fn from(error: reqwest::Error) -> Self {
        Self::Unreachable(Box::new(error.without_url()))
    }
}

impl Export for ExportTraceServiceRequest {
    type Answer = ExportTraceServiceResponse;

    const METHOD: &'static str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

    fn rejection(answer: Self::Answer) -> Option<Rejection> {
        answer.partial_success.and_then(|it| rejection(it.rejected_spans, it.error_message))
    }
}

impl Export for ExportMetricsServiceRequest {
    type Answer = ExportMetricsServiceResponse;

    const METHOD: &'static str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

    fn rejection(answer: Self::Answer) -> Option<Rejection> {
        answer.partial_success.and_then(|it| rejection(it.rejected_data_points, it.error_message))
    }
}

fn rejection(count: i64, reason: String) -> Option<Rejection> {
    let count = u64::try_from(count).unwrap_or(0);
    (count > 0 || !reason.is_empty()).then_some(Rejection { count, reason })
}

impl Collector {
    /// Creates a client without connecting.
    ///
    /// # Errors
    /// The certificates are unusable, or the system has none.
    pub(crate) fn new(destination: &Destination) -> Result<Self, SettingProblems> {
        let client = client(destination).map_err(|error| {
            let sources = std::iter::successors(error.source(), |&error| error.source());
            let reason = sources.fold(error.to_string(), |reason, source| format!("{reason}: {source}"));
            SettingProblem::new(&destination.setting, "settings", reason)
        })?;
        let (protocol, endpoint, timeout) = (destination.protocol, destination.endpoint.clone(), destination.timeout);
        Ok(Self { client, protocol, endpoint, timeout })
    }

    /// Sends a message. Returns the part that the collector rejected, or `None` if it accepted the whole message.
    ///
    /// # Errors
    /// The collector rejected the message, or did not confirm that it accepted it.
    pub(crate) async fn send<E: Export>(&self, message: E) -> Result<Option<Rejection>, SendError> {
        let exchange = async {
            match self.protocol {
                Protocol::Grpc => self.send_over_grpc(message).await,
                Protocol::HttpProtobuf => self.send_over_http(&message).await,
            }
        };
        let answered = tokio::time::timeout(self.timeout, exchange).await;
        Ok(E::rejection(answered.map_err(|_| SendError::Late(self.timeout))??))
    }

    async fn send_over_grpc<E: Export>(&self, message: E) -> Result<E::Answer, SendError> {
        let origin = self.endpoint.parse().map_err(|error| SendError::Unreachable(Box::new(error)))?;
        let service = tower::service_fn(|request| call(self.client.clone(), request));
        let mut grpc = Grpc::with_origin(service, origin).max_decoding_message_size(MAX_ANSWER_BYTES);
        let codec = ProstCodec::<E, E::Answer>::default();
        let answer = grpc.unary(tonic::Request::new(message), PathAndQuery::from_static(E::METHOD), codec).await;
        answer.map(tonic::Response::into_inner).map_err(|status| match status.code() {
            // The error arose in this process: a status that the collector sent has no source.
            Code::Unavailable if status.source().is_some() => SendError::Unreachable(status.into()),
            _ => SendError::Status(Box::new(status)),
        })
    }

    async fn send_over_http<E: Export>(&self, message: &E) -> Result<E::Answer, SendError> {
        let request = self.client.post(&self.endpoint).header(CONTENT_TYPE, PROTOBUF).body(message.encode_to_vec());
        let mut response = request.send().await?;
        if !response.status().is_success() {
            return Err(SendError::HttpStatus(response.status()));
        }
        // Some collectors respond with another content type or an empty body. The status already says that they
        // accepted the message.
        let kind = response.headers().get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        if !kind.starts_with(PROTOBUF.as_bytes()) {
            return Ok(E::Answer::default());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_ANSWER_BYTES {
                return Ok(E::Answer::default());
            }
        }
        Ok(E::Answer::decode(&body[..]).unwrap_or_default())
    }
}

fn client(destination: &Destination) -> reqwest::Result<Client> {
    install_provider();
    let mut builder = Client::builder()
        .redirect(Policy::none())
        .user_agent(concat!("openskill/", env!("CARGO_PKG_VERSION")))
        .default_headers(destination.headers.clone());
    if destination.protocol == Protocol::Grpc {
        // Proxies for HTTP/1.1 cannot forward gRPC.
        builder = builder.http2_prior_knowledge().no_proxy();
    }
    if destination.endpoint.starts_with("http:") {
        // Plain HTTP needs no certificates, and the system may have none.
        return builder.tls_certs_only([]).build();
    }
    if let Some(trusted) = &destination.trusted {
        builder = builder.tls_certs_only(trusted.clone());
    }
    if let Some(identity) = &destination.identity {
        builder = builder.identity(identity.clone());
    }
    builder.build()
}

/// Sends a request of the gRPC client.
async fn call(client: Client, request: Request<Body>) -> Result<Response<reqwest::Body>, Status> {
    let (head, body) = request.into_parts();
    // The body is the message encoded above, already in memory.
    let body = body.collect().await?.to_bytes();
    let unreachable = |error: reqwest::Error| {
        let mut status = Status::unavailable("the collector cannot be reached");
        status.set_source(Arc::new(error.without_url()));
        status
    };
    let request = reqwest::Request::try_from(Request::from_parts(head, body)).map_err(unreachable)?;
    client.execute(request).await.map(Response::from).map_err(unreachable)
}
