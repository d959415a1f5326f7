//! Why a skill can't be called now.

use std::time::Instant;

use openskill_proto::v1::DisabledTool;

use crate::catalog::entry::Entry;
use crate::gateway::Gateway;
use crate::protect::circuit::Session;

/// Why a skill can't be called now, if it can't: it has no worker, or its circuit is open.
pub(crate) fn disabled(gateway: &Gateway, entry: &Entry, session: Session<'_>, now: Instant) -> Option<DisabledTool> {
    let skill_id = entry.skill.id.clone();
    if entry.candidates.is_empty() {
        return Some(DisabledTool { skill_id, reason: entry.skill.status_reason.clone(), retry_after_ms: 0 });
    }
    let refused = gateway.circuits.look(&entry.skill, session, now)?;
    let reason = format!("its circuit breaker is open {}", refused.scope());
    Some(DisabledTool { skill_id, reason, retry_after_ms: refused.retry_after_ms() })
}
