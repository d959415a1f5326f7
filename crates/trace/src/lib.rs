//! Puts `tracing` spans into the OpenTelemetry trace that a call belongs to.
//!
//! The binary sets the exporter up. Without one, spans have no context, and the caller's context is passed on as it came.

use std::cell::Cell;

use openskill_proto::trace::{Trace, TraceContext};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

thread_local! {
    static ROOT: Cell<Option<[u8; 16]>> = const { Cell::new(None) };
}

/// Makes `span` a child of the caller's span, or the root of the trace that the call's id names.
pub fn attach(span: &tracing::Span, trace: &Trace) {
    if trace.has_parent {
        set_parent(span, trace.context);
    } else {
        // Reading the context starts the span, and the exporter's id generator then asks for this id.
        ROOT.set(Some(trace.context.trace_id));
        let _ = span.context();
        ROOT.set(None);
    }
}

/// Makes `span` a child of another process's span.
pub fn set_parent(span: &tracing::Span, parent: TraceContext) {
    let parent = SpanContext::new(
        TraceId::from_bytes(parent.trace_id),
        SpanId::from_bytes(parent.span_id),
        TraceFlags::new(parent.flags),
        true,
        TraceState::default(),
    );
    // Fails only if nothing records spans.
    let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(parent));
}

/// The span's own trace context. None if nothing records spans.
pub fn context_of(span: &tracing::Span) -> Option<TraceContext> {
    let context = span.context();
    let span = context.span().span_context().clone();
    span.is_valid().then(|| TraceContext {
        trace_id: span.trace_id().to_bytes(),
        span_id: span.span_id().to_bytes(),
        flags: span.trace_flags().to_u8(),
    })
}

/// For the exporter's id generator: the trace id that the root span being started must have, if [`attach`] set one.
pub fn requested_trace_id() -> Option<[u8; 16]> {
    ROOT.get()
}
