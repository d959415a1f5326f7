//! The audit log: one line for each refusal and each administrative action, under the target `openskill::audit`.
//!
//! Callers can cause refusals at will, so the lines of each kind are rate-limited, and the log counts the omitted
//! ones. No line contains a secret: keys are named by their ids.

use super::usage::Limit;

/// The maximum length of a quoted name, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Logs a request without valid credentials. `target` is the requested method or path. `reason` states what is
/// wrong.
pub(crate) fn log_unauthenticated(target: &str, reason: &str, trace_id: &str) {
    if openskill_telemetry::log::admits("requests without a valid key") {
        let target = brief(target);
        tracing::warn!(target: "openskill::audit", decision = "unauthenticated", reason, asked = target, trace_id);
    }
}

/// Logs that a policy did not allow a principal's request.
pub(crate) fn log_forbidden(principal: &str, asked: &str, trace_id: &str) {
    if openskill_telemetry::log::admits("requests that a policy forbids") {
        let asked = brief(asked);
        tracing::warn!(target: "openskill::audit", decision = "forbidden", principal, asked, trace_id);
    }
}

/// Logs that a principal reached a limit of its policy. `asked` names the skill or the other item.
pub(crate) fn log_limited(principal: &str, limit: Limit, asked: &str, trace_id: &str) {
    if openskill_telemetry::log::admits("calls beyond a policy's limits") {
        let (limit, asked) = (limit.name(), brief(asked));
        tracing::warn!(target: "openskill::audit", decision = "limited", principal, limit, asked, trace_id);
    }
}

/// Logs that an administrator changed something.
pub(crate) fn log_administered(principal: &str, key: &str, asked: &str, trace_id: &str) {
    tracing::warn!(target: "openskill::audit", decision = "administered", principal, key, asked, trace_id);
}

/// Logs that an administrator read data of other principals. Not a warning, because it may be frequent: a console
/// polls every few seconds.
pub(crate) fn log_inspected(principal: &str, key: &str, asked: &str, trace_id: &str) {
    if openskill_telemetry::log::admits("reads by administrators") {
        let asked = brief(asked);
        tracing::info!(target: "openskill::audit", decision = "inspected", principal, key, asked, trace_id);
    }
}

/// Logs that a call of `owner` was cancelled by its id. Callers can cancel their own calls.
pub(crate) fn log_cancelled(principal: &str, owner: &str, call_id: &str, trace_id: &str) {
    if openskill_telemetry::log::admits("calls cancelled by their ids") {
        tracing::info!(target: "openskill::audit", decision = "cancelled", principal, owner, call_id, trace_id);
    }
}

fn brief(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_NAME_BYTES)]
}
