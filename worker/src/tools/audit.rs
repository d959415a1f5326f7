//! The audit log of installations, under the target `openskill::audit`: who did what with which server, and how it ended.
//!
//! Callers can cause refusals at will, so there are only so many lines of them in a second.

use super::refusal::Refusal;

/// The longest text of a caller that a line quotes, in bytes.
const MAX_TEXT_BYTES: usize = 128;

/// Who installs or removes.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    /// A principal, `anonymous`, or `operator`.
    pub(crate) name: String,
    /// The trace of the call; empty for the operator.
    pub(crate) trace_id: String,
    /// Why, in the caller's words; may be empty.
    pub(crate) reason: String,
}

impl Who {
    /// Somebody who may use the files of the host.
    pub(crate) fn operator() -> Self {
        Self { name: "operator".to_owned(), trace_id: String::new(), reason: String::new() }
    }
}

/// An installation begins. If no other line follows, its call was cancelled or its worker was killed: nothing was published.
pub(super) fn begun(who: &Who, server: &str, version: &str) {
    line("installing", who, server, version, "");
}

/// A server was installed.
pub(super) fn installed(who: &Who, server: &str, version: &str) {
    line("installed", who, server, version, "");
}

/// A server was not installed.
pub(super) fn refused(who: &Who, server: &str, version: &str, refusal: &Refusal) {
    if openskill_log::admits("installations that were refused") {
        line("installation refused", who, server, version, refusal.word());
    }
}

/// A server was removed.
pub(super) fn removed(who: &Who, server: &str, version: &str) {
    line("removed", who, server, version, "");
}

fn line(decision: &str, who: &Who, server: &str, version: &str, outcome: &str) {
    let Who { name: principal, trace_id, reason } = who;
    let reason = &reason[..reason.floor_char_boundary(MAX_TEXT_BYTES)];
    tracing::warn!(target: "openskill::audit", decision, principal, server, version, outcome, reason, trace_id);
}
