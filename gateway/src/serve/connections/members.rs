//! Who has a place at a listener, and who has to give it up. Pure: times are milliseconds since the listener began.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::peer::Peer;
use super::peers::PeerShare;

/// How long a connection has to be idle before a newcomer gets its place: its first request may be on its way.
const LEAST_IDLE: Duration = Duration::from_secs(1);

/// For each connection that ends to make room, this many may be open. It takes it a moment to close.
const OPEN_FOR_EACH_LEAVING: usize = 8;

/// The connections of one listener.
#[derive(Debug)]
pub(super) struct Members {
    limit: usize,
    seats: HashMap<u64, (Arc<Seat>, PeerShare)>,
    /// How many connections gave up their place and are not closed yet.
    leaving: usize,
    next: u64,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Seat {
    /// Its number among all connections of the listener.
    pub(super) number: u64,
    pub(super) peer: Peer,
    in_flight: AtomicUsize,
    /// When its last request ended, or when it came.
    idle_since: AtomicU64,
    is_evicted: AtomicBool,
    /// Cancelled when the connection is to end, for whatever reason.
    pub(super) end: CancellationToken,
}

impl Seat {
    /// A request begins.
    pub(super) fn begin(&self) {
        self.in_flight.fetch_add(1, SeqCst);
    }

    /// A request ends.
    pub(super) fn finish(&self, now: impl FnOnce() -> u64) {
        // Only the last one reads the clock. Of two that end at once neither may: the connection then counts as idle for
        // longer than it is.
        if self.in_flight.load(SeqCst) == 1 {
            self.idle_since.fetch_max(now(), SeqCst);
        }
        self.in_flight.fetch_sub(1, SeqCst);
    }

    /// Whether it has no request in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.load(SeqCst) == 0
    }

    /// Whether it has to give up its place.
    pub(super) fn is_evicted(&self) -> bool {
        self.is_evicted.load(SeqCst)
    }
}

impl Members {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, seats: HashMap::new(), leaving: 0, next: 0 }
    }

    /// Gives a newcomer a place, if need be that of another. None if all have to wait; then `share` is not taken.
    pub(super) fn seat(
        &mut self,
        peer: Peer,
        share: &mut Option<PeerShare>,
        end: &CancellationToken,
        now: u64,
    ) -> Option<Arc<Seat>> {
        if self.seats.len() >= self.limit && !self.evict(now, |_| true) {
            return None;
        }
        let seat = Arc::new(Seat {
            number: self.next,
            peer,
            in_flight: AtomicUsize::new(0),
            idle_since: AtomicU64::new(now),
            is_evicted: AtomicBool::new(false),
            end: end.clone(),
        });
        self.next += 1;
        self.seats.insert(seat.number, (Arc::clone(&seat), share.take()?));
        Some(seat)
    }

    /// Ends the connection of a peer that has been idle longest, if there is one.
    pub(super) fn evict_one_of(&mut self, peer: Peer, now: u64) {
        self.evict(now, |seat| seat.peer == peer);
    }

    /// A connection is closed.
    pub(super) fn remove(&mut self, seat: &Seat) {
        if self.seats.remove(&seat.number).is_none() {
            self.leaving -= 1;
        }
    }

    /// Ends the connection that has been idle longest among those that are wanted. False if there is none.
    fn evict(&mut self, now: u64, wanted: impl Fn(&Seat) -> bool) -> bool {
        if self.leaving >= self.limit.div_ceil(OPEN_FOR_EACH_LEAVING) {
            return false;
        }
        let latest = now.checked_sub(LEAST_IDLE.as_millis() as u64);
        let idle = self.seats.values().filter(|(seat, _)| seat.is_idle() && wanted(seat));
        let idlest = idle.map(|(seat, _)| (seat.idle_since.load(SeqCst), seat.number)).min();
        let Some((_, number)) = idlest.filter(|(since, _)| Some(*since) <= latest) else { return false };
        let Some((seat, _share)) = self.seats.remove(&number) else { return false };
        self.leaving += 1;
        seat.is_evicted.store(true, SeqCst);
        seat.end.cancel();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::connections::peers::Peers;

    const IDLE: u64 = LEAST_IDLE.as_millis() as u64;

    fn peer(number: u8) -> Peer {
        Peer::of([192, 0, 2, number].into())
    }

    fn seat(members: &mut Members, number: u8, now: u64) -> Option<Arc<Seat>> {
        let mut share = Peers::new(1).enter(peer(number));
        members.seat(peer(number), &mut share, &CancellationToken::new(), now)
    }

    #[test]
    fn a_newcomer_gets_the_place_of_the_connection_that_was_idle_longest() {
        let mut members = Members::new(3);
        let [busy, recent, idlest] = [0, 1, 2].map(|now| seat(&mut members, 1, now).unwrap());
        busy.begin();
        recent.begin();
        recent.finish(|| 3);
        let newcomer = seat(&mut members, 2, IDLE + 9).unwrap();
        assert!(idlest.is_evicted() && idlest.end.is_cancelled());
        assert!([busy, recent, newcomer].iter().all(|it| !it.is_evicted() && !it.end.is_cancelled()));
    }

    #[test]
    fn a_connection_is_not_idle_before_its_first_request_may_have_come() {
        let mut members = Members::new(1);
        let first = seat(&mut members, 1, 5).unwrap();
        assert!(seat(&mut members, 2, IDLE + 4).is_none());
        assert!(seat(&mut members, 2, IDLE + 5).is_some() && first.is_evicted());
    }

    #[test]
    fn while_all_are_busy_nobody_has_to_leave() {
        let mut members = Members::new(2);
        let both = [0, 0].map(|now| seat(&mut members, 1, now).unwrap());
        both.iter().for_each(|it| it.begin());
        assert!(seat(&mut members, 2, 9 * IDLE).is_none());
        both[1].begin();
        both[1].finish(|| IDLE);
        assert!(seat(&mut members, 2, 9 * IDLE).is_none(), "it has another request in flight");
        members.remove(&both[0]);
        assert!(seat(&mut members, 2, 9 * IDLE).is_some());
    }

    #[test]
    fn connections_that_leave_and_do_not_close_are_bounded() {
        let mut members = Members::new(2);
        let first = seat(&mut members, 1, 0).unwrap();
        assert!(seat(&mut members, 1, 1).is_some() && seat(&mut members, 1, IDLE).is_some());
        assert!(
            first.is_evicted() && seat(&mut members, 2, 9 * IDLE).is_none(),
            "three are open, and the limit is two"
        );
        members.remove(&first);
        assert!(seat(&mut members, 2, 9 * IDLE).is_some());
    }

    #[test]
    fn a_peer_gives_up_one_of_its_own() {
        let mut members = Members::new(9);
        let [stranger, own] = [1, 2].map(|number| seat(&mut members, number, 0).unwrap());
        members.evict_one_of(peer(2), IDLE);
        assert!(own.is_evicted() && !stranger.is_evicted());
    }
}
