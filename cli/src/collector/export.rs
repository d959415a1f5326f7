//! What collectors take, and how they may answer.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use prost::Message;
use reqwest::StatusCode;

/// The largest answer that is read.
pub(super) const MAX_ANSWER_BYTES: usize = 64 * 1024;

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
