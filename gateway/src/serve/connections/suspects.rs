//! Peers that recently flooded a connection. Their next connections get fewer streams.
//!
//! A client that floods a connection is disconnected after a bounded number of frames, but may reconnect at once.
//! Fewer streams per connection bound the cost of these reconnects.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::peer::Peer;

/// How long a peer stays suspect.
const SUSPICION: Duration = Duration::from_secs(60);

/// The maximum number of remembered peers. Beyond it, every peer is suspect, because the flood comes from many
/// addresses.
const MAX_SUSPECTS: usize = 4096;

/// The suspect peers, each with an expiry time. Pure: the caller passes the time.
#[derive(Debug, Default)]
pub(super) struct Suspects(Mutex<HashMap<Peer, Instant>>);

impl Suspects {
    /// Notes that a peer flooded a connection.
    pub(super) fn note(&self, peer: Peer, now: Instant) {
        let mut suspects = self.0.lock();
        if suspects.len() >= MAX_SUSPECTS {
            suspects.retain(|_, until| *until > now);
        }
        if suspects.len() < MAX_SUSPECTS || suspects.contains_key(&peer) {
            suspects.insert(peer, now + SUSPICION);
        }
    }

    /// Whether a peer is suspect.
    pub(super) fn has(&self, peer: Peer, now: Instant) -> bool {
        let suspects = self.0.lock();
        match suspects.get(&peer) {
            Some(until) => *until > now,
            None => suspects.len() >= MAX_SUSPECTS && suspects.values().all(|until| *until > now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u32) -> Peer {
        Peer::from_address(std::net::Ipv4Addr::from_bits(number).into())
    }

    #[test]
    fn a_peer_that_flooded_is_under_suspicion_for_a_while() {
        let (suspects, now) = (Suspects::default(), Instant::now());
        suspects.note(peer(1), now);
        assert!(suspects.has(peer(1), now) && !suspects.has(peer(2), now));
        assert!(!suspects.has(peer(1), now + SUSPICION));
    }

    #[test]
    fn a_flood_from_everywhere_puts_everybody_under_suspicion_and_takes_bounded_memory() {
        let (suspects, now) = (Suspects::default(), Instant::now());
        for number in 0..2 * MAX_SUSPECTS as u32 {
            suspects.note(peer(number), now);
        }
        assert_eq!(suspects.0.lock().len(), MAX_SUSPECTS);
        assert!(suspects.has(peer(u32::MAX), now));
        assert!(!suspects.has(peer(u32::MAX), now + SUSPICION));
    }
}
