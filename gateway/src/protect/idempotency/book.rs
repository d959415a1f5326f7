//! What is remembered of each key, within bounds that principals share, and the sessions of each. Pure: it receives the time.
//!
//! Forgetting a key early could run a skill twice, so keys are never dropped: who holds its share is refused new ones. Results may
//! be dropped, and then nobody knows how the call ended: of the principal that holds most, the session that holds most loses
//! its oldest.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use openskill_identity::shares::{is_fair, reachable};
use openskill_proto::v1::SkillError;
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::call::outcome::Outcome;
use crate::state::key;
use crate::state::limits::SharedLimit;

/// How many keys are remembered.
pub(super) const MAX_KEYS: usize = SharedLimit::Keys.bound();

/// The results that are kept, in bytes.
pub(super) const MAX_BYTES: usize = SharedLimit::KeyResults.bound();

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
    Principal,
    Session,
}

impl From<Full> for SkillError {
    fn from(full: Full) -> Self {
        Self::overloaded(match full {
            Full::Gateway => "the gateway remembers as many idempotency keys as it can: wait until older ones expire",
            Full::Principal => {
                "this key's principal holds its fair share of idempotency keys: wait until older ones expire, or call \
                 without one"
            }
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
    sessions: HashMap<Arc<str>, Session>,
    /// What each principal holds.
    principals: HashMap<Arc<str>, Principal>,
    /// The principals that hold results, by the size of all of them.
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

/// What a principal holds.
#[derive(Debug, Default)]
struct Principal {
    keys: usize,
    bytes: usize,
    /// Its sessions that hold results, by the size of all of them.
    by_bytes: BTreeSet<(usize, Arc<str>)>,
}

/// What a session holds.
#[derive(Debug, Default)]
struct Session {
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
    /// There are too many keys, in all, of its principal or of its session.
    pub(super) fn begin(&mut self, name: &Name, entry: Entry) -> Result<(), Full> {
        let used = self.entries.len();
        if used >= MAX_KEYS {
            return Err(Full::Gateway);
        }
        let (mut used, mut limit) = (used, MAX_KEYS);
        // Without keys for principals, there is one: it has all.
        if !principal(name).is_empty() {
            let known = self.principals.get(principal(name));
            let (keys, count) = (known.map_or(0, |it| it.keys), self.principals.len() + usize::from(known.is_none()));
            if !is_fair(keys + 1, used, limit, count) {
                return Err(Full::Principal);
            }
            (used, limit) = (keys, reachable(keys, used, limit, count));
        }
        let known = self.sessions.get(session(name));
        let (keys, count) = (known.map_or(0, |it| it.keys), self.sessions.len() + usize::from(known.is_none()));
        if !is_fair(keys + 1, used, limit, count) {
            return Err(Full::Session);
        }
        self.sessions.entry(session(name).into()).or_default().keys += 1;
        self.principals.entry(principal(name).into()).or_default().keys += 1;
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
            self.resize(name, |session| {
                session.bytes += size;
                session.results.push_back(Arc::clone(name));
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

    /// Drops the oldest result of the session that holds most, of the principal that holds most. Its key stays. Whether there
    /// was one.
    fn drop_a_result(&mut self) -> bool {
        let most = self.by_bytes.last().and_then(|(_, principal)| self.principals.get(principal)?.by_bytes.last());
        let oldest = most.and_then(|(_, session)| self.sessions.get(session)?.results.front().cloned());
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
        if let Some(its) = self.sessions.get_mut(session(name)) {
            its.keys -= 1;
            if its.keys == 0 {
                self.sessions.remove(session(name));
            }
        }
        if let Some(its) = self.principals.get_mut(principal(name)) {
            its.keys -= 1;
            if its.keys == 0 {
                self.principals.remove(principal(name));
            }
        }
    }

    /// A result is gone: its session's oldest, as results are dropped and expire in order.
    fn take_result(&mut self, name: &Name, size: usize) {
        self.resize(name, |session| {
            session.bytes -= size;
            session.results.pop_front_if(|it| *it == *name);
        });
    }

    /// Changes the results of the session of a key, and what follows from their size.
    fn resize(&mut self, name: &Name, change: impl FnOnce(&mut Session)) {
        let Some((session, _)) = self.sessions.get_key_value(session(name)) else { return };
        let session = Arc::clone(session);
        let Some((owner, _)) = self.principals.get_key_value(principal(name)) else { return };
        let owner = Arc::clone(owner);
        let (Some(its), Some(all)) = (self.sessions.get_mut(&session), self.principals.get_mut(&owner)) else { return };
        let before = its.bytes;
        change(its);
        let (after, all_before) = (its.bytes, all.bytes);
        all.bytes = all.bytes - before + after;
        self.bytes = self.bytes - before + after;
        place(&mut self.by_bytes, owner, all_before, all.bytes);
        place(&mut all.by_bytes, session, before, after);
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
            && self.ended.is_empty()
            && self.sessions.is_empty()
            && self.principals.is_empty()
            && self.by_bytes.is_empty()
    }
}

/// Puts a holder at its new place. One that holds nothing has none.
fn place(by_bytes: &mut BTreeSet<(usize, Arc<str>)>, holder: Arc<str>, before: usize, after: usize) {
    by_bytes.remove(&(before, Arc::clone(&holder)));
    if after > 0 {
        by_bytes.insert((after, holder));
    }
}

fn principal(name: &str) -> &str {
    let [principal] = key::split(name);
    principal
}

/// The part of a name that is the session's: principal and session.
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
