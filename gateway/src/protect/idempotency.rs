//! Idempotency keys: a second call of a skill with the same key gets the first call's result, or waits for it.
//!
//! A key belongs to a principal, a session and a skill, and to what it was first used with: the version that the caller
//! named, if any, and the arguments, byte for byte.
//! Only calls that may have run are remembered: a call that was refused before its skill could start leaves its key
//! unused. Results are kept for a configured time, within a budget that sessions share. When the budget is spent,
//! results are dropped but their keys stay, so that no call runs twice.
//!
//! Keys are in the memory of this process. If the gateway has a store, the first call with a key here claims the key in
//! the store too, so that all gateways know it, and a restart does not forget it.
//!
//! - `key_table`: the keys in memory
//! - [`stored_keys`]: those in the store; `stored_outcome`: how their calls ended

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use openskill_proto::v1::artifact::Content;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::call::outcome::Outcome;
use crate::call::request::Call;
use crate::state::key;

mod key_table;
pub(crate) mod stored_keys;
mod stored_outcome;

pub(crate) use key_table::{Fingerprint, Full, KeyedOutcome};
use key_table::{KeyEntry, KeyState, KeyTable, Name};
use stored_keys::StoredKeys;

/// All idempotency keys of one gateway.
#[derive(Debug)]
pub(crate) struct IdempotencyKeys {
    lifetime: Duration,
    table: Mutex<KeyTable>,
    /// The keys of this gateway's calls in the store, if it has one.
    pub(crate) stored: Arc<StoredKeys>,
}

/// The result of looking up a call's key.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// The key is new: this call runs.
    First(Lease),
    /// The first call is still running. The channel reports its outcome.
    Running(watch::Receiver<Option<KeyedOutcome>>),
    Over(KeyedOutcome),
    /// The key was used before with other arguments, or another version.
    Mismatch,
    /// The gateway, the principal or the session has too many keys.
    Full(Full),
}

/// The exclusive right to run the call of a key at this gateway. The owner must report how the call ended: dropping the
/// lease reports an unknown outcome.
#[derive(Debug)]
pub(crate) struct Lease {
    keys: Arc<IdempotencyKeys>,
    name: Name,
    sender: watch::Sender<Option<KeyedOutcome>>,
    ended: Option<KeyedOutcome>,
    /// Whether the key is remembered here after the end.
    is_kept: bool,
}

impl IdempotencyKeys {
    /// Keeps each key for `lifetime` after its call ended.
    pub(crate) fn new(lifetime: Duration) -> Arc<Self> {
        Arc::new(Self { lifetime, table: Mutex::default(), stored: StoredKeys::new(lifetime) })
    }

    /// Looks up the key of `call`. `fingerprint` is of what its caller sent.
    pub(crate) fn look_up(self: &Arc<Self>, call: &Call, fingerprint: Fingerprint, now: Instant) -> Lookup {
        let names = [call.principal.name(), &call.session_id, &call.skill_id, &call.idempotency_key];
        self.look_up_name(key::join(names).into(), fingerprint, now)
    }

    fn look_up_name(self: &Arc<Self>, name: Name, fingerprint: Fingerprint, now: Instant) -> Lookup {
        let mut table = self.table.lock();
        table.expire(now);
        match table.get(&name) {
            Some(entry) if entry.fingerprint != fingerprint => return Lookup::Mismatch,
            Some(KeyEntry { state: KeyState::Running(end), .. }) => return Lookup::Running(end.clone()),
            Some(KeyEntry { state: KeyState::Over(ended), .. }) => return Lookup::Over(ended.clone()),
            None => {}
        }
        let (sender, end) = watch::channel(None);
        match table.begin(&name, KeyEntry { fingerprint, state: KeyState::Running(end) }) {
            Ok(()) => Lookup::First(Lease { keys: Arc::clone(self), name, sender, ended: None, is_kept: true }),
            Err(full) => Lookup::Full(full),
        }
    }
}

impl Lease {
    /// Reports how the call ended.
    pub(crate) fn end(mut self, outcome: &Outcome) {
        let mut outcome = outcome.clone();
        // Copy: a slice would keep the whole read buffer alive.
        outcome.result.data_json = Bytes::copy_from_slice(&outcome.result.data_json);
        for artifact in &mut outcome.result.artifacts {
            if let Some(Content::Data(data)) = &mut artifact.content {
                *data = Bytes::copy_from_slice(data);
            }
        }
        self.ended =
            Some(if outcome.may_have_run { KeyedOutcome::With(Arc::new(outcome)) } else { KeyedOutcome::Refused });
    }

    /// Reports how an earlier call with the key ended, which the store remembers.
    pub(crate) fn pass_on(mut self, ended: KeyedOutcome) {
        (self.ended, self.is_kept) = (Some(ended), false);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let ended = self.ended.take().unwrap_or(KeyedOutcome::Unknown);
        let remembered = if self.is_kept { &ended } else { &KeyedOutcome::Refused };
        self.keys.table.lock().end(&self.name, remembered, Instant::now() + self.keys.lifetime);
        self.sender.send_replace(Some(ended));
    }
}

#[cfg(test)]
mod tests;
