//! The open connections of a listener, and which of them to evict. Pure: times are milliseconds since the listener
//! started.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::peer::Peer;
use super::peers::PeerShare;

/// How long a connection must be idle before it can be evicted: its first request may still be in transit.
const LEAST_IDLE: Duration = Duration::from_secs(1);

/// The number of open connections allowed per evicted connection that is not closed yet.
const OPEN_FOR_EACH_LEAVING: usize = 8;

/// The open connections of one listener.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    limit: usize,
    connections: HashMap<u64, (Arc<Connection>, PeerShare)>,
    /// The number of evicted connections that are not closed yet.
    leaving: usize,
    next: u64,
}

#[derive(Debug)]
pub(super) struct Connection {
    /// Identifies it among all connections of the listener.
    pub(super) number: u64,
    pub(super) peer: Peer,
    in_flight: AtomicUsize,
    /// When its last request ended. The time of its acceptance before that.
    idle_since: AtomicU64,
    is_evicted: AtomicBool,
    /// Cancelled when the connection must end, for any reason.
    pub(super) end: CancellationToken,
}

impl Connection {
    /// Adds a request to those in flight.
    pub(super) fn begin(&self) {
        self.in_flight.fetch_add(1, SeqCst);
    }

    /// Removes a request from those in flight.
    pub(super) fn finish(&self, now: impl FnOnce() -> u64) {
        // Read the clock only for the last request. If two end at once, possibly neither does, and the connection
        // counts as idle for longer than it is.
        if self.in_flight.load(SeqCst) == 1 {
            self.idle_since.fetch_max(now(), SeqCst);
        }
        self.in_flight.fetch_sub(1, SeqCst);
    }

    /// Whether it has no request in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.load(SeqCst) == 0
    }

    /// Whether it must end, to make room for another connection.
    pub(super) fn is_evicted(&self) -> bool {
        self.is_evicted.load(SeqCst)
    }
}

impl ConnectionTable {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, connections: HashMap::new(), leaving: 0, next: 0 }
    }

    /// Adds a connection, and evicts another one if there are too many. Returns None, and does not take `share`, if
    /// none can be evicted.
    pub(super) fn try_insert(
        &mut self,
        peer: Peer,
        share: &mut Option<PeerShare>,
        end: &CancellationToken,
        now: u64,
    ) -> Option<Arc<Connection>> {
        if self.connections.len() >= self.limit && !self.evict(now, |_| true) {
            return None;
        }
        let connection = Arc::new(Connection {
            number: self.next,
            peer,
            in_flight: AtomicUsize::new(0),
            idle_since: AtomicU64::new(now),
            is_evicted: AtomicBool::new(false),
            end: end.clone(),
        });
        self.next += 1;
        self.connections.insert(connection.number, (Arc::clone(&connection), share.take()?));
        Some(connection)
    }

    /// Evicts the peer's connection that has been idle longest, if any.
    pub(super) fn evict_one_of(&mut self, peer: Peer, now: u64) {
        self.evict(now, |connection| connection.peer == peer);
    }

    /// Removes a connection that is closed.
    pub(super) fn remove(&mut self, connection: &Connection) {
        if self.connections.remove(&connection.number).is_none() {
            self.leaving -= 1;
        }
    }

    /// Evicts the connection that has been idle longest among those that `wanted` accepts. Returns false if none
    /// can be evicted.
    fn evict(&mut self, now: u64, wanted: impl Fn(&Connection) -> bool) -> bool {
        if self.leaving >= self.limit.div_ceil(OPEN_FOR_EACH_LEAVING) {
            return false;
        }
        let latest = now.checked_sub(LEAST_IDLE.as_millis() as u64);
        let idle = self.connections.values().filter(|(connection, _)| connection.is_idle() && wanted(connection));
        let idlest = idle.map(|(connection, _)| (connection.idle_since.load(SeqCst), connection.number)).min();
        let Some((_, number)) = idlest.filter(|(since, _)| Some(*since) <= latest) else { return false };
        let Some((connection, _share)) = self.connections.remove(&number) else { return false };
        self.leaving += 1;
        connection.is_evicted.store(true, SeqCst);
        connection.end.cancel();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::connections::peers::Peers;

    const IDLE: u64 = LEAST_IDLE.as_millis() as u64;

    fn peer(number: u8) -> Peer {
        Peer::from_address([192, 0, 2, number].into())
    }

    fn insert(table: &mut ConnectionTable, number: u8, now: u64) -> Option<Arc<Connection>> {
        let mut share = Peers::new(1).enter(peer(number));
        table.try_insert(peer(number), &mut share, &CancellationToken::new(), now)
    }

    #[test]
    fn a_newcomer_gets_the_place_of_the_connection_that_was_idle_longest() {
        let mut table = ConnectionTable::new(3);
        let [busy, recent, idlest] = [0, 1, 2].map(|now| insert(&mut table, 1, now).unwrap());
        busy.begin();
        recent.begin();
        recent.finish(|| 3);
        let newcomer = insert(&mut table, 2, IDLE + 9).unwrap();
        assert!(idlest.is_evicted() && idlest.end.is_cancelled());
        assert!([busy, recent, newcomer].iter().all(|it| !it.is_evicted() && !it.end.is_cancelled()));
    }

    #[test]
    fn a_connection_is_not_idle_before_its_first_request_may_have_come() {
        let mut table = ConnectionTable::new(1);
        let first = insert(&mut table, 1, 5).unwrap();
        assert!(insert(&mut table, 2, IDLE + 4).is_none());
        assert!(insert(&mut table, 2, IDLE + 5).is_some() && first.is_evicted());
    }

    #[test]
    fn while_all_are_busy_nobody_has_to_leave() {
        let mut table = ConnectionTable::new(2);
        let both = [0, 0].map(|now| insert(&mut table, 1, now).unwrap());
        both.iter().for_each(|it| it.begin());
        assert!(insert(&mut table, 2, 9 * IDLE).is_none());
        both[1].begin();
        both[1].finish(|| IDLE);
        assert!(insert(&mut table, 2, 9 * IDLE).is_none(), "it has another request in flight");
        table.remove(&both[0]);
        assert!(insert(&mut table, 2, 9 * IDLE).is_some());
    }

    #[test]
    fn connections_that_leave_and_do_not_close_are_bounded() {
        let mut table = ConnectionTable::new(2);
        let first = insert(&mut table, 1, 0).unwrap();
        assert!(insert(&mut table, 1, 1).is_some() && insert(&mut table, 1, IDLE).is_some());
        assert!(
            first.is_evicted() && insert(&mut table, 2, 9 * IDLE).is_none(),
            "three are open, and the limit is two"
        );
        table.remove(&first);
        assert!(insert(&mut table, 2, 9 * IDLE).is_some());
    }

    #[test]
    fn a_peer_gives_up_one_of_its_own() {
        let mut table = ConnectionTable::new(9);
        let [stranger, own] = [1, 2].map(|number| insert(&mut table, number, 0).unwrap());
        table.evict_one_of(peer(2), IDLE);
        assert!(own.is_evicted() && !stranger.is_evicted());
    }
}
