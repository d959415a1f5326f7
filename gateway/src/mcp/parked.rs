//! Running calls, and calls that wait for users' answers. Since revision 2026-07-28, a question ends the request,
//! and the answer arrives in another request. Meanwhile, the call is parked here with its permit, up to its
//! deadline.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use openskill_identity::shares::Share;
use openskill_proto::trace::random_id;
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{InputRequired, InvokeEvent, SkillError, SkillResult};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::call::request::Call;

/// The remaining events of a call.
pub(crate) type Events = BoxStream<'static, Result<InvokeEvent, SkillError>>;

/// The id of a parked call.
pub(crate) type Ticket = [u8; 16];

/// Identifies a request. Only the same request resumes the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// `view` is the name of the view in which the tool was called.
    pub(crate) fn new(view: &str, skill_id: &str, arguments: &str) -> Self {
        let mut hash = Sha256::new();
        for name in [view, skill_id] {
            hash.update(name.len().to_be_bytes());
            hash.update(name);
        }
        hash.update(arguments);
        Self(hash.finalize().into())
    }
}

/// A running call whose events are read.
pub(crate) struct FollowedCall {
    pub(crate) events: Events,
    /// None if it can't become a task.
    pub(crate) call: Option<Arc<Call>>,
}

/// A call that is waiting for its user's answers.
pub(crate) struct ParkedCall {
    pub(crate) followed: FollowedCall,
    /// The open questions, by the keys of their answers.
    pub(crate) questions: Vec<(String, InputRequired)>,
    pub(crate) fingerprint: Fingerprint,
    /// When the call stops waiting for answers.
    pub(crate) until: Instant,
    /// Its share of the pool of parked calls.
    pub(crate) _place: Share,
}

/// All parked calls, by ticket.
#[derive(Default)]
pub(crate) struct ParkedCalls(Mutex<HashMap<Ticket, ParkedCall>>);

impl ParkedCalls {
    /// Drops expired calls, which releases their shares.
    pub(crate) fn expire(&self, now: Instant) {
        // Dropping an expired call also drops the rest of its channel.
        self.0.lock().retain(|_, it| it.until > now);
    }

    /// Parks a call. Returns the ticket that takes it back.
    pub(crate) fn park(&self, call: ParkedCall) -> Ticket {
        let mut calls = self.0.lock();
        let ticket = random_id();
        calls.insert(ticket, call);
        ticket
    }

    /// Takes the call of a ticket. Each ticket works once.
    pub(crate) fn take(&self, ticket: &Ticket, fingerprint: Fingerprint, now: Instant) -> Option<ParkedCall> {
        let mut calls = self.0.lock();
        calls.get(ticket).filter(|it| it.fingerprint == fingerprint && it.until > now)?;
        calls.remove(ticket)
    }
}

/// A running call.
pub(crate) enum RunningCall {
    /// The client wants only the result.
    ResultOnly(BoxFuture<'static, SkillResult>),
    WithEvents(FollowedCall),
}

/// An update of a running call.
pub(crate) enum CallUpdate {
    Result(SkillResult),
    Event(Event),
    Broken(String),
}

impl RunningCall {
    /// Returns the next update. Cancel safe: nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> CallUpdate {
        let events = match self {
            Self::ResultOnly(result) => return CallUpdate::Result(result.await),
            Self::WithEvents(followed) => &mut followed.events,
        };
        loop {
            match events.next().await.map(|it| it.map(|it| it.event)) {
                Some(Ok(Some(Event::Result(result)))) => return CallUpdate::Result(result),
                Some(Ok(Some(event))) => return CallUpdate::Event(event),
                Some(Ok(None)) => {}
                Some(Err(error)) => return CallUpdate::Broken(error.message),
                None => return CallUpdate::Broken("the call ended without a result".to_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::{StreamExt as _, stream};
    use openskill_identity::shares::Pool;

    use super::*;

    fn call(until: Instant) -> ParkedCall {
        let fingerprint = Fingerprint::new("", "asks", "{}");
        let place = Pool::new(10).share("ada");
        let followed = FollowedCall { events: stream::empty().boxed(), call: None };
        ParkedCall { followed, questions: Vec::new(), fingerprint, until, _place: place }
    }

    #[test]
    fn a_ticket_is_valid_once_for_the_same_request_and_in_time() {
        let (parking, now) = (ParkedCalls::default(), Instant::now());
        let later = now + Duration::from_secs(10);
        let ticket = parking.park(call(later));
        let same = Fingerprint::new("", "asks", "{}");
        for other in [Fingerprint::new("", "asks", "{ }"), Fingerprint::new("notes", "asks", "{}")] {
            assert!(parking.take(&ticket, other, now).is_none());
        }
        assert!(parking.take(&ticket, same, later).is_none());
        assert!(parking.take(&ticket, same, now).is_some());
        assert!(parking.take(&ticket, same, now).is_none());
    }

    #[test]
    fn calls_that_are_over_give_their_places_back() {
        let (parking, now, pool) = (ParkedCalls::default(), Instant::now(), Pool::new(10));
        let soon = now + Duration::from_secs(1);
        for _ in 0..8 {
            parking.park(ParkedCall { _place: pool.take("ada", 1).unwrap(), ..call(soon) });
        }
        assert!(pool.take("ada", 1).is_none() && pool.take("bob", 1).is_some());
        parking.expire(soon);
        assert!(pool.take("ada", 1).is_some());
    }
}
