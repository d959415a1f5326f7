//! The audit log: one line for each decision that refuses or administers, under the target `openskill::audit`.
//!
//! Callers can cause refusals at will, so there are only so many lines of each kind in a second; the log says how many were
//! left out. No line has a secret: keys are named by their ids.

use super::usage::Limit;

/// The longest name that a line quotes, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// A request without valid credentials. `target`: the method or path that it asks for. `reason`: what is wrong with them.
pub(crate) fn unauthenticated(target: &str, reason: &str, trace_id: &str) {
    if openskill_log::admits("requests without a valid key") {
        let target = brief(target);
        tracing::warn!(target: "openskill::audit", decision = "unauthenticated", reason, asked = target, trace_id);
    }
}

/// A principal asks for what it is not allowed.
pub(crate) fn forbidden(principal: &str, asked: &str, trace_id: &str) {
    if openskill_log::admits("requests for what a policy forbids") {
        let asked = brief(asked);
        tracing::warn!(target: "openskill::audit", decision = "forbidden", principal, asked, trace_id);
    }
}

/// A principal is at a limit of its policy. `asked`: the skill, or what else it asks for.
pub(crate) fn limited(principal: &str, limit: Limit, asked: &str, trace_id: &str) {
    if openskill_log::admits("calls beyond a policy's limits") {
        let (limit, asked) = (limit.name(), brief(asked));
        tracing::warn!(target: "openskill::audit", decision = "limited", principal, limit, asked, trace_id);
    }
}

/// An administrator changes something.
pub(crate) fn administered(principal: &str, key: &str, asked: &str, trace_id: &str) {
    tracing::warn!(target: "openskill::audit", decision = "administered", principal, key, asked, trace_id);
}

/// An administrator looks at what belongs to others. It is no warning, and may be often: a console asks every few seconds.
pub(crate) fn inspected(principal: &str, key: &str, asked: &str, trace_id: &str) {
    if openskill_log::admits("reads by administrators") {
        let asked = brief(asked);
        tracing::info!(target: "openskill::audit", decision = "inspected", principal, key, asked, trace_id);
    }
}

fn brief(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_NAME_BYTES)]
}
