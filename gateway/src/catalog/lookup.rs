//! Finds the skill of a call, or explains why it can't be called.

use std::sync::Arc;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};

use super::Catalog;
use super::entry::Entry;
use crate::call::request::Call;
use crate::identity::audit;

/// A hint for an unknown skill: the gateway learns of a new skill only after a worker loaded it.
pub(crate) const MAY_BE_NEW: &str = "A skill that was just added may not be loaded yet.";

/// Finds the skill that `call` names, in the definition that the call expects, if any. `has_workers`: a worker is
/// up, so a missing skill does not exist.
///
/// # Errors
/// The skill does not exist at the moment, it belongs to another toolset than the call names, or its definition
/// changed.
pub(crate) fn find(catalog: &Catalog, call: &Call, has_workers: bool) -> Result<Arc<Entry>, SkillError> {
    let id = &call.skill_id;
    let entry = catalog.get_for(id, &call.principal).ok_or_else(|| missing(catalog, call, has_workers))?;
    match &call.toolset {
        Some(toolset) if !entry.skill.toolset.is_empty() && entry.skill.toolset != *toolset => {
            let own = &entry.skill.toolset;
            let message =
                format!("the skill '{id}' belongs to the toolset '{own}': write <{own}><{id}>{{...}}</{id}></{own}>");
            Err(SkillError::new(ErrorCode::InvalidArgument, message))
        }
        _ if call.definition_hash.is_empty() => Ok(entry),
        _ => entry.in_definition(&call.definition_hash).ok_or_else(|| stale_definition(id)),
    }
}

/// The error for a skill whose definition differs from the one that the caller approved. Not retryable: the caller
/// must approve the new definition.
fn stale_definition(id: &str) -> SkillError {
    let message = format!("the skill '{id}' changed after this call was prepared: prepare it again");
    SkillError { retryable: false, retry_after_ms: 0, ..SkillError::unavailable(message) }
}

/// The error for a missing skill. A skill that the caller's policy forbids gets the same error.
fn missing(catalog: &Catalog, call: &Call, has_workers: bool) -> SkillError {
    let (id, principal) = (&call.skill_id, &call.principal);
    if !principal.sees_all() && catalog.get(id).is_some() {
        audit::log_forbidden(principal.name(), id, &call.trace.id);
    }
    if !has_workers {
        let message = "no worker is available, so no skill can be called: start a worker, or try again later";
        SkillError::unavailable(message).with_blame(Blame::Gateway)
    } else if catalog.had_recently_for(id, principal) {
        let message = "no worker serves this skill at the moment, but one did recently: try again";
        SkillError::unavailable(message)
    } else {
        let near = catalog.nearest_for(id, principal);
        let near = near.map_or_else(|| ".".to_owned(), |near| format!("; did you mean '{near}'?"));
        let list = "To list the skills, run `openskill skills` or call GET /skills or ListSkills";
        let message = format!("unknown skill{near} {MAY_BE_NEW} {list}");
        SkillError::new(ErrorCode::NotFound, message)
    }
}

/// Explains why no worker can run the skill. None if one can.
pub(crate) fn cannot_run(entry: &Entry) -> Option<SkillError> {
    let message = || format!("the skill cannot run on any worker: {}", entry.skill.status_reason);
    // A retry helps only after an operator changes a worker.
    let error = || SkillError { retryable: false, ..SkillError::new(ErrorCode::Unavailable, message()) };
    entry.candidates.is_empty().then(error)
}
