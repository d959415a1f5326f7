//! Runs one operation that this gateway claimed.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{Stream, StreamExt as _};
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{Blame, ErrorCode, InvokeEvent, OperationRun, RetryRules, SkillError, SkillResult};
use openskill_store::engine::StoreError;
use openskill_store::operation::{Claim, End, Operation as StoredOperation, State, StoredEvent};
use openskill_store::{Store, now_ms};
use prost::Message as _;
use tokio::time::Instant;

use super::end::{cancelled_error, end, failed, lost, state_name, too_late, unreadable};
use super::resume;
use super::stored_call::StoredCall;
use crate::call::claim::CallClaim;
use crate::call::outcome::Outcome;
use crate::call::principal::REVOKED;
use crate::call::reading;
use crate::call::request::Call;
use crate::call::result::result;
use crate::dispatch::kept_run;
use crate::gateway::{Gateway, Shard};
use crate::streams;

/// Events are stored together that come within this time, up to this number.
const BATCH_TIME: Duration = Duration::from_millis(50);
const BATCH: usize = 64;

/// The number and the size of an operation's events that are stored. Later ones are dropped, except for the result.
const MAX_EVENTS: i64 = 10_000;
const MAX_EVENT_BYTES: usize = 8 << 20;

/// The pause before an operation that could not start is tried again.
const RETRY_MS: (i64, i64) = (200, 30_000);

/// The pause before a run is looked for again that may be at a worker.
const RESUME_MS: i64 = 1000;

/// How often a result is written again while the store fails.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

/// How a claim ends.
enum ClaimEnd {
    /// With this result.
    Finish(Box<SkillResult>),
    /// Try again after a while. `may_have_run`: a worker may still have an earlier run.
    Postpone { after_ms: i64, may_have_run: bool },
    /// Another gateway has it, or it was given back.
    Drop,
}

/// Runs an operation, and stores how it ended. Dropping the future cancels the call. Then the claim stays valid until its
/// lease ends.
pub(super) async fn run(shard: Shard, claim: Claim) {
    let own = &shard.gateway.long_running;
    let Ok(store) = own.store() else { return };
    let operation = &claim.operation;
    let next = match decide(&shard, store, &claim).await {
        Ok(next) => next,
        Err(error) => {
            tracing::error!(%error, operation = operation.id, "an operation can't be started now");
            ClaimEnd::Postpone { after_ms: RETRY_MS.0, may_have_run: claim.may_have_run }
        }
    };
    match next {
        ClaimEnd::Finish(mut result) => {
            if let Some(error) = result.error.as_mut().filter(|_| claim.may_have_run) {
                // An earlier run may have had an effect.
                error.may_have_run = true;
            }
            let end = end(&result, own.config.keep);
            finish(store, &claim, &end).await;
            shard.gateway.observer.metrics.operations.inc(state_name(end.state));
        }
        ClaimEnd::Postpone { after_ms, may_have_run } => {
            if let Err(error) = store.postpone(claim.fence(), now_ms() + after_ms, may_have_run).await {
                tracing::error!(%error, operation = operation.id, "an operation can't be postponed; it waits at once");
            }
        }
        ClaimEnd::Drop => {}
    }
    own.running.lock().remove(&operation.id);
    own.claimed.lock().remove(&operation.id);
    own.notify(&operation.id);
}

async fn decide(shard: &Shard, store: &Store, claim: &Claim) -> Result<ClaimEnd, StoreError> {
    let (gateway, operation) = (&shard.gateway, &claim.operation);
    let fail = |error| Ok(ClaimEnd::Finish(Box::new(failed(operation, error))));
    let Some(stored) = StoredCall::read(&claim.request) else { return fail(unreadable()) };
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
    if operation.runs == 0 && now_ms() >= operation.start_before_ms {
        return fail(too_late());
    }
    let principal = gateway.principal(&operation.principal, &operation.credential);
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
    let Ok(permit) = gateway.try_admit(&call) else {
        // A worker keeps an earlier run only for a while.
        let most = if claim.may_have_run { RESUME_MS } else { i64::MAX };
        let after_ms = backoff(operation, 0).min(most);
        return Ok(ClaimEnd::Postpone { after_ms, may_have_run: claim.may_have_run });
    };
    gateway.long_running.running.lock().insert(operation.id.clone(), Arc::clone(&call));
    let resumed = if claim.may_have_run { kept_run::resume(shard, &call).await } else { None };
    let (was_resumed, is_idempotent) = (resumed.is_some(), stored.is_idempotent);
    let result = match resumed {
        Some(run) => {
            let events = resume::events(shard, Arc::clone(&call), permit, run, is_idempotent);
            follow(shard, store, claim, &call, events).await
        }
        None if claim.may_have_run && !is_idempotent => return fail(lost()),
        None => {
            if !store.start(claim.fence()).await? {
                return refused(store, claim).await;
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
            backoff(operation, error.retry_after_ms)
        } else {
            retry_after(gateway, &call, operation, error)?
        };
        Some(ClaimEnd::Postpone { after_ms, may_have_run: claim.may_have_run || error.may_have_run })
    });
    if pause.is_some() {
        // So that the next claim does not get the result of this run again.
        kept_run::cancel_everywhere(shard, &run);
    }
    Ok(pause.unwrap_or_else(|| ClaimEnd::Finish(Box::new(result))))
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

/// What becomes of an operation whose skill must not start: it was cancelled meanwhile, or another gateway has it.
async fn refused(store: &Store, claim: &Claim) -> Result<ClaimEnd, StoreError> {
    let operation = &claim.operation;
    let latest = store.get(&operation.id).await?.map(|(latest, _)| latest);
    let is_cancelled = latest.is_some_and(|it| it.cancel_requested && it.state == State::Running);
    Ok(if is_cancelled { ClaimEnd::Finish(Box::new(failed(operation, cancelled_error()))) } else { ClaimEnd::Drop })
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
    may_pass && !error.may_have_run
}

/// Stores the events of a run as they come, and returns its result.
async fn follow(
    shard: &Shard,
    store: &Store,
    claim: &Claim,
    call: &Call,
    events: impl Stream<Item = Result<InvokeEvent, SkillError>>,
) -> SkillResult {
    let mut events = pin!(events);
    let (mut batch, mut number, mut bytes) = (Vec::new(), claim.last_event, 0);
    let mut flush_at = Instant::now() + BATCH_TIME;
    let error = loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = tokio::time::sleep_until(flush_at), if !batch.is_empty() => {
                append(shard, store, claim, std::mem::take(&mut batch)).await;
                continue;
            }
        };
        match event {
            Some(Ok(InvokeEvent { event: Some(Event::Result(result)), .. })) => {
                append(shard, store, claim, batch).await;
                return result;
            }
            Some(Ok(event)) if number < MAX_EVENTS && bytes < MAX_EVENT_BYTES => {
                number += 1;
                let event = event.encode_to_vec();
                bytes += event.len();
                if batch.is_empty() {
                    flush_at = Instant::now() + BATCH_TIME;
                }
                batch.push(StoredEvent { number, event });
                if batch.len() >= BATCH {
                    append(shard, store, claim, std::mem::take(&mut batch)).await;
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => break error,
            None => break SkillError::new(ErrorCode::Internal, "the call ended without a result"),
        }
    };
    // The call was started, so the skill may have run.
    let outcome = Outcome { may_have_run: true, ..Outcome::from_error(error.with_blame(Blame::Gateway)) };
    result(call, outcome.with_retry_advice(false, false))
}

/// Stores events. Those that can't be stored are lost: they are only progress.
async fn append(shard: &Shard, store: &Store, claim: &Claim, events: Vec<StoredEvent>) {
    if events.is_empty() {
        return;
    }
    if let Err(error) = store.append(claim.fence(), events).await {
        tracing::warn!(%error, operation = claim.operation.id, "events of an operation can't be stored");
    }
    shard.gateway.long_running.notify(&claim.operation.id);
}

/// Stores the result. Tries until the store has it, or another gateway has the operation.
async fn finish(store: &Store, claim: &Claim, end: &End) {
    while let Err(error) = store.finish(claim.fence(), end).await {
        tracing::error!(%error, operation = claim.operation.id, "the result of an operation can't be stored yet");
        tokio::time::sleep(WRITE_AGAIN).await;
    }
}

/// Waits longer for operations that have waited longer.
fn backoff(operation: &StoredOperation, retry_after_ms: u64) -> i64 {
    let age = now_ms() - operation.created_ms.max(operation.start_at_ms);
    let asked = i64::try_from(retry_after_ms).unwrap_or(RETRY_MS.1);
    (age / 4).max(asked).clamp(RETRY_MS.0, RETRY_MS.1)
}

fn cancelled_error() -> SkillError {
    SkillError::new(ErrorCode::Cancelled, "the operation was cancelled")
}

fn too_late() -> SkillError {
    SkillError::new(ErrorCode::Timeout, "the operation could not start in time: start_before has passed")
}

/// The skill may have run, and nobody knows how it ended.
pub(super) fn lost() -> SkillError {
    let message = "the gateway or the worker was lost while the skill ran, so it may have run: check its effect before you \
                   submit it again";
    let error = SkillError::new(ErrorCode::Unavailable, message).with_blame(Blame::Gateway);
    SkillError { may_have_run: true, retryable: false, retry_after_ms: 0, ..error }
}
