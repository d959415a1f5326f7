//! Runs a call: finds the skill, prepares the arguments, passes the circuits, dispatches to a worker, returns the
//! result.

use std::pin::pin;
use std::sync::Arc;

use openskill_proto::v1::{SkillError, SkillResult};

use crate::call::events::EventRelay;
use crate::call::outcome::Outcome;
use crate::call::request::Call;
use crate::call::result::{result, result_with_pool};
use crate::dispatch::context::CallContext;
use crate::dispatch::dispatch;
use crate::gateway::Shard;
use crate::observe::call_record::CallRecord;
use crate::prepare::ResolvedCall;
use crate::protect::admission::Permit;
use crate::protect::circuit::guard::CircuitGuard;
use crate::protect::circuit::{CircuitOwner, Session};
use crate::protect::once::once;
use crate::tools::needs;

/// Runs one call to its result. Dropping the future also cancels the call on its worker, unless it has an
/// idempotency key.
pub(crate) async fn invoke(
    shard: &Shard,
    call: Arc<Call>,
    permit: Permit,
    events: Option<EventRelay>,
    record: Arc<CallRecord>,
) -> SkillResult {
    let run = run(shard, &call, permit, events, &record);
    let ended = run.await.inspect_err(|_| shard.gateway.note_skill(&call, &record));
    let outcome = ended.unwrap_or_else(Outcome::from_error);
    record.end(&outcome);
    result_with_pool(&shard.gateway.blocking_pool, call, outcome).await
}

/// Builds the result of a call that was refused a permit.
pub(crate) fn refuse(shard: &Shard, call: &Arc<Call>, error: SkillError) -> SkillResult {
    let outcome = Outcome::from_error(error);
    let record = CallRecord::begin(&shard.gateway.observer, call);
    shard.gateway.note_skill(call, &record);
    record.mark_refused();
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
    let ResolvedCall { route, refusal, arguments } = ResolvedCall::resolve(&shard.gateway, call, Some(record)).await?;
    if let Some(error) = refusal {
        return Ok(Outcome::from_error(error).with_preparation(arguments.unwrap_or_default()));
    }
    let prepared = arguments?;
    let (is_idempotent, has_key) = (route.entry.skill.idempotent, !call.idempotency_key.is_empty());
    let permit = if route.entry.agent.is_some() { permit.without_slot() } else { permit };
    let context = CallContext::new(shard, Arc::clone(call), route, prepared.json.clone(), events, Arc::clone(record));
    let outcome = if !has_key {
        let _permit = permit;
        execute(&context).await
    } else {
        let context = Arc::new(context);
        let shared = Arc::clone(&context);
        let execution = async move { execute(&shared).await };
        Box::pin(once(context, permit, execution)).await.unwrap_or_else(Outcome::from_error)
    };
    Ok(outcome.with_retry_advice(is_idempotent, has_key).with_preparation(prepared))
}

/// Executes the call, unless somebody cancels it by its id. Cancelling drops it, as when its client disconnects.
async fn execute(context: &CallContext) -> Outcome {
    let call = &context.call;
    // Pinned, because the future is large and would be copied.
    let executing = pin!(execute_to_end(context));
    tokio::select! {
        biased;
        outcome = executing => outcome,
        () = call.cancellation.notified() => Outcome::cancelled(call, call.stage.latest_attempt().number > 0),
    }
}

/// Dispatches the call to a worker, if the circuit breakers admit it.
async fn execute_to_end(context: &CallContext) -> Outcome {
    let (call, skill) = (&context.call, &context.entry.skill);
    let session = Session { principal: &call.principal, id: &call.session_id };
    let owner = CircuitOwner { name: context.entry.circuit(), skill };
    match CircuitGuard::admit(&context.shard.gateway.circuits, owner, session, &context.record) {
        Ok(guard) => {
            let outcome = if needs::is_own(skill) { needs::answer(context) } else { dispatch(context).await };
            guard.report(&outcome);
            outcome
        }
        Err(error) => Outcome::from_error(error),
    }
}
