//! Idempotency keys: a second call of a skill with the same key gets the first call's result, or waits for it.
//!
//! A key belongs to a principal, a session and a skill, and to the arguments it was first used with, byte for byte. What
//! is remembered is what may have run: a call that was refused before its skill could start leaves its key unused. Results
//! are kept for a while and within a budget; when that is spent, the oldest results are dropped and their keys stay, so that
//! nothing runs twice.
//!
//! Keys are this gateway's own. Another gateway, or this one after a restart, does not know them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use openskill_proto::v1::artifact::Content;
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::call::outcome::Outcome;
use crate::call::request::Call;
use crate::state::key;

/// How many keys are remembered. More are refused: forgetting one early could run a skill twice.
const MAX_KEYS: usize = 64 * 1024;

/// The results that are kept, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// The keys of one gateway.
#[derive(Debug)]
pub(crate) struct IdempotencyKeys {
    lifetime: Duration,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    entries: HashMap<String, KeyEntry>,
    /// The keys whose calls ended, oldest first, with the end of their lifetime.
    ended: VecDeque<(Instant, String)>,
    /// How many of them, from the front, have lost their result to the budget.
    without_result: usize,
    /// The size of all results that are kept.
    bytes: usize,
}

#[derive(Debug)]
struct KeyEntry {
    fingerprint: [u8; 32],
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Running(watch::Receiver<Option<Ended>>),
    Over(Ended),
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
    Full,
}

/// The exclusive right to run the call of a key, and the duty to report how it ended. A lease that is dropped reports that
/// nobody knows.
#[derive(Debug)]
pub(crate) struct Lease {
    keys: Arc<IdempotencyKeys>,
    name: String,
    sender: watch::Sender<Option<Ended>>,
    ended: Option<Ended>,
}

impl IdempotencyKeys {
    /// Keys are remembered for `lifetime` after their call ended.
    pub(crate) fn new(lifetime: Duration) -> Arc<Self> {
        Arc::new(Self { lifetime, book: Mutex::default() })
    }

    /// Looks up the key of `call`, which runs with these arguments.
    pub(crate) fn look_up(self: &Arc<Self>, call: &Call, arguments: &[u8], now: Instant) -> Lookup {
        let names = [call.principal.name(), &call.session_id, &call.skill_id, &call.idempotency_key];
        self.look_up_name(key::join(names), arguments, now)
    }

    fn look_up_name(self: &Arc<Self>, name: String, arguments: &[u8], now: Instant) -> Lookup {
        let fingerprint: [u8; 32] = Sha256::digest(arguments).into();
        let mut book = self.book();
        book.expire(now);
        match book.entries.get(&name) {
            Some(entry) if entry.fingerprint != fingerprint => Lookup::Mismatch,
            Some(KeyEntry { state: State::Running(end), .. }) => Lookup::Running(end.clone()),
            Some(KeyEntry { state: State::Over(ended), .. }) => Lookup::Over(ended.clone()),
            None if book.entries.len() >= MAX_KEYS => Lookup::Full,
            None => {
                let (sender, end) = watch::channel(None);
                book.entries.insert(name.clone(), KeyEntry { fingerprint, state: State::Running(end) });
                Lookup::First(Lease { keys: Arc::clone(self), name, sender, ended: None })
            }
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

impl Book {
    fn end(&mut self, name: &str, ended: &Ended, until: Instant) {
        if matches!(ended, Ended::Refused) {
            self.entries.remove(name);
            return;
        }
        if let Some(entry) = self.entries.get_mut(name) {
            entry.state = State::Over(ended.clone());
            self.bytes += size(ended);
            self.ended.push_back((until, name.to_owned()));
        }
        while self.bytes > MAX_BYTES && self.without_result < self.ended.len() {
            let (_, name) = &self.ended[self.without_result];
            if let Some(entry) = self.entries.get_mut(name) {
                let before = std::mem::replace(&mut entry.state, State::Over(Ended::Unknown));
                self.bytes -= before.size();
            }
            self.without_result += 1;
        }
    }

    /// Removes the keys whose lifetime is over.
    fn expire(&mut self, now: Instant) {
        while let Some((_, name)) = self.ended.pop_front_if(|(until, _)| *until <= now) {
            self.without_result = self.without_result.saturating_sub(1);
            if let Some(entry) = self.entries.remove(&name) {
                self.bytes -= entry.state.size();
            }
        }
    }
}

impl State {
    fn size(&self) -> usize {
        match self {
            Self::Running(_) => 0,
            Self::Over(ended) => size(ended),
        }
    }
}

fn size(ended: &Ended) -> usize {
    match ended {
        Ended::With(outcome) => outcome.result.encoded_len(),
        Ended::Unknown | Ended::Refused => 0,
    }
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::{ErrorCode, ExecuteResult, SkillError};

    use super::*;

    fn ran(bytes: usize) -> Outcome {
        let result = ExecuteResult { success: true, data_json: vec![b' '; bytes].into(), ..ExecuteResult::default() };
        let refused = Outcome::failed(SkillError::new(ErrorCode::Overloaded, "full"));
        Outcome { result, may_have_run: true, ..refused }
    }

    fn name(skill: &str, idempotency_key: &str) -> String {
        key::join(["", "", skill, idempotency_key])
    }

    fn first(keys: &Arc<IdempotencyKeys>, key: &str, now: Instant) -> Lease {
        match keys.look_up_name(name("skill", key), b"{}", now) {
            Lookup::First(lease) => lease,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_key_runs_once_for_its_skill_and_its_arguments() {
        let (keys, now) = (IdempotencyKeys::new(Duration::from_secs(60)), Instant::now());
        let lease = first(&keys, "k", now);
        let Lookup::Running(end) = keys.look_up_name(name("skill", "k"), b"{}", now) else { panic!("it runs") };
        assert!(matches!(keys.look_up_name(name("skill", "k"), br#"{"n":1}"#, now), Lookup::Mismatch));
        assert!(matches!(keys.look_up_name(name("other", "k"), b"{}", now), Lookup::First(_)));
        lease.end(&ran(1));
        assert!(matches!(&*end.borrow(), Some(Ended::With(_))));
        assert!(matches!(keys.look_up_name(name("skill", "k"), b"{}", now), Lookup::Over(Ended::With(_))));
    }

    #[test]
    fn a_refused_call_leaves_its_key_unused() {
        let (keys, now) = (IdempotencyKeys::new(Duration::from_secs(60)), Instant::now());
        first(&keys, "k", now).end(&Outcome::failed(SkillError::new(ErrorCode::Overloaded, "full")));
        first(&keys, "k", now).end(&ran(1));
    }

    #[test]
    fn a_dropped_lease_means_that_the_call_may_have_run() {
        let (keys, now) = (IdempotencyKeys::new(Duration::from_secs(60)), Instant::now());
        drop(first(&keys, "k", now));
        assert!(matches!(keys.look_up_name(name("skill", "k"), b"{}", now), Lookup::Over(Ended::Unknown)));
    }

    #[test]
    fn keys_expire_after_their_lifetime() {
        let (keys, now) = (IdempotencyKeys::new(Duration::from_secs(60)), Instant::now());
        first(&keys, "k", now).end(&ran(1));
        let later = Instant::now() + Duration::from_secs(60);
        assert!(matches!(keys.look_up_name(name("skill", "k"), b"{}", later), Lookup::First(_)));
        assert_eq!(keys.book().bytes, 0);
    }

    #[test]
    fn results_past_the_budget_are_dropped_but_their_keys_stay() {
        let (keys, now) = (IdempotencyKeys::new(Duration::from_secs(60)), Instant::now());
        for number in 0..10 {
            first(&keys, &number.to_string(), now).end(&ran(MAX_BYTES / 4));
        }
        assert!(keys.book().bytes <= MAX_BYTES);
        assert!(matches!(keys.look_up_name(name("skill", "0"), b"{}", now), Lookup::Over(Ended::Unknown)));
        assert!(matches!(keys.look_up_name(name("skill", "9"), b"{}", now), Lookup::Over(Ended::With(_))));
    }

    #[test]
    fn too_many_keys_are_refused() {
        let (keys, now) = (IdempotencyKeys::new(Duration::from_secs(60)), Instant::now());
        (0..MAX_KEYS).for_each(|number| first(&keys, &number.to_string(), now).end(&ran(0)));
        assert!(matches!(keys.look_up_name(name("skill", "one more"), b"{}", now), Lookup::Full));
    }
}
