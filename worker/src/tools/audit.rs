//! Logs installations for audits, with the target `openskill::audit`: who did what with which server, and the
//! result.
//!
//! Callers can cause refusals at will, so the number of their log lines per second is limited.

use super::refusal::InstallRefusal;

/// The maximum length of a caller's text in a line, in bytes.
const MAX_TEXT_BYTES: usize = 128;

/// The principal or operator who installs or removes a server.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    /// A principal, `anonymous`, or `operator`.
    pub(crate) name: String,
    /// The call's trace id. Empty for the operator.
    pub(crate) trace_id: String,
    /// The reason in the caller's own words. May be empty.
    pub(crate) reason: String,
}

impl Actor {
    /// Represents a person with access to the host's files.
    pub(crate) fn operator() -> Self {
        Self { name: "operator".to_owned(), trace_id: String::new(), reason: String::new() }
    }
}

/// Logs the start of an installation. If no other line follows, the call was cancelled or its worker was killed,
/// and nothing was published.
pub(super) fn log_begin(actor: &Actor, server: &str, version: &str) {
    line("installing", actor, server, version, "");
}

/// Logs that a server was installed.
pub(super) fn log_install(actor: &Actor, server: &str, version: &str) {
    line("installed", actor, server, version, "");
}

/// Logs that an installation was refused.
pub(super) fn log_refusal(actor: &Actor, server: &str, version: &str, refusal: &InstallRefusal) {
    if openskill_log::admits("installations that were refused") {
        line("installation refused", actor, server, version, refusal.word());
    }
}

/// Logs that a server was removed.
pub(super) fn log_removal(actor: &Actor, server: &str, version: &str) {
    line("removed", actor, server, version, "");
}

fn line(decision: &str, actor: &Actor, server: &str, version: &str, outcome: &str) {
    let Actor { name: principal, trace_id, reason } = actor;
    let reason = &reason[..reason.floor_char_boundary(MAX_TEXT_BYTES)];
    tracing::warn!(target: "openskill::audit", decision, principal, server, version, outcome, reason, trace_id);
}
