//! The places at a listener. They are limited: a newcomer that finds none gets that of the connection that has been idle
//! longest, which ends.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::members::{Members, Seat};
use super::peer::Peer;
use super::peers::{PeerShare, Peers};

/// How often a newcomer that waits looks for a connection that has become idle for long enough.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct Roster {
    peers: Arc<Peers>,
    begun: Instant,
    members: Mutex<Members>,
    /// Whether a newcomer waits for a place.
    is_full: AtomicBool,
    vacancy: Notify,
}

/// A connection's place, to be kept until it is closed.
#[derive(Debug)]
pub(crate) struct Place(Connected);

/// Tells the requests of a connection, and when it is to end.
#[derive(Debug, Clone)]
pub(crate) struct Connected {
    roster: Arc<Roster>,
    seat: Arc<Seat>,
}

/// A request in flight: while there is one, the connection is not idle.
#[derive(Debug)]
pub(crate) struct Busy(Connected);

/// The newcomer's peer has as many connections as it may, and none of them is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Roster {
    /// With so many places.
    pub(crate) fn new(limit: usize, peers: Arc<Peers>) -> Arc<Self> {
        let members = Mutex::new(Members::new(limit));
        let (is_full, vacancy) = (AtomicBool::new(false), Notify::new());
        Arc::new(Self { peers, begun: Instant::now(), members, is_full, vacancy })
    }

    /// A place for a newcomer, once there is one. `end` will be cancelled if the connection has to give it up.
    ///
    /// # Errors
    /// The peer has too many connections already.
    pub(crate) async fn admit(self: &Arc<Self>, peer: Peer, end: CancellationToken) -> Result<Place, TooMany> {
        let mut share = Some(self.share(peer)?);
        loop {
            // First, so that a place that becomes free after the look below is not missed.
            self.is_full.store(true, SeqCst);
            let seat = self.lock().seat(peer, &mut share, &end, self.now());
            if let Some(seat) = seat {
                self.is_full.store(false, SeqCst);
                return Ok(Place(Connected { roster: Arc::clone(self), seat }));
            }
            let _ = tokio::time::timeout(LOOK_AGAIN, self.vacancy.notified()).await;
        }
    }

    fn share(&self, peer: Peer) -> Result<PeerShare, TooMany> {
        if let Some(share) = self.peers.enter(peer) {
            return Ok(share);
        }
        self.lock().evict_one_of(peer, self.now());
        self.peers.enter(peer).ok_or(TooMany)
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn lock(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The connection that has the place.
    pub(crate) fn connected(&self) -> Connected {
        self.0.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Connected { roster, seat } = &self.0;
        roster.lock().remove(seat);
        roster.vacancy.notify_one();
    }
}

impl Connected {
    /// Whether its peer flooded a connection lately.
    pub(super) fn is_suspect(&self) -> bool {
        self.roster.peers.suspects.has(self.seat.peer, Instant::now())
    }

    /// Its peer flooded it.
    pub(super) fn suspect(&self) {
        self.roster.peers.suspects.note(self.seat.peer, Instant::now());
    }

    /// A request begins.
    pub(crate) fn begin(&self) -> Busy {
        self.seat.begin();
        Busy(self.clone())
    }

    /// Whether it has no request in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.seat.is_idle()
    }

    /// Whether it has to give up its place.
    pub(crate) fn is_evicted(&self) -> bool {
        self.seat.is_evicted()
    }

    /// Waits until it has to give up its place.
    pub(crate) async fn evicted(&self) {
        self.end().cancelled().await;
        if !self.is_evicted() {
            std::future::pending().await
        }
    }

    /// Cancelled when the connection is to end, for whatever reason.
    pub(crate) fn end(&self) -> &CancellationToken {
        &self.seat.end
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let Connected { roster, seat } = &self.0;
        seat.finish(|| roster.now());
        if roster.is_full.load(SeqCst) {
            roster.vacancy.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> Peer {
        Peer::of([192, 0, 2, 1].into())
    }

    #[tokio::test]
    async fn a_newcomer_that_waits_gets_the_next_free_place() {
        let roster = Roster::new(1, Peers::new(9));
        let place = roster.admit(peer(), CancellationToken::new()).await.unwrap();
        let request = place.connected().begin();
        let newcomer = {
            let roster = Arc::clone(&roster);
            tokio::spawn(async move { roster.admit(peer(), CancellationToken::new()).await })
        };
        while !roster.is_full.load(SeqCst) {
            tokio::task::yield_now().await;
        }
        drop((request, place));
        assert!(newcomer.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_peer_whose_connections_are_all_busy_is_refused() {
        let roster = Roster::new(9, Peers::new(1));
        let place = roster.admit(peer(), CancellationToken::new()).await.unwrap();
        let request = place.connected().begin();
        assert_eq!(roster.admit(peer(), CancellationToken::new()).await.unwrap_err(), TooMany);
        drop((request, place));
        assert!(roster.admit(peer(), CancellationToken::new()).await.is_ok());
    }
}
