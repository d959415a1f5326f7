//! Waiting at a gate for a place.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot::{self, error::RecvError};

use super::book::{Admission, Arrival, Arrived, Book, Bounds, Ending, Next, Refusal};
use super::flows::Ticket;
use super::pace::SHORT;

/// What a call waits for.
type Granted = Result<Place, Refusal>;

/// A gate that calls of all shards pass.
#[derive(Debug)]
pub(super) struct Gate(Mutex<Book<oneshot::Sender<Granted>>>);

/// A place at a gate, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    gate: Arc<Gate>,
    /// None once it was given back.
    ticket: Option<Ticket>,
    /// What was known of the call when the place was granted.
    admission: Admission,
    /// Whether a call ran here to its own end, as far as is known: then the time it took is its pace.
    is_whole: AtomicBool,
}

/// A call that waits, and stops waiting when it is dropped.
struct Queued<'a> {
    gate: &'a Arc<Gate>,
    ticket: Ticket,
}

impl Place {
    /// A call that never starts leaves it cut short.
    fn new(gate: &Arc<Gate>, ticket: Ticket, admission: Admission) -> Self {
        Self { gate: Arc::clone(gate), ticket: Some(ticket), admission, is_whole: AtomicBool::new(false) }
    }

    /// The call starts, or is cut short.
    pub(super) fn set_whole(&self, is_whole: bool) {
        self.is_whole.store(is_whole, Ordering::Relaxed);
    }

    /// What was known of the call when the place was granted.
    pub(super) fn admission(&self) -> Admission {
        self.admission
    }
}

impl Gate {
    pub(super) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Book::new(bounds, Instant::now()))))
    }

    fn book(&self) -> MutexGuard<'_, Book<oneshot::Sender<Granted>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls that hold a place or wait for one.
    pub(super) fn len(&self) -> usize {
        self.book().len()
    }

    /// Calls that hold a place, and calls that wait for one.
    pub(super) fn load(&self) -> (usize, usize) {
        let book = self.book();
        (book.running(), book.len() - book.running())
    }

    /// Waits for a place. The caller enforces the deadline; here it decides whether waiting has any use.
    ///
    /// # Errors
    /// The call is refused: at once, because another one needs its place in the queue more, or because it waited too long.
    pub(super) async fn enter(self: &Arc<Self>, arrival: Arrival<'_>) -> Result<Place, Refusal> {
        let (ticket, granted, evicted, may_become_reserved) = {
            let (mut book, now) = (self.book(), Instant::now());
            let arrived = book.arrive(arrival, oneshot::channel, now);
            self.grant(&mut book, now);
            match arrived {
                Arrived::Runs(ticket) => return Ok(Place::new(self, ticket, book.admission(ticket))),
                Arrived::Refused(refusal) => return Err(refusal),
                Arrived::Waits { ticket, granted, evicted } => {
                    (ticket, granted, evicted, book.may_become_reserved(ticket))
                }
            }
        };
        // The evicted call sees its sender dropped.
        drop(evicted);
        let _queued = Queued { gate: self, ticket };
        let granted = if may_become_reserved { self.ask_again(granted).await } else { granted.await };
        granted.unwrap_or(Err(Refusal::Full))
    }

    /// Waits, and checks the reserve periodically: a call that gives its reserved place back runs on and wakes nobody.
    async fn ask_again(self: &Arc<Self>, mut granted: oneshot::Receiver<Granted>) -> Result<Granted, RecvError> {
        loop {
            match tokio::time::timeout(SHORT, &mut granted).await {
                Ok(place) => return place,
                Err(_) => self.grant(&mut self.book(), Instant::now()),
            }
        }
    }

    /// Grants the places that are free to the calls that wait.
    fn grant(self: &Arc<Self>, book: &mut Book<oneshot::Sender<Granted>>, now: Instant) {
        while let Some(next) = book.next(now) {
            let (ticket, waiter) = match next {
                Next::Runs(ticket, waiter) => (ticket, waiter),
                Next::Refused(waiter, refusal) => {
                    // If its call is gone, nobody asks.
                    let _ = waiter.send(Err(refusal));
                    continue;
                }
            };
            if let Err(Ok(mut place)) = waiter.send(Ok(Place::new(self, ticket, book.admission(ticket)))) {
                // Its call is gone. Not by drop, which would lock the book again.
                place.ticket = None;
                book.leave(ticket, Ending::CutShort, now);
            }
        }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        // A place that was granted meanwhile is in the channel, which drops it.
        let (mut book, now) = (self.gate.book(), Instant::now());
        if book.give_up(self.ticket, now) {
            // With one caller less, others may have more of the reserve.
            self.gate.grant(&mut book, now);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let (mut book, now) = (self.gate.book(), Instant::now());
            let ending = if *self.is_whole.get_mut() { Ending::Whole } else { Ending::CutShort };
            book.leave(ticket, ending, now);
            self.gate.grant(&mut book, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::schedule::pace::Skill;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_short_call_gets_the_reserved_place_that_a_longer_one_gives_back() {
        let gate = Gate::new(Bounds { places: 1, reserved: 1, most_waiting: 8 });
        let [unknown, short, long]: [Arc<Skill>; 3] = Default::default();
        short.pace.observe(Duration::from_millis(1));
        long.pace.observe(Duration::from_secs(5));
        let deadline = Instant::now() + PATIENCE;
        let enter = |session, skill| gate.enter(Arrival { principal: "", session, skill, deadline });
        let first = enter("busy", &unknown).await.unwrap();
        // Its caller has more than an even share until the first call ends, when a long one of another goes first.
        let mut waits = Box::pin(enter("busy", &short));
        let mut goes_first = Box::pin(enter("other", &long));
        assert!(futures_util::poll!(&mut waits).is_pending() && futures_util::poll!(&mut goes_first).is_pending());
        let _reserved = enter("new", &unknown).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        drop(first);
        let _open = goes_first.await.unwrap();
        // Nothing ends any more.
        tokio::time::timeout(PATIENCE / 2, waits).await.expect("the reserved place is given back").unwrap();
    }
}
