//! How many connections each peer has. The shards share the counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::peer::Peer;
use super::suspects::Suspects;

/// The peers of a gateway.
#[derive(Debug)]
pub(crate) struct Peers {
    limit: usize,
    /// A peer without connections is not in it.
    counts: Mutex<HashMap<Peer, usize>>,
    pub(super) suspects: Suspects,
}

/// One connection of a peer, until this is dropped.
#[derive(Debug)]
pub(crate) struct PeerShare {
    /// None for loopback: all users of the machine are one peer there.
    of: Option<(Arc<Peers>, Peer)>,
}

impl Peers {
    /// `limit`: how many connections a peer may have. Loopback has no limit.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, counts: Mutex::default(), suspects: Suspects::default() })
    }

    /// Counts one more connection. None if the peer has as many as it may.
    pub(crate) fn enter(self: &Arc<Self>, peer: Peer) -> Option<PeerShare> {
        if peer.is_loopback() {
            return Some(PeerShare { of: None });
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(peer).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(PeerShare { of: Some((Arc::clone(self), peer)) })
    }
}

impl Drop for PeerShare {
    fn drop(&mut self) {
        let Some((peers, peer)) = &self.of else { return };
        let mut counts = peers.counts.lock().unwrap_or_else(PoisonError::into_inner);
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
        Peer::of(text.parse().unwrap())
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
        assert!(peers.counts.lock().unwrap().is_empty(), "nothing is kept of who is gone");
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
