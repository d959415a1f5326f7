//! The messages that collectors accept, and their responses.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use prost::Message;
use reqwest::StatusCode;

/// The maximum size of a response that is read, in bytes.
pub(super) const MAX_ANSWER_BYTES: usize = 64 * 1024;

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
    Status(#[source] Box<tonic::Status>),
    #[error("the collector answered with HTTP status {}", .0.as_u16())]
    HttpStatus(StatusCode),
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
