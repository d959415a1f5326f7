//! Idempotency keys: a second call of a skill with the same key gets the first one's result, or waits for it.
//!
//! A key belongs to a skill, a session, and the arguments it was first used with, byte for byte. What is remembered is what may have run: a call
//! that was refused before a skill could start leaves its key free. Results are kept for a while and within a budget; when
//! that is spent the oldest results go and their keys stay, so that nothing runs twice.
//!
//! Keys are this gateway's own. Another gateway, or this one after a restart, does not know them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::call::Call;
use crate::outcome::Outcome;

/// Keys that are remembered at most. More are refused: to forget one early could run a skill twice.
const MAX_KEYS: usize = 64 * 1024;

/// The results that are kept, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// The keys of one gateway.
#[derive(Debug)]
pub(crate) struct Keys {
    lifetime: Duration,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    slots: HashMap<Name, Slot>,
    /// The keys whose calls ended, oldest first, with the end of their lifetime.
    ended: VecDeque<(Instant, Name)>,
    /// How many of them, from the front, have no result any more.
    forgotten: usize,
    /// The results that are kept.
    bytes: usize,
}

/// What a key belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    skill: String,
    session: String,
    key: String,
}

impl Name {
    /// The name of a call that has a key.
    pub(crate) fn of(call: &Call) -> Self {
        let [skill, session, key] = [&call.skill_id, &call.session_id, &call.idempotency_key].map(String::clone);
        Self { skill, session, key }
    }
}

#[derive(Debug)]
struct Slot {
    fingerprint: [u8; 32],
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Running(watch::Receiver<Option<Ended>>),
    Over(Ended),
}

/// What became of the call that a key was first used for.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    /// This.
    With(Arc<Outcome>),
    /// It may have run; what became of it is not known any more.
    Unknown,
    /// It was refused before the skill could start: the next call is the first.
    Refused,
}

/// What a key is to a call.
#[derive(Debug)]
pub(crate) enum Claim {
    /// Nobody used it: the call is to be made.
    First(Ticket),
    /// Its call runs; this tells the end.
    Running(watch::Receiver<Option<Ended>>),
    /// Its call is over.
    Over(Ended),
    /// It was used for other arguments.
    Mismatch,
    /// There are too many keys.
    Full,
}

/// The duty to say what became of a call. One that is dropped says that nobody knows.
#[derive(Debug)]
pub(crate) struct Ticket {
    keys: Arc<Keys>,
    name: Name,
    sender: watch::Sender<Option<Ended>>,
    ended: Option<Ended>,
}

impl Keys {
    /// Keys live for `lifetime` after their call ended.
    pub(crate) fn new(lifetime: Duration) -> Arc<Self> {
        Arc::new(Self { lifetime, book: Mutex::default() })
    }

    /// Uses a key for a call with these arguments.
    pub(crate) fn claim(self: &Arc<Self>, name: Name, arguments: &[u8], now: Instant) -> Claim {
        let fingerprint: [u8; 32] = Sha256::digest(arguments).into();
        let mut book = self.book();
        book.expire(now);
        match book.slots.get(&name) {
            Some(slot) if slot.fingerprint != fingerprint => Claim::Mismatch,
            Some(Slot { state: State::Running(end), .. }) => Claim::Running(end.clone()),
            Some(Slot { state: State::Over(ended), .. }) => Claim::Over(ended.clone()),
            None if book.slots.len() >= MAX_KEYS => Claim::Full,
            None => {
                let (sender, end) = watch::channel(None);
                book.slots.insert(name.clone(), Slot { fingerprint, state: State::Running(end) });
                Claim::First(Ticket { keys: Arc::clone(self), name, sender, ended: None })
            }
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Says what became of the call.
    pub(crate) fn end(mut self, outcome: &Outcome) {
        let mut outcome = outcome.clone();
        // As it came it is a piece of the buffer that it was read into, and would keep all of that.
        outcome.result.data_json = Bytes::copy_from_slice(&outcome.result.data_json);
        self.ended = Some(if outcome.may_have_run { Ended::With(Arc::new(outcome)) } else { Ended::Refused });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let ended = self.ended.take().unwrap_or(Ended::Unknown);
        self.keys.book().end(&self.name, &ended, Instant::now() + self.keys.lifetime);
        self.sender.send_replace(Some(ended));
    }
}

impl Book {
    fn end(&mut self, name: &Name, ended: &Ended, until: Instant) {
        if matches!(ended, Ended::Refused) {
            self.slots.remove(name);
            return;
        }
        if let Some(slot) = self.slots.get_mut(name) {
            slot.state = State::Over(ended.clone());
            self.bytes += size(ended);
            self.ended.push_back((until, name.clone()));
        }
        while self.bytes > MAX_BYTES && self.forgotten < self.ended.len() {
            let (_, name) = &self.ended[self.forgotten];
            if let Some(slot) = self.slots.get_mut(name) {
                let before = std::mem::replace(&mut slot.state, State::Over(Ended::Unknown));
                self.bytes -= before.size();
            }
            self.forgotten += 1;
        }
    }

    /// Lets go of the keys whose time is over.
    fn expire(&mut self, now: Instant) {
        while let Some((_, name)) = self.ended.pop_front_if(|(until, _)| *until <= now) {
            self.forgotten = self.forgotten.saturating_sub(1);
            if let Some(slot) = self.slots.remove(&name) {
                self.bytes -= slot.state.size();
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

    fn name(skill: &str, key: &str) -> Name {
        Name { skill: skill.to_owned(), session: String::new(), key: key.to_owned() }
    }

    fn first(keys: &Arc<Keys>, key: &str, now: Instant) -> Ticket {
        match keys.claim(name("skill", key), b"{}", now) {
            Claim::First(ticket) => ticket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_key_is_used_once_and_belongs_to_its_arguments_and_its_skill() {
        let (keys, now) = (Keys::new(Duration::from_secs(60)), Instant::now());
        let ticket = first(&keys, "k", now);
        let Claim::Running(end) = keys.claim(name("skill", "k"), b"{}", now) else { panic!("it runs") };
        assert!(matches!(keys.claim(name("skill", "k"), br#"{"n":1}"#, now), Claim::Mismatch));
        assert!(matches!(keys.claim(name("other", "k"), b"{}", now), Claim::First(_)));
        ticket.end(&ran(1));
        assert!(matches!(&*end.borrow(), Some(Ended::With(_))));
        assert!(matches!(keys.claim(name("skill", "k"), b"{}", now), Claim::Over(Ended::With(_))));
    }

    #[test]
    fn a_call_that_was_refused_leaves_its_key_free() {
        let (keys, now) = (Keys::new(Duration::from_secs(60)), Instant::now());
        first(&keys, "k", now).end(&Outcome::failed(SkillError::new(ErrorCode::Overloaded, "full")));
        first(&keys, "k", now).end(&ran(1));
    }

    #[test]
    fn a_call_that_nobody_heard_of_again_may_have_run() {
        let (keys, now) = (Keys::new(Duration::from_secs(60)), Instant::now());
        drop(first(&keys, "k", now));
        assert!(matches!(keys.claim(name("skill", "k"), b"{}", now), Claim::Over(Ended::Unknown)));
    }

    #[test]
    fn keys_live_for_their_lifetime() {
        let (keys, now) = (Keys::new(Duration::from_secs(60)), Instant::now());
        first(&keys, "k", now).end(&ran(1));
        let later = Instant::now() + Duration::from_secs(60);
        assert!(matches!(keys.claim(name("skill", "k"), b"{}", later), Claim::First(_)));
        assert_eq!(keys.book().bytes, 0);
    }

    #[test]
    fn results_past_the_budget_are_forgotten_and_their_keys_are_not() {
        let (keys, now) = (Keys::new(Duration::from_secs(60)), Instant::now());
        for number in 0..10 {
            first(&keys, &number.to_string(), now).end(&ran(MAX_BYTES / 4));
        }
        assert!(keys.book().bytes <= MAX_BYTES);
        assert!(matches!(keys.claim(name("skill", "0"), b"{}", now), Claim::Over(Ended::Unknown)));
        assert!(matches!(keys.claim(name("skill", "9"), b"{}", now), Claim::Over(Ended::With(_))));
    }

    #[test]
    fn too_many_keys_are_refused() {
        let (keys, now) = (Keys::new(Duration::from_secs(60)), Instant::now());
        (0..MAX_KEYS).for_each(|number| first(&keys, &number.to_string(), now).end(&ran(0)));
        assert!(matches!(keys.claim(name("skill", "one more"), b"{}", now), Claim::Full));
    }
}
