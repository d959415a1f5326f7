//! The OTLP client of this process, for spans and for metrics: over gRPC, or over HTTP with protobuf.
//!
//! A message is sent once, within its time, over a connection that is kept. The answer says how much of the message the
//! collector rejected. A client never follows redirects: its headers are secrets of one collector.

use std::error::Error as _;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use prost::Message;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};

use crate::settings::otlp::destination::{Destination, Protocol};
use crate::settings::{Problem, Problems};

mod grpc;
mod http;

/// The largest answer that is read.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// A message that collectors take.
pub(crate) trait Export: Message + Default + 'static {
    type Answer: Message + Default + 'static;

    /// The gRPC method that takes it.
    const METHOD: &'static str;

    fn rejected(answer: Self::Answer) -> Option<Rejected>;
}

/// The part of a message that the collector did not take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rejected {
    /// Spans, or points of metrics. With 0, the reason is a warning.
    pub(crate) count: u64,
    /// What the collector wrote: for the log at level DEBUG alone.
    pub(crate) reason: String,
}

/// Why a message was not taken. Sources may contain what the collector wrote: they are for the log at level DEBUG alone.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
    #[error("the collector cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the collector answered with {}", openskill_proto::error::grpc_name(.0.code()))]
    Status(#[source] Box<tonic::Status>),
    #[error("the collector answered with HTTP status {}", .0.as_u16())]
    HttpStatus(StatusCode),
}

/// A client for one signal. Its connection belongs to the runtime that first sends.
#[derive(Debug)]
pub(crate) struct Collector {
    client: Client,
    protocol: Protocol,
    endpoint: String,
    timeout: Duration,
}

impl Collector {
    /// # Errors
    /// The certificates are not usable, or the system has none.
    pub(crate) fn new(destination: &Destination) -> Result<Self, Problems> {
        let client = client(destination).map_err(|error| {
            let sources = std::iter::successors(error.source(), |&error| error.source());
            let reason = sources.fold(error.to_string(), |reason, source| format!("{reason}: {source}"));
            let (name, origin) = (destination.setting.to_owned(), "settings".to_owned());
            Problems(vec![Problem { name, origin, reason }])
        })?;
        let (protocol, endpoint, timeout) = (destination.protocol, destination.endpoint.clone(), destination.timeout);
        Ok(Self { client, protocol, endpoint, timeout })
    }

    /// Sends a message. None: the collector took all of it.
    ///
    /// # Errors
    /// As far as this side knows, it took nothing.
    pub(crate) async fn send<E: Export>(&self, message: E) -> Result<Option<Rejected>, SendError> {
        let exchange = async {
            match self.protocol {
                Protocol::Grpc => grpc::exchange(&self.client, &self.endpoint, message).await,
                Protocol::HttpProtobuf => http::exchange(&self.client, &self.endpoint, &message).await,
            }
        };
        let answered = tokio::time::timeout(self.timeout, exchange).await;
        Ok(E::rejected(answered.map_err(|_| SendError::Late(self.timeout))??))
    }
}

fn client(destination: &Destination) -> reqwest::Result<Client> {
    // Another thread may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .redirect(Policy::none())
        .user_agent(concat!("openskill/", env!("CARGO_PKG_VERSION")))
        .default_headers(destination.headers.clone());
    if destination.protocol == Protocol::Grpc {
        // Proxies for HTTP/1.1 cannot pass it on.
        builder = builder.http2_prior_knowledge().no_proxy();
    }
    if destination.endpoint.starts_with("http:") {
        // The system may have no certificates, and this has no need of them.
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

impl Export for ExportTraceServiceRequest {
    type Answer = ExportTraceServiceResponse;

    const METHOD: &'static str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

    fn rejected(answer: Self::Answer) -> Option<Rejected> {
        answer.partial_success.and_then(|it| rejected(it.rejected_spans, it.error_message))
    }
}

impl Export for ExportMetricsServiceRequest {
    type Answer = ExportMetricsServiceResponse;

    const METHOD: &'static str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

    fn rejected(answer: Self::Answer) -> Option<Rejected> {
        answer.partial_success.and_then(|it| rejected(it.rejected_data_points, it.error_message))
    }
}

fn rejected(count: i64, reason: String) -> Option<Rejected> {
    let count = u64::try_from(count).unwrap_or(0);
    (count > 0 || !reason.is_empty()).then_some(Rejected { count, reason })
}
