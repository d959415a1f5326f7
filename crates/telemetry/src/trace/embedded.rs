//! Spans that code inside a call creates with `tracing` or `opentelemetry`.

use openskill_proto::trace::TraceContext;
use opentelemetry::context::{FutureExt as _, WithContext};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};

/// Runs `future` so that its spans become children of `parent`, if `parent` is sampled.
pub fn within<F>(parent: TraceContext, future: F) -> WithContext<F> {
    let parent = SpanContext::new(
        TraceId::from_bytes(parent.trace_id),
        SpanId::from_bytes(parent.span_id),
        TraceFlags::new(parent.flags),
        true,
        TraceState::NONE,
    );
    future.with_context(opentelemetry::Context::new().with_remote_span_context(parent))
}
