//! Counts the connections of each peer. The shards share the counts.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::peer::Peer;
use super::suspects::Suspects;

/// The connection counts of a gateway.
#[derive(Debug)]
pub(crate) struct Peers {
    limit: usize,
    /// Connections by peer. A peer without connections has no entry.
    counts: Mutex<HashMap<Peer, usize>>,
    pub(super) suspects: Suspects,
}

/// Counts one connection of a peer until it is dropped.
#[derive(Debug)]
pub(crate) struct PeerShare {
    /// None for loopback, which is not limited: all local users look like one peer.
    counted: Option<(Arc<Peers>, Peer)>,
}

impl Peers {
    /// `limit` is the maximum number of connections per peer. Loopback has no limit.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, counts: Mutex::default(), suspects: Suspects::default() })
    }

    /// Counts one more connection of a peer. None if the peer is at its limit.
    pub(crate) fn enter(self: &Arc<Self>, peer: Peer) -> Option<PeerShare> {
        if peer.is_loopback() {
            return Some(PeerShare { counted: None });
        }
        let mut counts = self.counts.lock();
        let count = counts.entry(peer).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(PeerShare { counted: Some((Arc::clone(self), peer)) })
    }
}

impl Drop for PeerShare {
    fn drop(&mut self) {
        let Some((peers, peer)) = &self.counted else { return };
        let mut counts = peers.counts.lock();
        if let Some(count) = counts.get_mut(peer) {
            *count -= 1;
            if *count == 0 {
                counts.remove(peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::from_address(text.parse().unwrap())
    }

    #[test]
    fn a_peer_may_have_so_many_connections_and_others_theirs() {
        let peers = Peers::new(2);
        let held = [peers.enter(peer("192.0.2.1")).unwrap(), peers.enter(peer("192.0.2.1")).unwrap()];
        assert!(peers.enter(peer("192.0.2.1")).is_none());
        assert!(peers.enter(peer("::ffff:192.0.2.1")).is_none(), "the same address");
        assert!(peers.enter(peer("192.0.2.2")).is_some());
        drop(held);
        assert!(peers.enter(peer("192.0.2.1")).is_some());
        assert!(peers.counts.lock().is_empty(), "nothing is kept of who is gone");
    }

    #[test]
    fn an_ipv6_network_is_one_peer() {
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:1"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
    }

    #[test]
    fn loopback_has_no_limit() {
        let peers = Peers::new(1);
        let held: Vec<_> = ["127.0.0.1", "127.0.0.1", "::1", "::1", "::ffff:127.0.0.1"]
            .map(|it| peers.enter(peer(it)).unwrap())
            .into();
        assert_eq!(held.len(), 5);
    }
}
