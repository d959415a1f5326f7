//! Finding the skill of a call, or saying why it can't be called.

use std::sync::Arc;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};

use super::Catalog;
use super::entry::Entry;
use crate::call::request::Call;
use crate::identity::audit;

/// What an unknown skill may be: the gateway learns of a new one when a worker has loaded it.
pub(crate) const MAY_BE_NEW: &str = "A skill that was just added may not be loaded yet.";

/// The skill that `call` names, in the definition that the call expects, if it expects one. `has_workers`: a worker is up, so
/// a skill that is missing does not exist.
///
/// # Errors
/// There is no such skill (now), it belongs to another toolset than the call names, or it has another definition now.
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
        _ => entry.in_definition(&call.definition_hash).ok_or_else(|| changed(id)),
    }
}

/// Not retryable as it is: whoever decided on the earlier definition has to decide again.
fn changed(id: &str) -> SkillError {
    let message = format!("the skill '{id}' changed after this call was decided on: prepare it again");
    SkillError { retryable: false, retry_after_ms: 0, ..SkillError::unavailable(message) }
}

/// The same for a skill that does not exist and for one that the caller's policy forbids.
fn missing(catalog: &Catalog, call: &Call, has_workers: bool) -> SkillError {
    let (id, principal) = (&call.skill_id, &call.principal);
    if !principal.sees_all() && catalog.get(id).is_some() {
        audit::forbidden(principal.name(), id, &call.trace.id);
    }
    if !has_workers {
        let message = "no worker is up, so no skill can be called: start a worker, or try again later";
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

/// Why the skill can't run on any worker, if it can't.
pub(crate) fn cannot_run(entry: &Entry) -> Option<SkillError> {
    let message = || format!("the skill cannot run on any worker: {}", entry.skill.status_reason);
    // A retry helps only after somebody changed a worker.
    let error = || SkillError { retryable: false, ..SkillError::new(ErrorCode::Unavailable, message()) };
    entry.candidates.is_empty().then(error)
}
