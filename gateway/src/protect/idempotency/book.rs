//! What is remembered of each key, within bounds that sessions share. Pure: it receives the time.
//!
//! Forgetting a key early could run a skill twice, so keys are never dropped: a session that holds its share is refused new
//! ones. Results may be dropped, and then nobody knows how the call ended: the session that holds most loses its oldest.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use openskill_identity::shares::is_fair;
use openskill_proto::v1::SkillError;
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::call::outcome::Outcome;
use crate::state::key;

/// How many keys are remembered.
pub(super) const MAX_KEYS: usize = 64 * 1024;

/// The results that are kept, in bytes.
pub(super) const MAX_BYTES: usize = 64 * 1024 * 1024;

/// The principal, session, skill and idempotency key of a call, as one name.
pub(super) type Name = Arc<str>;

/// What tells the arguments of two calls apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(crate) fn of(arguments: &[u8]) -> Self {
        Self(Sha256::digest(arguments).into())
    }
}

/// How the first call with a key ended.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    With(Arc<Outcome>),
    /// It may have run, and its result is not known.
    Unknown,
    /// It was refused before its skill could start: the next call is the first.
    Refused,
}

/// Whose keys are too many. Keys are released some time after their calls ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Gateway,
    Session,
}

impl From<Full> for SkillError {
    fn from(full: Full) -> Self {
        Self::overloaded(match full {
            Full::Gateway => "the gateway remembers as many idempotency keys as it can: wait until older ones expire",
            Full::Session => {
                "this session holds its fair share of idempotency keys: wait until older ones expire, or call without one"
            }
        })
    }
}

/// The keys of a gateway.
#[derive(Debug, Default)]
pub(super) struct Book {
    entries: HashMap<Name, Entry>,
    /// The keys whose calls ended, oldest first, with the end of their lifetime.
    ended: VecDeque<(Instant, Name)>,
    /// What each session holds.
    holders: HashMap<Arc<str>, Holder>,
    /// The sessions that hold results, by the size of all of them.
    by_bytes: BTreeSet<(usize, Arc<str>)>,
    /// The size of all results that are kept.
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) fingerprint: Fingerprint,
    pub(super) state: State,
}

#[derive(Debug, Clone)]
pub(super) enum State {
    Running(watch::Receiver<Option<Ended>>),
    Over(Ended),
}

/// What a session holds.
#[derive(Debug, Default)]
struct Holder {
    keys: usize,
    bytes: usize,
    /// Its keys whose results are kept, oldest first.
    results: VecDeque<Name>,
}

impl Book {
    pub(super) fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// Remembers a key whose call begins.
    ///
    /// # Errors
    /// There are too many keys, in all or of its session.
    pub(super) fn begin(&mut self, name: &Name, entry: Entry) -> Result<(), Full> {
        let used = self.entries.len();
        if used >= MAX_KEYS {
            return Err(Full::Gateway);
        }
        let known = self.holders.get(session(name));
        let (keys, sessions) = (known.map_or(0, |it| it.keys), self.holders.len() + usize::from(known.is_none()));
        if !is_fair(keys + 1, used, MAX_KEYS, sessions) {
            return Err(Full::Session);
        }
        self.holders.entry(session(name).into()).or_default().keys += 1;
        self.entries.insert(Arc::clone(name), entry);
        Ok(())
    }

    /// Remembers how a call ended, or forgets its key if it did not run.
    pub(super) fn end(&mut self, name: &Name, ended: &Ended, until: Instant) {
        if matches!(ended, Ended::Refused) {
            return self.remove(name);
        }
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.state = State::Over(ended.clone());
        self.ended.push_back((until, Arc::clone(name)));
        let size = entry.state.size();
        if size > 0 {
            self.resize(session(name), |holder| {
                holder.bytes += size;
                holder.results.push_back(Arc::clone(name));
            });
        }
        while self.bytes > MAX_BYTES && self.drop_a_result() {}
    }

    /// Removes the keys whose lifetime is over.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((_, name)) = self.ended.pop_front_if(|(until, _)| *until <= now) {
            self.remove(&name);
        }
    }

    /// Drops the oldest result of the session that holds most. Its key stays. Whether there was one.
    fn drop_a_result(&mut self) -> bool {
        let most = self.by_bytes.last().map(|(_, session)| Arc::clone(session));
        let oldest = most.and_then(|session| self.holders.get(&session)?.results.front().cloned());
        let Some(name) = oldest else { return false };
        if let Some(entry) = self.entries.get_mut(&name) {
            let before = std::mem::replace(&mut entry.state, State::Over(Ended::Unknown));
            self.take_result(&name, before.size());
        }
        true
    }

    fn remove(&mut self, name: &Name) {
        let Some(entry) = self.entries.remove(name) else { return };
        if entry.state.size() > 0 {
            self.take_result(name, entry.state.size());
        }
        if let Some(holder) = self.holders.get_mut(session(name)) {
            holder.keys -= 1;
            if holder.keys == 0 {
                self.holders.remove(session(name));
            }
        }
    }

    /// A result is gone: its session's oldest, as results are dropped and expire in order.
    fn take_result(&mut self, name: &Name, size: usize) {
        self.resize(session(name), |holder| {
            holder.bytes -= size;
            holder.results.pop_front_if(|it| *it == *name);
        });
    }

    /// Changes the results of a session, and what follows from their size.
    fn resize(&mut self, session: &str, change: impl FnOnce(&mut Holder)) {
        let Some(session) = self.holders.get_key_value(session).map(|(name, _)| Arc::clone(name)) else { return };
        let Some(holder) = self.holders.get_mut(&session) else { return };
        let before = holder.bytes;
        change(holder);
        let after = holder.bytes;
        self.bytes = self.bytes - before + after;
        self.by_bytes.remove(&(before, Arc::clone(&session)));
        if after > 0 {
            self.by_bytes.insert((after, session));
        }
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.ended.is_empty() && self.holders.is_empty() && self.by_bytes.is_empty()
    }
}

/// The part of a name that shares are counted by: principal and session.
fn session(name: &str) -> &str {
    let [principal, session] = key::split(name);
    &name[..principal.len() + 1 + session.len()]
}

impl State {
    fn size(&self) -> usize {
        match self {
            Self::Over(Ended::With(outcome)) => outcome.result.encoded_len(),
            Self::Over(Ended::Unknown | Ended::Refused) | Self::Running(_) => 0,
        }
    }
}
