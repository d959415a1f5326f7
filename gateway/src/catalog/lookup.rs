//! Finds the skill of a call, or explains why it can't be called.

use std::sync::Arc;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};

use super::Catalog;
use super::entry::Entry;
use super::traffic::pick;
use crate::call::request::Call;
use crate::identity::audit;

/// A hint for an unknown skill: the gateway learns of a new skill only after a worker loaded it.
pub(crate) const MAY_BE_NEW: &str = "A skill that was just added may not be loaded yet.";

/// Where a call goes.
pub(crate) struct Route {
    /// The skill, or one of its versions.
    pub(crate) entry: Arc<Entry>,
    /// The version that workers must run. If empty, each runs its newest.
    pub(crate) version: String,
}

impl Route {
    fn for_version(entry: &Arc<Entry>) -> Self {
        Self { entry: Arc::clone(entry), version: entry.skill.version.clone() }
    }

    /// Routes a call: to the version that it names or that its caller approved, or by the traffic rule. None if no
    /// worker serves the version.
    fn choose(listed: &Arc<Entry>, call: &Call) -> Option<Self> {
        if !call.version.is_empty() {
            return listed.version(&call.version).map(|entry| Self::for_version(&entry));
        }
        let mut shares = listed.shares().iter().map(|it| &it.entry);
        let approved = shares.find(|it| it.skill.definition_hash == call.definition_hash);
        let chosen = approved.or_else(|| pick(listed.shares(), call.traffic_point()));
        Some(chosen.map_or_else(|| Self { entry: Arc::clone(listed), version: String::new() }, Self::for_version))
    }
}

/// Finds the skill that `call` names, in its version and in the definition that the call expects, if any.
/// `has_workers`: a worker is up, so a missing skill does not exist.
///
/// # Errors
/// The skill or the version does not exist at the moment, it belongs to another toolset than the call names, or its
/// definition changed.
pub(crate) fn find(catalog: &Catalog, call: &Call, has_workers: bool) -> Result<Route, SkillError> {
    let (id, principal) = (&call.skill_id, &call.principal);
    let listed = catalog.get_for(id, principal).ok_or_else(|| missing(catalog, call, has_workers))?;
    let route = Route::choose(&listed, call).ok_or_else(|| unknown_version(&listed, &call.version))?;
    // A version may be in another toolset, or be destructive.
    if !principal.may_call(&route.entry.skill) {
        return Err(missing(catalog, call, has_workers));
    }
    let entry = &route.entry;
    match &call.toolset {
        Some(toolset) if !entry.skill.toolset.is_empty() && entry.skill.toolset != *toolset => {
            let own = &entry.skill.toolset;
            let message =
                format!("the skill '{id}' belongs to the toolset '{own}': write <{own}><{id}>{{...}}</{id}></{own}>");
            Err(SkillError::new(ErrorCode::InvalidArgument, message))
        }
        _ if call.definition_hash.is_empty() => Ok(route),
        _ => {
            let entry = entry.in_definition(&call.definition_hash).ok_or_else(|| stale_definition(id))?;
            Ok(Route { entry, ..route })
        }
    }
}

/// Returns the version to which a call goes now. Empty if there is none.
pub(crate) fn version(catalog: &Catalog, call: &Call) -> String {
    let listed = catalog.get_for(&call.skill_id, &call.principal);
    let route = listed.and_then(|listed| Route::choose(&listed, call));
    route.map(|it| it.entry.skill.version.clone()).unwrap_or_default()
}

fn unknown_version(listed: &Entry, wanted: &str) -> SkillError {
    let own = [listed.skill.version.as_str()];
    let served = listed.versions().iter().map(|it| it.skill.version.as_str());
    let served: Vec<_> = if listed.versions().is_empty() { own.to_vec() } else { served.collect() };
    let message = format!("no worker serves version '{wanted}' of this skill: it has {}", served.join(", "));
    SkillError::new(ErrorCode::NotFound, message)
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
