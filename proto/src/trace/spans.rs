//! Between our trace context and the spans of OpenTelemetry. The exporter is set up by whoever owns the process; with
//! none, spans have no context and the caller's is passed on.

use std::cell::Cell;

use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::{Trace, TraceContext};

thread_local! {
    static ROOT: Cell<Option<[u8; 16]>> = const { Cell::new(None) };
}

/// Puts a span where the call stands: under the caller's span, or at the root of the trace that the call's id names.
pub fn place(span: &tracing::Span, trace: &Trace) {
    if trace.has_parent {
        set_parent(span, trace.context);
    } else {
        // The exporter's id generator asks for this id when the span starts, which reading its context makes it do.
        ROOT.set(Some(trace.context.trace_id));
        let _ = span.context();
        ROOT.set(None);
    }
}

/// Puts a span under a span of another process.
pub fn set_parent(span: &tracing::Span, parent: TraceContext) {
    let parent = SpanContext::new(
        TraceId::from_bytes(parent.trace_id),
        SpanId::from_bytes(parent.span_id),
        TraceFlags::new(parent.flags),
        true,
        TraceState::default(),
    );
    // Fails only where nothing records spans, and then there is nothing to place.
    let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(parent));
}

/// Where a span stands, if anything records it.
pub fn context_of(span: &tracing::Span) -> Option<TraceContext> {
    let context = span.context();
    let span = context.span().span_context().clone();
    span.is_valid().then(|| TraceContext {
        trace_id: span.trace_id().to_bytes(),
        span_id: span.span_id().to_bytes(),
        flags: span.trace_flags().to_u8(),
    })
}

/// The trace id that the span now starting at the root must have, if a call asked for one. For id generators.
pub fn wanted_root() -> Option<[u8; 16]> {
    ROOT.get()
}
