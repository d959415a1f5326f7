//! Runs one operation that this gateway claimed.

use std::sync::Arc;
use std::time::Duration;

use openskill_proto::v1::{ErrorCode, OperationRun, RetryRules, SkillError, SkillResult};
use openskill_store::Store;
use openskill_store::engine::StoreError;
use openskill_store::operation::{Claim, End, Operation as StoredOperation, Postponement, State};

use super::detachment::detach;
use super::end::{cancelled_error, failure_result, lost_error, state_name, too_late_error, unreadable_error};
use super::event_log::follow;
use super::stored_call::StoredCall;
use super::{LongRunning, resume};
use crate::call::claim::CallClaim;
use crate::call::principal::REVOKED;
use crate::call::reading;
use crate::call::request::Call;
use crate::dispatch::kept_run::{self, Search};
use crate::gateway::{Gateway, Shard};
use crate::streams;

/// The pause before an operation that could not start is tried again.
const RETRY_MS: (i64, i64) = (200, 30_000);

/// The pause before a run is looked for again that may be at a worker.
const RESUME_MS: i64 = 1000;

/// The maximum length of the reason why an operation waits, in characters.
const MAX_REASON: usize = 500;

/// How often a result is written again while the store fails.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

/// How a claim ends.
enum ClaimEnd {
    /// With this result.
    Finish(Box<SkillResult>),
    /// Try again after a while.
    Postpone(Postponement),
    /// Another gateway has it, or it was given back.
    Drop,
}

/// A claim that a task of this gateway looks after, until this is dropped.
pub(super) struct HeldClaim {
    own: Arc<LongRunning>,
    id: String,
    epoch: i64,
}

impl HeldClaim {
    pub(super) fn new(own: Arc<LongRunning>, id: &str, epoch: i64) -> Self {
        own.claimed.lock().insert((id.to_owned(), epoch));
        Self { own, id: id.to_owned(), epoch }
    }
}

impl Drop for HeldClaim {
    fn drop(&mut self) {
        self.own.running.lock().retain(|it, call| *it != self.id || !call.has_epoch(self.epoch));
        self.own.claimed.lock().remove(&(self.id.clone(), self.epoch));
    }
}

/// Runs an operation, and stores how it ended. Dropping the future cancels the call. Then the claim stays valid until its
/// lease ends.
pub(super) async fn run(shard: Shard, claim: Claim) {
    let own = &shard.gateway.long_running;
    let Ok(store) = own.store() else { return };
    let operation = &claim.operation;
    let held = HeldClaim::new(Arc::clone(own), &operation.id, claim.epoch);
    let next = match decide(&shard, store, &claim).await {
        Ok(next) => next,
        Err(error) => {
            tracing::error!(%error, operation = operation.id, "an operation can't be started now");
            postpone(store, RETRY_MS.0, claim.may_have_run, "the store failed")
        }
    };
    match next {
        ClaimEnd::Finish(result) => complete(&shard, store, &claim, *result).await,
        ClaimEnd::Postpone(until) => {
            own.note_waiting(&operation.principal);
            if let Err(error) = store.postpone(claim.fence(), &until).await {
                tracing::error!(%error, operation = operation.id, "an operation can't be postponed; it waits at once");
            }
        }
        ClaimEnd::Drop => {}
    }
    drop(held);
    own.notify(&operation.id);
}

/// Ends an operation with a result.
pub(super) async fn complete(shard: &Shard, store: &Store, claim: &Claim, mut result: SkillResult) {
    if let Some(error) = result.error.as_mut().filter(|_| claim.may_have_run) {
        // An earlier run may have had an effect.
        error.may_have_run = true;
    }
    let gateway = &shard.gateway;
    let keep = gateway.long_running.keep(&claim.operation);
    if let Some(end) = detach(shard, store, claim, result, keep).await
        && finish(store, claim, &end).await
    {
        gateway.observer.metrics.operations.inc(state_name(end.state));
    }
}

async fn decide(shard: &Shard, store: &Store, claim: &Claim) -> Result<ClaimEnd, StoreError> {
    let (gateway, operation) = (&shard.gateway, &claim.operation);
    let fail = |error| Ok(ClaimEnd::Finish(Box::new(failure_result(operation, error))));
    let Some(stored) = StoredCall::read(&claim.request) else { return fail(unreadable_error()) };
    let run = OperationRun { operation_id: operation.id.clone(), epoch: claim.epoch.cast_unsigned() };
    let cancel_earlier = || {
        if claim.may_have_run {
            kept_run::cancel_everywhere(shard, &run);
        }
    };
    if operation.cancel_requested {
        cancel_earlier();
        return fail(cancelled_error());
    }
    if !claim.may_have_run && store.now_ms() >= operation.start_before_ms {
        return fail(too_late_error());
    }
    let principal = gateway.principal(&operation.principal, &operation.credential);
    if !principal.is_valid() && gateway.registry.as_ref().is_some_and(|it| !it.knows(&operation.credential)) {
        // A token that no request has shown to this gateway since its start.
        let reason = "its token has not been shown to this gateway since it started";
        return Ok(postpone(store, backoff(store, operation, 0), claim.may_have_run, reason));
    }
    if !principal.is_valid() {
        cancel_earlier();
        return fail(SkillError::new(ErrorCode::Unauthenticated, REVOKED));
    }
    let (pool, time) = (&gateway.blocking_pool, gateway.config.default_timeout);
    let context = stored.context(principal);
    let mut call = reading::read(pool, time, stored.call.unwrap_or_default(), context).await;
    call.claim = Some(CallClaim::new(run.clone()));
    let call = Arc::new(call);
    // Whoever waits for a permit holds no turn: others may start.
    let permit = match gateway.try_admit(&call) {
        Ok(permit) => permit,
        Err(refusal) => {
            // A worker keeps an earlier run only for a while.
            let most = if claim.may_have_run { RESUME_MS } else { i64::MAX };
            let pause = backoff(store, operation, 0).min(most);
            return Ok(postpone(store, pause, claim.may_have_run, &SkillError::from(refusal).message));
        }
    };
    gateway.long_running.running.lock().insert(operation.id.clone(), Arc::clone(&call));
    let found = if claim.may_have_run { kept_run::resume(shard, &call).await } else { Search::Absent };
    if matches!(found, Search::Unsure) && gateway.long_running.waits_for_workers(&operation.id) {
        return Ok(postpone(store, RESUME_MS, true, "a worker that may have its run does not answer"));
    }
    let (was_resumed, is_idempotent) = (matches!(found, Search::Found(_)), stored.is_idempotent);
    let result = match found {
        Search::Found(run) => {
            let events = resume::events(shard, Arc::clone(&call), permit, *run, is_idempotent);
            follow(shard, store, claim, &call, events).await
        }
        _ if claim.may_have_run && !is_idempotent => return fail(lost_error()),
        _ => {
            if !store.start(claim.fence()).await? {
                return end_without_start(store, claim).await;
            }
            gateway.long_running.notify(&operation.id);
            follow(shard, store, claim, &call, streams::one(shard.clone(), Arc::clone(&call), permit)).await
        }
    };
    let may_run_again = was_resumed && is_idempotent;
    let pause = result.error.as_ref().and_then(|error| {
        let is_unavailable = error.code() == ErrorCode::Unavailable;
        let waits = may_start_later(error) || (may_run_again && is_unavailable);
        let after_ms = if waits {
            backoff(store, operation, error.retry_after_ms)
        } else {
            retry_after(gateway, &call, operation, error)?
        };
        Some(postpone(store, after_ms, claim.may_have_run || error.may_have_run, &error.message))
    });
    if pause.is_some() {
        // So that the next claim does not get the result of this run again.
        kept_run::cancel_everywhere(shard, &run);
    }
    Ok(pause.unwrap_or_else(|| ClaimEnd::Finish(Box::new(result))))
}

/// `may_have_run`: a worker may still have an earlier run.
fn postpone(store: &Store, after_ms: i64, may_have_run: bool, reason: &str) -> ClaimEnd {
    let reason = reason.chars().filter(|it| !it.is_control()).take(MAX_REASON).collect();
    ClaimEnd::Postpone(Postponement { start_at_ms: store.now_ms() + after_ms, may_have_run, reason })
}

/// Returns the pause before the next run, if the rules of the skill allow one after this error.
fn retry_after(gateway: &Gateway, call: &Call, operation: &StoredOperation, error: &SkillError) -> Option<i64> {
    let skill = &gateway.find_route(call)?.entry.skill;
    let RetryRules { attempts, after_ms, max_after_ms } = skill.retry?;
    let earlier_runs = u32::try_from(operation.runs).ok()?;
    let may_pass = error.code().meaning().retryable && (skill.idempotent || !error.may_have_run);
    if !may_pass || earlier_runs + 1 >= attempts {
        return None;
    }
    let doubled = u64::from(after_ms).saturating_mul(1 << earlier_runs.min(32));
    // Operations that failed together do not come back together.
    let pause = doubled.min(max_after_ms.into()) as f64 * rand::random_range(0.9..1.1);
    i64::try_from((pause as u64).max(error.retry_after_ms)).ok()
}

/// Ends a claim whose skill must not start: the operation was cancelled meanwhile, or another gateway has it.
async fn end_without_start(store: &Store, claim: &Claim) -> Result<ClaimEnd, StoreError> {
    let operation = &claim.operation;
    let latest = store.get(&operation.id).await?.map(|(latest, _)| latest);
    let is_cancelled = latest.is_some_and(|it| it.cancel_requested && it.state == State::Running);
    let cancellation = || ClaimEnd::Finish(Box::new(failure_result(operation, cancelled_error())));
    Ok(if is_cancelled { cancellation() } else { ClaimEnd::Drop })
}

/// Whether a call that did not run should wait: for a worker, for its skill, for its circuit.
fn may_start_later(error: &SkillError) -> bool {
    let may_pass = matches!(
        error.code(),
        ErrorCode::Overloaded
            | ErrorCode::Unavailable
            | ErrorCode::CircuitOpen
            | ErrorCode::RateLimited
            | ErrorCode::NotFound
    );
    // A skill that is gone may come back. Other errors that no retry mends are final.
    let is_final = !error.retryable && error.code() != ErrorCode::NotFound;
    may_pass && !is_final && !error.may_have_run
}

/// Stores the result. Tries until the store has it, or another gateway has the operation.
/// Returns false in the latter case.
async fn finish(store: &Store, claim: &Claim, end: &End) -> bool {
    loop {
        match store.finish(claim.fence(), end).await {
            Ok(is_stored) => return is_stored,
            Err(error) => {
                tracing::error!(%error, operation = claim.operation.id, "the result of an operation can't be stored yet");
                tokio::time::sleep(WRITE_AGAIN).await;
            }
        }
    }
}

/// Waits longer for operations that have waited longer.
fn backoff(store: &Store, operation: &StoredOperation, retry_after_ms: u64) -> i64 {
    let age = store.now_ms() - operation.created_ms.max(operation.start_at_ms);
    let asked = i64::try_from(retry_after_ms).unwrap_or(RETRY_MS.1);
    (age / 4).max(asked).clamp(RETRY_MS.0, RETRY_MS.1)
}
