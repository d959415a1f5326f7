//! Calls that wait for answers of users. Since 2026-07-28 a question ends the request that asked, and its answer comes with
//! another one. Meanwhile the call is here, with its permit, up to its deadline.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures_util::stream::BoxStream;
use openskill_identity::shares::Share;
use openskill_proto::trace::random_id;
use openskill_proto::v1::{InputRequired, InvokeEvent, SkillError};
use sha2::{Digest as _, Sha256};

/// What a call still says.
pub(crate) type Events = BoxStream<'static, Result<InvokeEvent, SkillError>>;

/// Names a call that waits.
pub(crate) type Ticket = [u8; 16];

/// What was asked for: only the same request goes on with the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// `view`: where.
    pub(crate) fn of(view: &str, skill_id: &str, arguments: &str) -> Self {
        let mut hash = Sha256::new();
        for name in [view, skill_id] {
            hash.update(name.len().to_be_bytes());
            hash.update(name);
        }
        hash.update(arguments);
        Self(hash.finalize().into())
    }
}

/// A call that waits.
pub(crate) struct Parked {
    pub(crate) events: Events,
    /// What was asked, by the key that the client answers to.
    pub(crate) questions: Vec<(String, InputRequired)>,
    pub(crate) fingerprint: Fingerprint,
    /// When nobody waits for an answer any more.
    pub(crate) until: Instant,
    /// Its place among the calls that wait.
    pub(crate) _place: Share,
}

/// All calls that wait.
#[derive(Default)]
pub(crate) struct Parking(Mutex<HashMap<Ticket, Parked>>);

impl Parking {
    /// Forgets the calls whose time is over, which gives their places back.
    pub(crate) fn expire(&self, now: Instant) {
        // Dropping a call that is over drops what is left of its channel.
        self.lock().retain(|_, it| it.until > now);
    }

    /// Keeps a call.
    pub(crate) fn park(&self, call: Parked) -> Ticket {
        let mut calls = self.lock();
        let ticket = random_id();
        calls.insert(ticket, call);
        ticket
    }

    /// The call of a ticket, which is valid once.
    pub(crate) fn take(&self, ticket: &Ticket, fingerprint: Fingerprint, now: Instant) -> Option<Parked> {
        let mut calls = self.lock();
        calls.get(ticket).filter(|it| it.fingerprint == fingerprint && it.until > now)?;
        calls.remove(ticket)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Ticket, Parked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::{StreamExt as _, stream};
    use openskill_identity::shares::Pool;

    use super::*;

    fn call(until: Instant) -> Parked {
        let fingerprint = Fingerprint::of("", "asks", "{}");
        let place = Pool::new(10).share("ada");
        Parked { events: stream::empty().boxed(), questions: Vec::new(), fingerprint, until, _place: place }
    }

    #[test]
    fn a_ticket_is_valid_once_for_the_same_request_and_in_time() {
        let (parking, now) = (Parking::default(), Instant::now());
        let later = now + Duration::from_secs(10);
        let ticket = parking.park(call(later));
        let same = Fingerprint::of("", "asks", "{}");
        for other in [Fingerprint::of("", "asks", "{ }"), Fingerprint::of("notes", "asks", "{}")] {
            assert!(parking.take(&ticket, other, now).is_none());
        }
        assert!(parking.take(&ticket, same, later).is_none());
        assert!(parking.take(&ticket, same, now).is_some());
        assert!(parking.take(&ticket, same, now).is_none());
    }

    #[test]
    fn calls_that_are_over_give_their_places_back() {
        let (parking, now, pool) = (Parking::default(), Instant::now(), Pool::new(10));
        let soon = now + Duration::from_secs(1);
        for _ in 0..8 {
            parking.park(Parked { _place: pool.take("ada", 1).unwrap(), ..call(soon) });
        }
        assert!(pool.take("ada", 1).is_none() && pool.take("bob", 1).is_some());
        parking.expire(soon);
        assert!(pool.take("ada", 1).is_some());
    }
}
