//! Prepares a call for dispatch: finds its skill and repairs its arguments. Also previews this without running the
//! call.

use std::sync::Arc;

use openskill_proto::v1::{PreparedCall, SkillError};

use crate::call::preparation::{Preparation, prepare_with_pool};
use crate::call::request::{Call, granted_time};
use crate::catalog::lookup::{Route, cannot_run, find};
use crate::gateway::{Gateway, Shard};
use crate::observe::call_record::CallRecord;
use crate::state::limits::{SMALL, SharedLimit};

/// A call that is ready for dispatch: its skill, and the arguments for it.
pub(crate) struct ResolvedCall {
    pub(crate) route: Route,
    /// Why no worker can run the skill. None if one can.
    pub(crate) refusal: Option<SkillError>,
    /// The prepared arguments, or why they are invalid.
    pub(crate) arguments: Result<Preparation, SkillError>,
}

impl ResolvedCall {
    /// Finds the skill of a call, and prepares its arguments. `record` is None if the call is only previewed.
    ///
    /// # Errors
    /// The call is malformed, or its skill is not found.
    pub(crate) async fn resolve(
        gateway: &Gateway,
        call: &Arc<Call>,
        record: Option<&CallRecord>,
    ) -> Result<Self, SkillError> {
        call.fault.clone().map_or(Ok(()), Err)?;
        let route = gateway.follow_session(find(&gateway.catalog, call, gateway.has_workers())?, call);
        let entry = &route.entry;
        if let Some(record) = record {
            record.set_skill(&entry.series, entry.definition.secrets());
        }
        let time = granted_time(gateway.config.default_timeout, entry.skill.timeout_ms);
        let arguments = prepare_with_pool(&gateway.blocking_pool, call, &entry.definition, time).await;
        match (record, &arguments) {
            (Some(record), Ok(prepared)) => record.arguments_prepared(prepared),
            (Some(record), Err(_)) => record.arguments_rejected(),
            (None, _) => {}
        }
        Ok(Self { refusal: cannot_run(entry), route, arguments })
    }
}

/// Prepares the arguments of `call` without running it. Refuses the same calls as [`crate::invoke::invoke`], but first
/// takes the share of memory that large arguments need. Takes no permit, checks no circuit, and records nothing.
pub(crate) async fn prepare(shard: &Shard, call: &Arc<Call>) -> PreparedCall {
    let mut ready = PreparedCall { skill_id: call.skill_id.to_string(), ..PreparedCall::default() };
    if let Err(error) = fill(shard, call, &mut ready).await {
        ready.error = Some(error);
    }
    ready.warnings.extend(call.trace.warning());
    ready
}

async fn fill(shard: &Shard, call: &Arc<Call>, ready: &mut PreparedCall) -> Result<(), SkillError> {
    // Without a permit, nothing else accounts for the arguments.
    let (mut share, size) = (shard.gateway.share(SharedLimit::Requests, &call.principal), call.input.size());
    if size > SMALL && !share.grow(size) {
        return Err(SkillError::overloaded(
            "the gateway has too many large requests of this caller, or of all callers: try again later",
        ));
    }
    let ResolvedCall { route, refusal, arguments } = ResolvedCall::resolve(&shard.gateway, call, None).await?;
    let entry = route.entry;
    ready.version.clone_from(&entry.skill.version);
    ready.skill = Some(entry.skill.clone());
    let Preparation { json, repairs, defaults, warnings } =
        if refusal.is_some() { arguments.unwrap_or_default() } else { arguments? };
    (ready.repairs, ready.defaults, ready.warnings) = (repairs, defaults, warnings);
    refusal.map_or(Ok(()), Err)?;
    // The preparation is JSON, and JSON is UTF-8.
    ready.arguments_json = String::from_utf8_lossy(&json).into_owned();
    let secrets = entry.definition.secrets().and_then(|it| it.places(&ready.arguments_json)).unwrap_or_default();
    ready.secret_values_json = secrets.into_iter().map(|place| ready.arguments_json[place].to_owned()).collect();
    Ok(())
}
