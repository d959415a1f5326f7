//! Finds the skill of a call, or explains why it can't be called.

use std::sync::Arc;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};

use super::Catalog;
use super::entry::Entry;
use super::traffic::pick;
use crate::call::operation::Protocol;
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

    /// Routes a call: to the version that it names or that its caller approved, or by the traffic rule.
    ///
    /// # Errors
    /// No worker serves the version, or no version of the traffic rule can run. A version without a share gets no calls,
    /// because an operator may have rolled it back.
    fn choose(listed: &Arc<Entry>, call: &Call) -> Result<Self, SkillError> {
        if !call.version.is_empty() {
            let version = listed.version(&call.version).ok_or_else(|| unknown_version(listed, call))?;
            return Ok(Self::for_version(&version));
        }
        if listed.has_suspended_rule() {
            return Err(SkillError::unavailable(listed.skill.status_reason.clone()));
        }
        let shares = listed.shares();
        if shares.is_empty() {
            return Ok(Self { entry: Arc::clone(listed), version: String::new() });
        }
        let approved = shares.iter().map(|it| &it.entry).find(|it| it.skill.definition_hash == call.definition_hash);
        let chosen = approved.or_else(|| pick(shares, call.traffic_point()));
        Ok(Self::for_version(chosen.unwrap_or(listed)))
    }

    /// Moves a call without a version, under a traffic rule, to the version with a share that this worker process can
    /// run, which has the state of the call's session. Unchanged if it can run the routed version, or no other.
    pub(crate) fn follow(self, instance: &str, catalog: &Catalog, call: &Call) -> Self {
        if self.entry.runs_at(instance) {
            return self;
        }
        let listed = catalog.get(&call.skill_id);
        let mut shares = listed.iter().flat_map(|it| it.shares()).map(|it| &it.entry);
        let held = shares.find(|it| it.runs_at(instance) && call.principal.may_call(&it.skill));
        held.map_or(self, Self::for_version)
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
    let route = Route::choose(&listed, call)?;
    // A version may be in another toolset, or be destructive.
    if !Arc::ptr_eq(&listed, &route.entry) && !principal.may_call(&route.entry.skill) {
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
            // Later attempts must not run another version.
            Ok(Route::for_version(&entry))
        }
    }
}

/// Returns where a call goes now. None if it would be refused.
pub(crate) fn route(catalog: &Catalog, call: &Call) -> Option<Route> {
    let listed = catalog.get_for(&call.skill_id, &call.principal)?;
    Route::choose(&listed, call).ok().filter(|it| call.principal.may_call(&it.entry.skill))
}

fn unknown_version(listed: &Entry, call: &Call) -> SkillError {
    let visible = listed.each_version().filter(|it| call.principal.may_call(&it.skill));
    let served = visible.map(|it| it.skill.version.as_str()).collect::<Vec<_>>().join(", ");
    let wanted = &call.version;
    let message = format!("no worker serves version '{wanted}' of this skill: it has {served}");
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
        let list = match call.operation.protocol {
            // An MCP client has the list.
            Protocol::Mcp => "",
            _ => " To list the skills, run `openskill skills` or call GET /skills or ListSkills",
        };
        let message = format!("unknown skill{near} {MAY_BE_NEW}{list}");
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

#[cfg(test)]
mod tests {
    use openskill_proto::v1::{InvokeRequest, Skill, WorkerState};

    use super::*;
    use crate::call::principal::Principal;
    use crate::call::request::RequestContext;
    use crate::catalog::agents::Agents;
    use crate::catalog::merge::tests::{merged, rule, version, worker};
    use crate::catalog::snapshot::Snapshot;
    use crate::catalog::traffic::TrafficRules;

    /// A catalog with version 1.0 at the worker process `one`, and 2.0 at `two`.
    fn catalog(shares: &[(&str, u32)]) -> Catalog {
        let offers = [("one", "1.0"), ("two", "2.0")].map(|(instance, number)| {
            let worker = worker();
            worker.update(WorkerState { instance_id: instance.to_owned(), ..WorkerState::default() });
            (Skill { id: "shout".to_owned(), ..version(number) }, worker)
        });
        let rule = Some(rule(shares)).filter(|it| !it.is_empty());
        let entry = merged(offers.to_vec(), rule.as_deref());
        let series = Arc::new(openskill_telemetry::metrics::SkillMetrics::new(1));
        let catalog = Catalog::new(Agents::default(), series, TrafficRules::default());
        catalog.current.store(Arc::new(Snapshot::from([("shout".to_owned(), entry)])));
        catalog
    }

    fn call(skill_id: &str, definition_hash: &str, principal: Principal) -> Call {
        let (skill_id, definition_hash) = (skill_id.to_owned(), definition_hash.to_owned());
        let request = InvokeRequest { skill_id, definition_hash, ..InvokeRequest::default() };
        Call::new(request, RequestContext { principal, ..RequestContext::unknown() })
    }

    fn routed(catalog: &Catalog, skill_id: &str, definition_hash: &str) -> Result<String, SkillError> {
        find(catalog, &call(skill_id, definition_hash, Principal::anonymous()), true).map(|it| it.version)
    }

    #[test]
    fn every_attempt_of_an_approved_call_runs_the_approved_version() {
        let catalog = catalog(&[]);
        let listed = catalog.get("shout").unwrap();
        assert_eq!(routed(&catalog, "shout", ""), Ok(String::new()), "each worker runs its newest");
        assert_eq!(routed(&catalog, "shout", &listed.skill.definition_hash), Ok("2.0".to_owned()));
    }

    #[test]
    fn while_no_version_of_a_rule_can_run_no_other_takes_its_calls() {
        let catalog = catalog(&[("1.1", 100)]);
        let refused = routed(&catalog, "shout", "").unwrap_err();
        assert_eq!((refused.code(), refused.retryable), (ErrorCode::Unavailable, true));
        assert!(refused.message.contains("can run: 1.1; `openskill traffic shout --clear`"), "{refused:?}");
        assert_eq!(routed(&catalog, "shout@2", ""), Ok("2.0".to_owned()));
    }

    #[test]
    fn a_rule_keeps_a_session_with_its_worker() {
        let catalog = catalog(&[("1.0", 50), ("2.0", 50)]);
        let call = call("shout", "", Principal::anonymous());
        let followed = |instance| find(&catalog, &call, true).unwrap().follow(instance, &catalog, &call).version;
        assert_eq!((followed("one"), followed("two")), ("1.0".to_owned(), "2.0".to_owned()));
        assert_eq!(followed("gone"), find(&catalog, &call, true).unwrap().version);
        let listed = catalog.get("shout").unwrap();
        assert_eq!(Vec::from_iter(listed.versions_at("one")), ["1.0"]);
    }

    #[test]
    fn versions_that_a_reader_may_not_call_are_not_shown() {
        let (catalog, reader) = (catalog(&[]), Principal::nobody("reader"));
        let listed = catalog.get("shout").unwrap();
        assert_eq!(listed.for_reader(&Principal::anonymous(), |_| true).skill.versions.len(), 2);
        assert_eq!(listed.for_reader(&reader, |_| true).skill.versions.len(), 0);
        let message = |principal| unknown_version(&listed, &call("shout@3", "", principal)).message;
        assert!(message(Principal::anonymous()).ends_with("it has 2.0, 1.0"));
        assert!(!message(reader).contains("2.0"));
    }
}
