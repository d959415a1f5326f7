//! A call's place in its OpenTelemetry trace.

use tracing::Span;

use crate::call::request::Call;

/// The span of one call at the gateway, under the caller's span if there is one.
pub(crate) fn invoke(call: &Call) -> Span {
    let span = tracing::info_span!(target: "otel", "invoke", otel.kind = "server",
        skill_id = call.skill_id, call_id = call.call_id, trace_id = call.trace.id);
    openskill_trace::attach(&span, &call.trace);
    span
}

/// The `traceparent` for the call's attempts: this span if it is recorded, else the caller's own.
pub(crate) fn traceparent(span: &Span, call: &Call) -> String {
    openskill_trace::context_of(span).unwrap_or(call.trace.context).to_traceparent()
}
