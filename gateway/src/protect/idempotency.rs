//! Idempotency keys: a second call of a skill with the same key gets the first call's result, or waits for it.
//!
//! A key belongs to a principal, a session and a skill, and to the arguments it was first used with, byte for byte. What
//! is remembered is what may have run: a call that was refused before its skill could start leaves its key unused. Results
//! are kept for a while and within a budget that sessions share; when that is spent, results are dropped and their keys stay,
//! so that nothing runs twice.
//!
//! Keys are this gateway's own. Another gateway, or this one after a restart, does not know them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use openskill_proto::v1::artifact::Content;
use tokio::sync::watch;

use crate::call::outcome::Outcome;
use crate::call::request::Call;
use crate::state::key;

mod book;

use book::{Book, Entry, Name, State};
pub(crate) use book::{Ended, Fingerprint, Full};

/// The keys of one gateway.
#[derive(Debug)]
pub(crate) struct IdempotencyKeys {
    lifetime: Duration,
    book: Mutex<Book>,
}

/// What a key means for a call.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// The key is new: this call runs.
    First(Lease),
    /// The first call runs; the channel tells its end.
    Running(watch::Receiver<Option<Ended>>),
    Over(Ended),
    /// The key was used with other arguments.
    Mismatch,
    /// There are too many keys.
    Full(Full),
}

/// The exclusive right to run the call of a key, and the duty to report how it ended. A lease that is dropped reports that
/// nobody knows.
#[derive(Debug)]
pub(crate) struct Lease {
    keys: Arc<IdempotencyKeys>,
    name: Name,
    sender: watch::Sender<Option<Ended>>,
    ended: Option<Ended>,
}

impl IdempotencyKeys {
    /// Keys are remembered for `lifetime` after their call ended.
    pub(crate) fn new(lifetime: Duration) -> Arc<Self> {
        Arc::new(Self { lifetime, book: Mutex::default() })
    }

    /// Looks up the key of `call`, which runs with these arguments.
    pub(crate) fn look_up(self: &Arc<Self>, call: &Call, arguments: Fingerprint, now: Instant) -> Lookup {
        let names = [call.principal.name(), &call.session_id, &call.skill_id, &call.idempotency_key];
        self.look_up_name(key::join(names).into(), arguments, now)
    }

    fn look_up_name(self: &Arc<Self>, name: Name, fingerprint: Fingerprint, now: Instant) -> Lookup {
        let mut book = self.book();
        book.expire(now);
        match book.get(&name) {
            Some(entry) if entry.fingerprint != fingerprint => return Lookup::Mismatch,
            Some(Entry { state: State::Running(end), .. }) => return Lookup::Running(end.clone()),
            Some(Entry { state: State::Over(ended), .. }) => return Lookup::Over(ended.clone()),
            None => {}
        }
        let (sender, end) = watch::channel(None);
        match book.begin(&name, Entry { fingerprint, state: State::Running(end) }) {
            Ok(()) => Lookup::First(Lease { keys: Arc::clone(self), name, sender, ended: None }),
            Err(full) => Lookup::Full(full),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// Reports how the call ended.
    pub(crate) fn end(mut self, outcome: &Outcome) {
        let mut outcome = outcome.clone();
        // Slices of the buffer it was read into would keep the whole buffer alive.
        outcome.result.data_json = Bytes::copy_from_slice(&outcome.result.data_json);
        for artifact in &mut outcome.result.artifacts {
            if let Some(Content::Data(data)) = &mut artifact.content {
                *data = Bytes::copy_from_slice(data);
            }
        }
        self.ended = Some(if outcome.may_have_run { Ended::With(Arc::new(outcome)) } else { Ended::Refused });
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let ended = self.ended.take().unwrap_or(Ended::Unknown);
        self.keys.book().end(&self.name, &ended, Instant::now() + self.keys.lifetime);
        self.sender.send_replace(Some(ended));
    }
}

#[cfg(test)]
mod tests;
