//! Finding the skill of a call, or saying why it can't be called.

use std::sync::Arc;

use openskill_proto::v1::{ErrorCode, SkillError};

use super::Catalog;
use super::entry::Entry;
use crate::call::request::Call;

/// The skill that `call` names. `is_ready`: workers are up, so a skill that is missing does not exist.
///
/// # Errors
/// There is no such skill (now), or it belongs to another toolset than the call names.
pub(crate) fn find(catalog: &Catalog, call: &Call, is_ready: bool) -> Result<Arc<Entry>, SkillError> {
    let id = &call.skill_id;
    let entry = catalog.get(id).ok_or_else(|| missing(catalog, id, is_ready))?;
    match &call.toolset {
        Some(toolset) if !entry.skill.toolset.is_empty() && entry.skill.toolset != *toolset => {
            let own = &entry.skill.toolset;
            let message =
                format!("the skill '{id}' belongs to the toolset '{own}': write <{own}><{id}>{{...}}</{id}></{own}>");
            Err(SkillError::new(ErrorCode::InvalidArgument, message))
        }
        _ => Ok(entry),
    }
}

fn missing(catalog: &Catalog, id: &str, is_ready: bool) -> SkillError {
    if catalog.had_recently(id) {
        let message = "no worker serves this skill at the moment, but one did recently: try again";
        SkillError::unavailable(message)
    } else if is_ready {
        let near = catalog.nearest(id).map_or_else(|| ".".to_owned(), |near| format!("; did you mean '{near}'?"));
        let list = "To list the skills, run `openskill skills` or call GET /skills or ListSkills";
        let message = format!("unknown skill{near} {list}");
        SkillError::new(ErrorCode::NotFound, message)
    } else {
        let message = "no worker is up, so no skill can be called: start a worker, or try again later";
        SkillError::new(ErrorCode::Unavailable, message)
    }
}

/// Why the skill can't run on any worker, if it can't.
pub(crate) fn cannot_run(entry: &Entry) -> Option<SkillError> {
    let message = || format!("the skill cannot run on any worker: {}", entry.skill.status_reason);
    // A retry helps only after somebody changed a worker.
    let error = || SkillError { retryable: false, ..SkillError::new(ErrorCode::Unavailable, message()) };
    entry.candidates.is_empty().then(error)
}
