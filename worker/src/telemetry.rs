//! Between our trace context and OpenTelemetry's. The exporter is set up by whoever owns the process.

use openskill_proto::trace::TraceContext;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// A span of another process, as a parent.
pub(crate) fn remote_context(context: TraceContext) -> opentelemetry::Context {
    let span = SpanContext::new(
        TraceId::from_bytes(context.trace_id),
        SpanId::from_bytes(context.span_id),
        TraceFlags::new(context.flags),
        true,
        TraceState::default(),
    );
    opentelemetry::Context::new().with_remote_span_context(span)
}

/// Where a span stands, if anything records it.
pub(crate) fn context_of(span: &tracing::Span) -> Option<TraceContext> {
    let context = span.context();
    let span = context.span().span_context().clone();
    span.is_valid().then(|| TraceContext {
        trace_id: span.trace_id().to_bytes(),
        span_id: span.span_id().to_bytes(),
        flags: span.trace_flags().to_u8(),
    })
}
