//! What a call would run with, without running it.

use std::sync::Arc;

use openskill_proto::v1::{PreparedCall, SkillError};

use crate::call::preparation::prepared;
use crate::call::request::{Call, granted};
use crate::catalog::lookup::{cannot_run, find};
use crate::gateway::Shard;
use crate::state::limits::{SMALL, SharedLimit};

/// Prepares the arguments of `call` as [`crate::invoke::invoke`] would, and refuses what it would refuse, in the same order.
/// Takes no permit, asks no circuit, records and starts nothing.
pub(crate) async fn prepare(shard: &Shard, call: &Arc<Call>) -> PreparedCall {
    let mut ready = PreparedCall { skill_id: call.skill_id.to_string(), ..PreparedCall::default() };
    if let Err(error) = fill(shard, call, &mut ready).await {
        ready.error = Some(error);
    }
    ready
}

async fn fill(shard: &Shard, call: &Arc<Call>, ready: &mut PreparedCall) -> Result<(), SkillError> {
    call.fault.clone().map_or(Ok(()), Err)?;
    let gateway = &shard.gateway;
    // No permit accounts for the arguments.
    let (mut share, size) = (gateway.share(SharedLimit::Requests, &call.principal), call.input.size());
    if size > SMALL && !share.grow(size) {
        return Err(SkillError::overloaded("the gateway holds too many large requests of this caller, or of all"));
    }
    let entry = find(&gateway.catalog, call, gateway.has_workers())?;
    ready.version.clone_from(&entry.skill.version);
    ready.skill = Some(entry.skill.clone());
    let time = granted(gateway.config.default_timeout, entry.skill.timeout_ms);
    let prepared = prepared(&gateway.aside, call, &entry.definition, time).await;
    cannot_run(&entry).map_or(Ok(()), Err)?;
    let prepared = prepared?;
    // The preparation is JSON, and JSON is UTF-8.
    ready.arguments_json = String::from_utf8_lossy(&prepared.json).into_owned();
    ready.repairs = prepared.repairs;
    let secrets = entry.definition.secrets().and_then(|it| it.places(&ready.arguments_json)).unwrap_or_default();
    ready.secret_values_json = secrets.into_iter().map(|place| ready.arguments_json[place].to_owned()).collect();
    Ok(())
}
