//! Checks a call and stores it.

use std::sync::Arc;

use openskill_proto::trace::{hex, random_id};
use openskill_proto::v1::{ErrorCode, InvokeRequest, SkillError, SubmitRequest};
use openskill_store::deliveries::Webhook;
use openskill_store::operation::{NewOperation, State, Submission};
use prost::Message as _;
use prost_types::Timestamp;
use sha2::{Digest as _, Sha256};

use super::end::unreadable_error;
use super::stored_call::StoredCall;
use super::webhooks::Target;
use super::{ID_BYTES, LongRunning, OperationSnapshot, failure, unknown_operation, wrong_state};
use crate::call::principal::Principal;
use crate::call::reading;
use crate::call::request::RequestContext;
use crate::gateway::Shard;
use crate::prepare::prepare;

pub(super) const DAY_MS: i64 = 24 * 3600 * 1000;

/// How far ahead a call may be scheduled.
const MAX_AHEAD_MS: i64 = 366 * DAY_MS;

/// When an operation may start, in milliseconds of the store's time.
struct StartWindow {
    at: i64,
    before: i64,
}

impl LongRunning {
    /// Stores a call, and returns its operation once it is on disk.
    ///
    /// # Errors
    /// The call is invalid, too many operations wait, or the store failed.
    pub(crate) async fn submit(
        &self,
        shard: &Shard,
        request: SubmitRequest,
        context: RequestContext,
    ) -> Result<OperationSnapshot, SkillError> {
        let (store, gateway) = (self.configured_store()?, &shard.gateway);
        let window = StartWindow::read(&request, store.now_ms())?;
        let webhook = self.webhook(&request.webhook)?;
        let request = request.call.ok_or_else(|| invalid("call is missing"))?;
        // An agent's budget ends with its turn.
        let request = InvokeRequest { input_response: None, delegation: None, ..request };
        let (pool, time) = (&gateway.blocking_pool, gateway.config.default_timeout);
        let call = Arc::new(reading::read(pool, time, request.clone(), context).await);
        let prepared = prepare(shard, &call).await;
        let (Some(skill), None) = (prepared.skill, &prepared.error) else {
            return Err(prepared.error.unwrap_or_else(|| invalid("the call can't be prepared")));
        };
        let mut new = NewOperation {
            id: hex(&random_id::<ID_BYTES>()),
            principal: call.principal.name().to_owned(),
            credential: call.principal.credential().to_owned(),
            skill_id: call.skill_id.clone(),
            toolset: skill.toolset,
            destructive: skill.destructive,
            session_id: call.session_id.clone(),
            trace_id: call.trace.id.clone(),
            idempotency_key: Some(call.idempotency_key.clone()).filter(|it| !it.is_empty()),
            fingerprint: fingerprint(&request, webhook.as_ref()),
            request: Vec::new(),
            start_at_ms: window.at,
            start_before_ms: window.before,
            webhook: webhook.map(|target| Webhook {
                host: target.host(),
                url: target.url.into(),
                traceparent: call.trace.context.to_traceparent(),
            }),
        };
        // The store keeps the key. At this gateway, an earlier run would answer a later one.
        let request = InvokeRequest { idempotency_key: String::new(), ..request };
        new.request = StoredCall::new(request, &call.trace, skill.idempotent).encode_to_vec();
        let submission = match self.make_room(&call.principal) {
            Ok(()) => store.submit(&new).await.map_err(failure)?,
            // One that is stored needs no room.
            Err(refusal) => store.find_key(&new).await.map_err(failure)?.ok_or(refusal)?,
        };
        match submission {
            Submission::Stored => self.submitted.notify_one(),
            Submission::Known(id) => new.id = id,
            Submission::KeyMismatch => {
                return Err(invalid(
                    "this idempotency_key was used with a different call: use a new key for a new call",
                ));
            }
        }
        // The operation is stored, whatever happens here.
        let stored = self.get(&call.principal, &new.id).await;
        stored.map_err(|error| SkillError { may_have_run: true, ..error })
    }

    /// Submits the call of a failed or cancelled operation again, as a new operation.
    ///
    /// # Errors
    /// It does not exist for this principal, succeeded or has not ended, or its call can't be submitted.
    pub(crate) async fn retry(
        &self,
        shard: &Shard,
        name: &str,
        context: RequestContext,
    ) -> Result<OperationSnapshot, SkillError> {
        let (operation, _) = self.find(&context.principal, name).await?;
        match operation.state {
            State::Failed | State::Cancelled => {}
            State::Succeeded => return Err(wrong_state("succeeded: submit its call if it should run once more")),
            _ => return Err(wrong_state("has not ended")),
        }
        let stored = self.store()?.request(&operation.id).await.map_err(failure)?.ok_or_else(unknown_operation)?;
        let delivery = self.store()?.delivery(&operation.id).await.map_err(failure)?;
        // That of another principal is not told of this one.
        let own = delivery.filter(|_| operation.principal == context.principal.name());
        let webhook = own.map(|it| it.url).unwrap_or_default();
        let again = StoredCall::read(&stored).ok_or_else(unreadable_error)?.again();
        let again = SubmitRequest { webhook, ..again };
        self.submit(shard, again, context).await
    }

    /// Checks the webhook of a request. None if it has none.
    ///
    /// # Errors
    /// The gateway sends no webhooks, or none to this URL.
    fn webhook(&self, url: &str) -> Result<Option<Target>, SkillError> {
        if url.is_empty() {
            return Ok(None);
        }
        let config = self.config.webhooks.as_ref().ok_or_else(|| {
            let message = "this gateway sends no webhooks: set OPENSKILL_WEBHOOK_SECRET";
            SkillError::new(ErrorCode::FailedPrecondition, message)
        })?;
        config.target(url).map(Some).map_err(|reason| invalid(&reason))
    }

    /// Counts one more operation that waits.
    ///
    /// # Errors
    /// Too many wait, of this principal or of all.
    fn make_room(&self, principal: &Principal) -> Result<(), SkillError> {
        let mut waiting = self.waiting.lock();
        let (all, most) = (waiting.values().sum::<usize>(), self.config.max_waiting);
        // With keys, one principal leaves room for others.
        let share = if principal.sees_all() { most } else { most.div_ceil(2) };
        let own = waiting.entry(principal.name().to_owned()).or_default();
        if all >= most || *own >= share {
            let message =
                "too many operations wait: submit again when some have ended, or raise OPENSKILL_OPERATIONS_MAX";
            return Err(SkillError::overloaded(message));
        }
        *own += 1;
        Ok(())
    }
}

impl StartWindow {
    fn read(request: &SubmitRequest, now: i64) -> Result<Self, SkillError> {
        let at = request.start_at.as_ref().map_or(Ok(now), milliseconds)?;
        if at > now + MAX_AHEAD_MS {
            return Err(invalid("start_at is more than a year ahead"));
        }
        let before = request.start_before.as_ref().map_or(Ok(at.max(now) + DAY_MS), milliseconds)?;
        if before <= at.max(now) {
            return Err(invalid("start_before must be in the future, and after start_at"));
        }
        Ok(Self { at, before: before.min(now + 2 * MAX_AHEAD_MS) })
    }
}

fn milliseconds(time: &Timestamp) -> Result<i64, SkillError> {
    let nanos = u32::try_from(time.nanos).ok().filter(|it| *it < 1_000_000_000);
    let ms =
        time.seconds.checked_mul(1000).zip(nanos).map(|(ms, nanos)| ms.saturating_add(i64::from(nanos) / 1_000_000));
    ms.filter(|it| *it >= 0)
        .ok_or_else(|| invalid("a time is not valid: it must be after 1970, with 0 to 999999999 nanos"))
}

/// Tells calls with the same key apart. Ids of single requests don't matter.
fn fingerprint(request: &InvokeRequest, webhook: Option<&Target>) -> Vec<u8> {
    let same = InvokeRequest { call_id: String::new(), ..request.clone() };
    let hash = Sha256::new_with_prefix(same.encode_to_vec());
    hash.chain_update(webhook.map_or("", |it| it.url.as_str())).finalize().to_vec()
}

fn invalid(message: &str) -> SkillError {
    SkillError::new(ErrorCode::InvalidArgument, message)
}
