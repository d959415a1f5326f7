//! Checks whether a skill can currently be called.

use std::time::Instant;

use openskill_proto::v1::DisabledTool;

use crate::catalog::entry::Entry;
use crate::gateway::Gateway;
use crate::protect::circuit::{CircuitOwner, OpenCircuit, Session};

/// Returns why a skill can't currently be called: it has no worker, or its circuit is open. None if it can.
pub(crate) fn check_disabled(
    gateway: &Gateway,
    entry: &Entry,
    session: Session<'_>,
    now: Instant,
) -> Option<DisabledTool> {
    let skill_id = entry.skill.id.clone();
    if entry.candidates.is_empty() {
        return Some(DisabledTool { skill_id, reason: entry.skill.status_reason.clone(), retry_after_ms: 0 });
    }
    let peek = |it: &Entry| gateway.circuits.peek(CircuitOwner { name: it.circuit(), skill: &it.skill }, session, now);
    let refused = match entry.shares() {
        [] => peek(entry)?,
        // One version whose circuit is closed is enough.
        shares => {
            let refused = shares.iter().map(|it| peek(&it.entry));
            refused.min_by_key(|it| it.map(OpenCircuit::retry_after_ms)).flatten()?
        }
    };
    let reason = format!("its circuit breaker is open {}", refused.scope());
    Some(DisabledTool { skill_id, reason, retry_after_ms: refused.retry_after_ms() })
}
