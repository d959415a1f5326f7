//! Waiting at a gate for a place.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot;

use super::book::{Arrival, Arrived, Book, Bounds, Refusal};
use super::flows::Ticket;
use super::pace::SHORT;

/// A gate that calls of all shards pass.
#[derive(Debug)]
pub(super) struct Gate(Mutex<Book<oneshot::Sender<Place>>>);

/// A place at a gate, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    gate: Arc<Gate>,
    /// None once it was given back.
    ticket: Option<Ticket>,
}

/// A call that waits, and stops waiting when it is dropped.
struct Queued<'a> {
    gate: &'a Gate,
    ticket: Ticket,
}

impl Gate {
    pub(super) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Book::new(bounds, Instant::now()))))
    }

    fn book(&self) -> MutexGuard<'_, Book<oneshot::Sender<Place>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls that hold a place or wait for one.
    pub(super) fn len(&self) -> usize {
        self.book().len()
    }

    /// Waits for a place. The caller enforces the deadline; here it decides whether waiting has any use.
    ///
    /// # Errors
    /// The call is refused, at once or because another one needs its place in the queue more.
    pub(super) async fn enter(self: &Arc<Self>, arrival: Arrival<'_>) -> Result<Place, Refusal> {
        let (sender, mut granted) = oneshot::channel();
        let arrived = self.book().arrive(arrival, sender, Instant::now());
        let ticket = match arrived {
            Arrived::Runs(ticket) => return Ok(Place { gate: Arc::clone(self), ticket: Some(ticket) }),
            Arrived::Refused(refusal) => return Err(refusal),
            Arrived::Waits { ticket, evicted } => {
                // The evicted call sees its sender dropped.
                drop(evicted);
                ticket
            }
        };
        let _queued = Queued { gate: self, ticket };
        self.grant();
        loop {
            // A reserved place that is given back makes no sound: nobody ended.
            match tokio::time::timeout(SHORT, &mut granted).await {
                Ok(place) => return place.map_err(|_| Refusal::Full),
                Err(_) => self.grant(),
            }
        }
    }

    /// Grants the places that are free to the calls that wait.
    fn grant(self: &Arc<Self>) {
        loop {
            let Some((ticket, waiter)) = self.book().next(Instant::now()) else { return };
            if let Err(mut place) = waiter.send(Place { gate: Arc::clone(self), ticket: Some(ticket) }) {
                // Its call is gone. Not by drop, which would come back here for each.
                place.ticket = None;
                self.book().leave(ticket, Instant::now());
            }
        }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        // A place that was granted meanwhile is in the channel, which drops it.
        self.gate.book().give_up(self.ticket, Instant::now());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.gate.book().leave(ticket, Instant::now());
            self.gate.grant();
        }
    }
}
