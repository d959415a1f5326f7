//! Idempotency keys in the store, which gateways share and which survive a restart.
//!
//! The first call with a key at this gateway claims it in the store before its skill can start, and stores its outcome
//! before any caller gets it. While the call runs, [`StoredKeys::renew`] tells other gateways that this one lives. If
//! they hear nothing for [`LEASE`], its calls may have run. No gateway runs them again.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::trace::{hex, random_id};
use openskill_proto::v1::{Blame, SkillError};
use openskill_store::Store;
use openskill_store::engine::StoreError;
use openskill_store::keys::{KeyFence, KeyName, KeyState, KeyUsage, NewKey};
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::Notify;

use super::key_table::{Fingerprint, KeyedOutcome};
use super::stored_outcome::StoredOutcome;
use crate::call::outcome::Outcome;
use crate::call::request::Call;

/// How long a gateway that is gone holds the keys of its calls.
const LEASE: Duration = Duration::from_secs(10);

/// The first and the last pause between two looks at a key that another gateway holds.
const POLL: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// A larger outcome is not stored: after a restart, and at other gateways, it is unknown.
const MAX_OUTCOME_BYTES: usize = 1 << 20;

/// What the keys of all gateways may take in the store. Measured from time to time, so a little more is possible.
const MAX_USAGE: KeyUsage = KeyUsage { keys: 1 << 20, bytes: 1 << 30 };

/// The number of keys whose claim was not confirmed. Further ones count as keys of calls that may have run.
const MAX_UNCONFIRMED: usize = 1000;

/// How many keys the store removes at once, and how often that is repeated in one sweep.
const ROUND: usize = 100;
const MAX_ROUNDS: usize = 50;

/// What this gateway knows about keys in the store.
#[derive(Debug)]
pub(crate) struct StoredKeys {
    /// Identifies this process in leases.
    gateway: String,
    lifetime: Duration,
    /// The tokens of the keys that tasks of this gateway look after.
    held: Mutex<HashSet<String>>,
    /// The tokens of claims that the store did not confirm. Their calls did not run.
    unconfirmed: Mutex<HashSet<String>>,
    /// As measured, and what this gateway has added since.
    usage: Mutex<KeyUsage>,
    /// Notified when a key is claimed, or may be.
    claimed: Notify,
}

/// The result of claiming the key of a call.
#[derive(Debug)]
pub(crate) enum StoredClaim {
    /// The key is new: this call runs.
    First(Box<StoredKey>),
    /// An earlier call ended, here or at another gateway.
    Over(KeyedOutcome),
    /// The key was used before with other arguments, or another version.
    Mismatch,
    /// The call's deadline passed while another gateway ran an earlier one.
    Overdue,
    /// The call was cancelled by its id while another gateway ran an earlier one.
    Cancelled,
}

/// A claim that a task of this gateway looks after, until this is dropped. If its end was not stored by then, the key
/// belongs to a call that may have run.
#[derive(Debug)]
pub(crate) struct StoredKey {
    keys: Arc<StoredKeys>,
    store: Store,
    new: NewKey,
}

impl StoredKeys {
    pub(super) fn new(lifetime: Duration) -> Arc<Self> {
        let (held, unconfirmed, usage) = Default::default();
        Arc::new(Self { gateway: hex(&random_id::<8>()), lifetime, held, unconfirmed, usage, claimed: Notify::new() })
    }

    /// Claims the key of a call, or waits until the call ends that has it, up to `deadline`.
    ///
    /// # Errors
    /// The store failed, or it has too many keys. The call does not run.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        store: &Store,
        call: &Call,
        fingerprint: Fingerprint,
        deadline: Instant,
    ) -> Result<StoredClaim, SkillError> {
        let key = StoredKey::new(self, store, call, fingerprint, deadline);
        let mut pause = POLL.0;
        let mut known = if self.is_full() { key.read().await? } else { None };
        loop {
            let state = match known.take() {
                Some(state) => state,
                None if self.is_full() => return Err(full()),
                None => key.claim().await?,
            };
            match state {
                KeyState::Claimed => return Ok(StoredClaim::First(Box::new(key))),
                KeyState::Ended(bytes) => {
                    let outcome = StoredOutcome::read(&bytes).map(|it| KeyedOutcome::With(Arc::new(it)));
                    return Ok(StoredClaim::Over(outcome.unwrap_or(KeyedOutcome::Unknown)));
                }
                KeyState::Unknown => return Ok(StoredClaim::Over(KeyedOutcome::Unknown)),
                KeyState::Mismatch => return Ok(StoredClaim::Mismatch),
                KeyState::Running => {}
            }
            let next = Instant::now() + pause;
            tokio::select! {
                biased;
                () = call.cancellation.notified() => return Ok(StoredClaim::Cancelled),
                () = tokio::time::sleep_until(next.min(deadline).into()) => {}
            }
            if Instant::now() >= deadline {
                return Ok(StoredClaim::Overdue);
            }
            pause = (2 * pause).min(POLL.1);
            // The other call may have run, so a store that fails is asked again.
            known = key.read().await.unwrap_or(Some(KeyState::Running));
        }
    }

    /// Whether no key has a lease to renew. Then [`Self::wait_for_claim`] completes once one has.
    pub(crate) fn is_idle(&self) -> bool {
        self.held.lock().is_empty() && self.unconfirmed.lock().is_empty()
    }

    /// Waits until a key is claimed.
    pub(crate) async fn wait_for_claim(&self) {
        self.claimed.notified().await;
    }

    /// Extends the leases of all keys whose calls run here. Frees those whose claim was not confirmed. Those whose end was
    /// not confirmed belong to calls that may have run.
    ///
    /// # Errors
    /// The store failed. What was not done is done the next time.
    pub(crate) async fn renew(&self, store: &Store) -> Result<(), StoreError> {
        let unconfirmed = self.unconfirmed.lock().clone();
        for fence in store.renew_keys(&self.gateway, milliseconds(LEASE)).await? {
            if self.held.lock().contains(&fence.token) {
                continue;
            }
            let did_not_run = self.unconfirmed.lock().contains(&fence.token);
            if did_not_run {
                store.release_key(&fence).await?;
            } else {
                store.end_key(&fence, None, milliseconds(self.lifetime)).await?;
            }
        }
        self.unconfirmed.lock().retain(|it| !unconfirmed.contains(it));
        Ok(())
    }

    /// Removes expired keys, and measures the others.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn sweep(&self, store: &Store) -> Result<(), StoreError> {
        for _ in 0..MAX_ROUNDS {
            if store.prune_keys().await? < ROUND {
                break;
            }
        }
        let usage = store.key_usage().await?;
        *self.usage.lock() = usage;
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.usage.lock().keys >= MAX_USAGE.keys
    }

    /// Counts an outcome that is about to be stored. Returns false if there is no room for it.
    fn make_room(&self, bytes: usize) -> bool {
        let mut usage = self.usage.lock();
        let total = usage.bytes.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        let has_room = bytes <= MAX_OUTCOME_BYTES && total <= MAX_USAGE.bytes;
        if has_room {
            usage.bytes = total;
        }
        has_room
    }

    fn note_unconfirmed(&self, token: &str) {
        let mut unconfirmed = self.unconfirmed.lock();
        if unconfirmed.len() < MAX_UNCONFIRMED {
            unconfirmed.insert(token.to_owned());
            self.claimed.notify_one();
        }
    }
}

impl StoredKey {
    fn new(keys: &Arc<StoredKeys>, store: &Store, call: &Call, fingerprint: Fingerprint, deadline: Instant) -> Self {
        let names = [call.principal.name(), &call.session_id, &call.skill_id, &call.idempotency_key];
        let [principal, session_id, skill_id, key] = names.map(str::to_owned);
        let fence = KeyFence { name: KeyName { principal, session_id, skill_id, key }, token: hex(&random_id::<16>()) };
        let longest = deadline.saturating_duration_since(Instant::now()) + LEASE + keys.lifetime;
        let new = NewKey {
            fingerprint: fingerprint.as_bytes().to_vec(),
            gateway: keys.gateway.clone(),
            expires_ms: store.now_ms() + milliseconds(longest),
            fence,
        };
        Self { keys: Arc::clone(keys), store: store.clone(), new }
    }

    async fn claim(&self) -> Result<KeyState, SkillError> {
        let (keys, token) = (&self.keys, &self.new.fence.token);
        // Before the store has it, so that a renewal does not take it for one that was left.
        keys.held.lock().insert(token.clone());
        let claimed = self.store.claim_key(&self.new, milliseconds(LEASE)).await;
        if let Ok(KeyState::Claimed) = claimed {
            keys.usage.lock().keys += 1;
            keys.claimed.notify_one();
            return Ok(KeyState::Claimed);
        }
        if let Err(StoreError::Unknown(_)) = claimed {
            keys.note_unconfirmed(token);
        }
        keys.held.lock().remove(token);
        claimed.map_err(|error| failure(&error))
    }

    async fn read(&self) -> Result<Option<KeyState>, SkillError> {
        self.store.read_key(&self.new).await.map_err(|error| failure(&error))
    }

    /// Stores how the call ended. If that fails, the call may have run, as far as others can know.
    pub(crate) async fn end(self, outcome: &Outcome) {
        let fence = &self.new.fence;
        let ended = if outcome.may_have_run {
            let encoded = StoredOutcome::new(outcome).encode_to_vec();
            let kept = Some(encoded.as_slice()).filter(|it| self.keys.make_room(it.len()));
            self.store.end_key(fence, kept, milliseconds(self.keys.lifetime)).await
        } else {
            self.store.release_key(fence).await.inspect_err(|_| self.keys.note_unconfirmed(&fence.token))
        };
        if let Err(error) = ended {
            tracing::error!(%error, skill_id = fence.name.skill_id, "the end of a call with an idempotency key can't be stored");
        }
    }
}

impl Drop for StoredKey {
    fn drop(&mut self) {
        self.keys.held.lock().remove(&self.new.fence.token);
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
}

fn full() -> SkillError {
    SkillError::overloaded("the store has as many idempotency keys as it can: wait until older ones expire")
}

/// The log has the reason, because it may name files and hosts.
fn failure(error: &StoreError) -> SkillError {
    tracing::error!(%error, "idempotency keys can't be used now");
    let message = "the store of idempotency keys can't be used now, so the call did not run: try again later";
    SkillError::unavailable(message).with_blame(Blame::Gateway)
}

#[cfg(test)]
mod tests;
