//! Lets calls wait for a place at a gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot::{self, error::RecvError};

use super::book::{Admission, Arrival, ArrivalOutcome, Ending, GateBounds, GateCalls, GateRefusal, Next};
use super::flows::Ticket;
use super::pace::SHORT;

/// The permit for a waiting call, or the refusal.
type Granted = Result<GatePermit, GateRefusal>;

/// A gate that the calls of all shards pass.
#[derive(Debug)]
pub(super) struct Gate(Mutex<GateCalls<oneshot::Sender<Granted>>>);

/// A place at a gate. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct GatePermit {
    gate: Arc<Gate>,
    /// `None` after the place was freed.
    ticket: Option<Ticket>,
    /// Describes the call when the place was granted.
    pub(super) admission: Admission,
    /// Whether the call is known to have ended on its own. Only then does its time count as its pace.
    is_whole: AtomicBool,
}

/// A waiting call. Dropping it stops the wait.
struct QueuedCall<'a> {
    gate: &'a Arc<Gate>,
    ticket: Ticket,
}

impl GatePermit {
    /// Creates a permit. A call that never starts counts as cut short.
    fn new(gate: &Arc<Gate>, ticket: Ticket, admission: Admission) -> Self {
        Self { gate: Arc::clone(gate), ticket: Some(ticket), admission, is_whole: AtomicBool::new(false) }
    }

    /// Records whether the call ended on its own.
    pub(super) fn set_whole(&self, is_whole: bool) {
        self.is_whole.store(is_whole, Ordering::Relaxed);
    }
}

impl Gate {
    pub(super) fn new(bounds: GateBounds) -> Arc<Self> {
        Arc::new(Self(Mutex::new(GateCalls::new(bounds, Instant::now()))))
    }

    fn book(&self) -> MutexGuard<'_, GateCalls<oneshot::Sender<Granted>>> {
        self.0.lock()
    }

    /// Returns the number of calls that hold a place and that wait for one.
    pub(super) fn load(&self) -> (usize, usize) {
        let book = self.book();
        (book.running(), book.len() - book.running())
    }

    /// Waits for a place. The caller enforces the deadline. This function only decides whether waiting is useful.
    ///
    /// # Errors
    /// Fails if the call is refused immediately, is evicted from the queue, or has waited too long.
    pub(super) async fn enter(self: &Arc<Self>, arrival: Arrival<'_>) -> Result<GatePermit, GateRefusal> {
        let (ticket, granted, evicted, may_become_reserved) = {
            let (mut book, now) = (self.book(), Instant::now());
            let arrived = book.arrive(arrival, oneshot::channel, now);
            self.grant(&mut book, now);
            match arrived {
                ArrivalOutcome::Runs(ticket) => return Ok(GatePermit::new(self, ticket, book.admission(ticket))),
                ArrivalOutcome::Refused(refusal) => return Err(refusal),
                ArrivalOutcome::Waits { ticket, granted, evicted } => {
                    (ticket, granted, evicted, book.may_become_reserved(ticket))
                }
            }
        };
        // Dropping its sender notifies the evicted call.
        drop(evicted);
        let _queued = QueuedCall { gate: self, ticket };
        let granted = if may_become_reserved { self.ask_again(granted).await } else { granted.await };
        granted.unwrap_or(Err(GateRefusal::Full))
    }

    /// Waits, and checks the reserved places periodically. A call that returns its reserved place continues to run
    /// and wakes no waiter.
    async fn ask_again(self: &Arc<Self>, mut granted: oneshot::Receiver<Granted>) -> Result<Granted, RecvError> {
        loop {
            match tokio::time::timeout(SHORT, &mut granted).await {
                Ok(place) => return place,
                Err(_) => self.grant(&mut self.book(), Instant::now()),
            }
        }
    }

    /// Grants free places to waiting calls.
    fn grant(self: &Arc<Self>, book: &mut GateCalls<oneshot::Sender<Granted>>, now: Instant) {
        while let Some(next) = book.next(now) {
            let (ticket, waiter) = match next {
                Next::Runs(ticket, waiter) => (ticket, waiter),
                Next::Refused(waiter, refusal) => {
                    // The send fails if the call stopped waiting, which does not matter.
                    let _ = waiter.send(Err(refusal));
                    continue;
                }
            };
            if let Err(Ok(mut place)) = waiter.send(Ok(GatePermit::new(self, ticket, book.admission(ticket)))) {
                // The call stopped waiting. A normal drop of the permit would lock the book again.
                place.ticket = None;
                book.leave(ticket, Ending::CutShort, now);
            }
        }
    }
}

impl Drop for QueuedCall<'_> {
    fn drop(&mut self) {
        // The channel may contain a permit that was granted meanwhile. Dropping the channel frees its place.
        let (mut book, now) = (self.gate.book(), Instant::now());
        if book.give_up(self.ticket, now) {
            // With one caller less, others may use more reserved places.
            self.gate.grant(&mut book, now);
        }
    }
}

impl Drop for GatePermit {
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
        let gate = Gate::new(GateBounds { places: 1, reserved: 1, most_waiting: 8 });
        let [unknown, short, long]: [Arc<Skill>; 3] = Default::default();
        short.pace.observe(Duration::from_millis(1));
        long.pace.observe(Duration::from_secs(5));
        let deadline = Instant::now() + PATIENCE;
        let enter = |session, skill| gate.enter(Arrival { principal: "", session, skill, deadline });
        let first = enter("busy", &unknown).await.unwrap();
        // The caller holds more than an even share until its first call ends. Then a long call of another caller
        // goes first.
        let mut waits = Box::pin(enter("busy", &short));
        let mut goes_first = Box::pin(enter("other", &long));
        assert!(futures_util::poll!(&mut waits).is_pending() && futures_util::poll!(&mut goes_first).is_pending());
        let _reserved = enter("new", &unknown).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        drop(first);
        let _open = goes_first.await.unwrap();
        // No other call ends from here on.
        tokio::time::timeout(PATIENCE / 2, waits).await.expect("the reserved place is given back").unwrap();
    }
}
