//! Bounds the number of connections of a listener. At the limit, a new connection evicts the one that has been idle
//! longest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::peer::Peer;
use super::peers::{PeerShare, Peers};
use super::table::{Connection, ConnectionTable};

/// How often a connection that waits for a permit checks whether another one can be evicted.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Admits the connections of one listener.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    peers: Arc<Peers>,
    begun: Instant,
    table: Mutex<ConnectionTable>,
    /// Whether a new connection is waiting for a permit.
    is_full: AtomicBool,
    vacancy: Notify,
}

/// Allows a connection to be open. Dropped when the connection is closed.
#[derive(Debug)]
pub(crate) struct ConnectionPermit(ConnectionHandle);

/// Counts the requests of a connection, and signals when it must end.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionHandle {
    limiter: Arc<ConnectionLimiter>,
    pub(super) connection: Arc<Connection>,
}

/// A request in flight, during which its connection is not idle.
#[derive(Debug)]
pub(crate) struct InFlight(ConnectionHandle);

/// The peer is at its connection limit, and none of its connections is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyConnections;

impl ConnectionLimiter {
    /// `limit` is the maximum number of open connections.
    pub(crate) fn new(limit: usize, peers: Arc<Peers>) -> Arc<Self> {
        let table = Mutex::new(ConnectionTable::new(limit));
        let (is_full, vacancy) = (AtomicBool::new(false), Notify::new());
        Arc::new(Self { peers, begun: Instant::now(), table, is_full, vacancy })
    }

    /// Waits for a permit for a new connection. `end` is cancelled if the connection is evicted.
    ///
    /// # Errors
    /// The peer has too many connections already.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        peer: Peer,
        end: CancellationToken,
    ) -> Result<ConnectionPermit, TooManyConnections> {
        let mut share = Some(self.share(peer)?);
        loop {
            // Set first, so that a permit that becomes free after the attempt below is not missed.
            self.is_full.store(true, SeqCst);
            let connection = self.table.lock().try_insert(peer, &mut share, &end, self.now());
            if let Some(connection) = connection {
                self.is_full.store(false, SeqCst);
                return Ok(ConnectionPermit(ConnectionHandle { limiter: Arc::clone(self), connection }));
            }
            let _ = tokio::time::timeout(LOOK_AGAIN, self.vacancy.notified()).await;
        }
    }

    fn share(&self, peer: Peer) -> Result<PeerShare, TooManyConnections> {
        if let Some(share) = self.peers.enter(peer) {
            return Ok(share);
        }
        self.table.lock().evict_one_of(peer, self.now());
        self.peers.enter(peer).ok_or(TooManyConnections)
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }
}

impl ConnectionPermit {
    /// The connection that owns the permit.
    pub(crate) fn handle(&self) -> ConnectionHandle {
        self.0.clone()
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let ConnectionHandle { limiter, connection } = &self.0;
        limiter.table.lock().remove(connection);
        limiter.vacancy.notify_one();
    }
}

impl ConnectionHandle {
    /// Whether its peer recently flooded a connection.
    pub(super) fn is_suspect(&self) -> bool {
        self.limiter.peers.suspects.has(self.connection.peer, Instant::now())
    }

    /// Records that its peer flooded a connection.
    pub(super) fn mark_suspect(&self) {
        self.limiter.peers.suspects.note(self.connection.peer, Instant::now());
    }

    /// Counts a request until the guard is dropped.
    pub(crate) fn begin(&self) -> InFlight {
        self.connection.begin();
        InFlight(self.clone())
    }

    /// Waits until it is evicted.
    pub(crate) async fn wait_until_evicted(&self) {
        self.connection.end.cancelled().await;
        if !self.connection.is_evicted() {
            std::future::pending().await
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let ConnectionHandle { limiter, connection } = &self.0;
        connection.finish(|| limiter.now());
        if limiter.is_full.load(SeqCst) {
            limiter.vacancy.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> Peer {
        Peer::from_address([192, 0, 2, 1].into())
    }

    #[tokio::test]
    async fn a_newcomer_that_waits_gets_the_next_free_place() {
        let limiter = ConnectionLimiter::new(1, Peers::new(9));
        let permit = limiter.admit(peer(), CancellationToken::new()).await.unwrap();
        let request = permit.handle().begin();
        let newcomer = {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move { limiter.admit(peer(), CancellationToken::new()).await })
        };
        while !limiter.is_full.load(SeqCst) {
            tokio::task::yield_now().await;
        }
        drop((request, permit));
        assert!(newcomer.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_peer_whose_connections_are_all_busy_is_refused() {
        let limiter = ConnectionLimiter::new(9, Peers::new(1));
        let permit = limiter.admit(peer(), CancellationToken::new()).await.unwrap();
        let request = permit.handle().begin();
        assert_eq!(limiter.admit(peer(), CancellationToken::new()).await.unwrap_err(), TooManyConnections);
        drop((request, permit));
        assert!(limiter.admit(peer(), CancellationToken::new()).await.is_ok());
    }
}
