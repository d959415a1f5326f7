//! The story of a call: find the skill, prepare the arguments, pass the circuits, dispatch to a worker, return the result.

use std::sync::Arc;

use openskill_proto::v1::{SkillError, SkillResult};

use crate::call::events::EventRelay;
use crate::call::outcome::Outcome;
use crate::call::preparation::prepared;
use crate::call::request::{Call, granted};
use crate::call::result::{result, returned};
use crate::catalog::lookup::{cannot_run, find};
use crate::dispatch::context::CallContext;
use crate::dispatch::dispatch;
use crate::gateway::Shard;
use crate::observe::call_record::CallRecord;
use crate::protect::admission::Permit;
use crate::protect::circuit::Session;
use crate::protect::circuit::guard::CircuitGuard;
use crate::protect::once::once;
use crate::tools::needs;

/// Runs one call to its result. Dropping the future cancels the call on its worker too, unless it has an idempotency key.
pub(crate) async fn invoke(
    shard: &Shard,
    call: Arc<Call>,
    permit: Permit,
    events: Option<EventRelay>,
    record: Arc<CallRecord>,
) -> SkillResult {
    let run = run(shard, &call, permit, events, &record);
    let ended = run.await.inspect_err(|_| shard.gateway.note_skill(&call, &record));
    let outcome = ended.unwrap_or_else(Outcome::failed);
    record.end(&outcome);
    returned(&shard.gateway.aside, call, outcome).await
}

/// The result of a call that got no permit.
pub(crate) fn refuse(shard: &Shard, call: &Arc<Call>, error: SkillError) -> SkillResult {
    let outcome = Outcome::failed(error);
    let record = CallRecord::begin(&shard.gateway.observer, call);
    shard.gateway.note_skill(call, &record);
    record.refused();
    record.end(&outcome);
    result(call, outcome)
}

async fn run(
    shard: &Shard,
    call: &Arc<Call>,
    permit: Permit,
    events: Option<EventRelay>,
    record: &Arc<CallRecord>,
) -> Result<Outcome, SkillError> {
    call.fault.clone().map_or(Ok(()), Err)?;
    let gateway = &shard.gateway;
    let entry = find(&gateway.catalog, call, gateway.has_workers())?;
    record.found_skill(&entry.series);
    record.found_secrets(entry.definition.secrets());
    let time = granted(gateway.config.default_timeout, entry.skill.timeout_ms);
    let prepared = prepared(&gateway.aside, call, &entry.definition, time)
        .await
        .inspect(|prepared| record.arguments_prepared(prepared))
        .inspect_err(|_| record.arguments_rejected());
    if let Some(error) = cannot_run(&entry) {
        return Ok(Outcome::failed(error).with(prepared.unwrap_or_default()));
    }
    let prepared = prepared?;
    let (is_idempotent, has_key) = (entry.skill.idempotent, !call.idempotency_key.is_empty());
    let ways_out = (events, Arc::clone(record));
    let permit = if entry.agent.is_some() { permit.of_agent() } else { permit };
    let context = CallContext::new(shard, Arc::clone(call), entry, prepared.json.clone(), ways_out);
    let outcome = if !has_key {
        let _permit = permit;
        execute(&context).await
    } else {
        let context = Arc::new(context);
        let shared = Arc::clone(&context);
        let execution = async move { execute(&shared).await };
        Box::pin(once(context, permit, execution)).await.unwrap_or_else(Outcome::failed)
    };
    Ok(outcome.advising(is_idempotent, has_key).with(prepared))
}

/// Brings the call to a worker, if the circuits admit it.
async fn execute(context: &CallContext) -> Outcome {
    let (call, skill) = (&context.call, &context.entry.skill);
    let session = Session { principal: &call.principal, id: &call.session_id };
    match CircuitGuard::admit(&context.shard.gateway.circuits, skill, session, &context.record) {
        Ok(guard) => {
            let outcome = if needs::is_own(skill) { needs::answer(context) } else { dispatch(context).await };
            guard.report(&outcome);
            outcome
        }
        Err(error) => Outcome::failed(error),
    }
}
