//! The state of each idempotency key, within limits that principals and their sessions share. Pure: the caller
//! passes the time.
//!
//! Forgetting a key early could run a skill twice, so keys are never dropped early: a principal or session that has
//! used up its share gets no new ones. Results may be dropped, and the call's outcome is unknown from then on. The
//! oldest result of the largest session of the largest principal goes first.

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

/// The maximum number of remembered keys.
pub(super) const MAX_KEYS: usize = SharedLimit::Keys.bound();

/// The maximum total size of the kept results, in bytes.
pub(super) const MAX_BYTES: usize = SharedLimit::KeyResults.bound();

/// The principal, session, skill and idempotency key of a call, as one string.
pub(super) type Name = Arc<str>;

/// A hash that tells whether two calls have the same arguments, and name the same version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// `version` is what the caller named, which stays the same in a retry after a rollback.
    pub(crate) fn new(version: &str, arguments: &[u8]) -> Self {
        // A version contains no control characters.
        let named = Sha256::new().chain_update(version).chain_update([0]);
        Self(named.chain_update(arguments).finalize().into())
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// How the first call with a key ended.
#[derive(Debug, Clone)]
pub(crate) enum KeyedOutcome {
    With(Arc<Outcome>),
    /// The call may have run, but its result is unknown.
    Unknown,
    /// The call was refused before its skill could start, so the next call counts as the first.
    Refused,
}

/// Who has too many keys. A key is released some time after its call ended.
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

/// All keys of a gateway.
#[derive(Debug, Default)]
pub(super) struct KeyTable {
    entries: HashMap<Name, KeyEntry>,
    /// The keys whose calls ended, oldest first, with the time at which each expires.
    ended: VecDeque<(Instant, Name)>,
    /// What each session uses.
    sessions: HashMap<Arc<str>, SessionUsage>,
    /// What each principal uses.
    principals: HashMap<Arc<str>, PrincipalUsage>,
    /// The principals that have results, ordered by their total size.
    by_bytes: BTreeSet<(usize, Arc<str>)>,
    /// The total size of the kept results.
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct KeyEntry {
    pub(super) fingerprint: Fingerprint,
    pub(super) state: KeyState,
}

#[derive(Debug, Clone)]
pub(super) enum KeyState {
    Running(watch::Receiver<Option<KeyedOutcome>>),
    Over(KeyedOutcome),
}

/// What one principal uses.
#[derive(Debug, Default)]
struct PrincipalUsage {
    keys: usize,
    bytes: usize,
    /// Its sessions that have results, ordered by their total size.
    by_bytes: BTreeSet<(usize, Arc<str>)>,
}

/// What one session uses.
#[derive(Debug, Default)]
struct SessionUsage {
    keys: usize,
    bytes: usize,
    /// Its keys whose results are kept, oldest first.
    results: VecDeque<Name>,
}

impl KeyTable {
    pub(super) fn get(&self, name: &str) -> Option<&KeyEntry> {
        self.entries.get(name)
    }

    /// Remembers a key whose call begins.
    ///
    /// # Errors
    /// The gateway, the principal or the session has too many keys.
    pub(super) fn begin(&mut self, name: &Name, entry: KeyEntry) -> Result<(), Full> {
        let used = self.entries.len();
        if used >= MAX_KEYS {
            return Err(Full::Gateway);
        }
        let (mut used, mut limit) = (used, MAX_KEYS);
        // Only identified principals are limited: the anonymous principal may use all keys.
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

    /// Remembers how a call ended, or forgets the key if the call did not run.
    pub(super) fn end(&mut self, name: &Name, ended: &KeyedOutcome, until: Instant) {
        if matches!(ended, KeyedOutcome::Refused) {
            return self.remove(name);
        }
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.state = KeyState::Over(ended.clone());
        self.ended.push_back((until, Arc::clone(name)));
        let size = entry.state.size();
        if size > 0 {
            self.resize(name, |session| {
                session.bytes += size;
                session.results.push_back(Arc::clone(name));
            });
        }
        while self.bytes > MAX_BYTES && self.evict_result() {}
    }

    /// Removes expired keys.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((_, name)) = self.ended.pop_front_if(|(until, _)| *until <= now) {
            self.remove(&name);
        }
    }

    /// Drops the oldest result in the largest session of the largest principal. Keeps its key. Returns false if no
    /// result is left.
    fn evict_result(&mut self) -> bool {
        let most = self.by_bytes.last().and_then(|(_, principal)| self.principals.get(principal)?.by_bytes.last());
        let oldest = most.and_then(|(_, session)| self.sessions.get(session)?.results.front().cloned());
        let Some(name) = oldest else { return false };
        if let Some(entry) = self.entries.get_mut(&name) {
            let before = std::mem::replace(&mut entry.state, KeyState::Over(KeyedOutcome::Unknown));
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

    /// Subtracts a result from the totals. It must be its session's oldest: results are dropped and expire in
    /// order.
    fn take_result(&mut self, name: &Name, size: usize) {
        self.resize(name, |session| {
            session.bytes -= size;
            session.results.pop_front_if(|it| *it == *name);
        });
    }

    /// Changes the results of a key's session, and updates the totals and the order by size.
    fn resize(&mut self, name: &Name, change: impl FnOnce(&mut SessionUsage)) {
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

/// Moves a holder to its new position in the order by size. Removes it if its size is zero.
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

/// Returns the part of a name that identifies principal and session.
fn session(name: &str) -> &str {
    let [principal, session] = key::split(name);
    &name[..principal.len() + 1 + session.len()]
}

impl KeyState {
    fn size(&self) -> usize {
        match self {
            Self::Over(KeyedOutcome::With(outcome)) => outcome.result.encoded_len(),
            Self::Over(KeyedOutcome::Unknown | KeyedOutcome::Refused) | Self::Running(_) => 0,
        }
    }
}
