//! Spreads the starts of long calls. Pure: the caller passes `now`.
//!
//! Long calls that start together tend to end together, and then the next ones start together too. Each time, the
//! processors are busy with starting processes, and other callers' short calls have to wait. Calls that were
//! spread once stay spread.

use std::time::{Duration, Instant};

use super::pace::SHORT;

/// The maximum time between starts of long calls. It is several times the cost of starting and ending one process
/// on one of two cores, because a machine may run several workers.
const APART: Duration = Duration::from_millis(40);

/// Starting as many calls as the gate has places takes at most one call's time divided by this.
pub(super) const PART: u32 = 8;

/// The earliest start of a gate's next long call.
#[derive(Debug, Default)]
pub(super) struct Stagger(Option<Instant>);

impl Stagger {
    /// Returns when a call with a place starts, if it is expected to take this long. Returns `None` for a short
    /// call, which does not wait.
    pub(super) fn start(&mut self, pace: Option<Duration>, places: usize, now: Instant) -> Option<Instant> {
        let pace = pace.filter(|pace| *pace > SHORT)?;
        // Calls that were cancelled before they started must not delay others for longer than a full gate would.
        let start = self.0.map_or(now, |next| next.clamp(now, now + pace / PART));
        let places = u32::try_from(places.max(1)).unwrap_or(u32::MAX);
        self.0 = Some(start + APART.min(pace / places.saturating_mul(PART)));
        (start > now).then_some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(5);

    #[test]
    fn long_calls_start_apart_and_one_alone_at_once() {
        let (mut stagger, now) = (Stagger::default(), Instant::now());
        let mut start = |now| stagger.start(Some(LONG), 8, now);
        assert_eq!(start(now), None);
        assert_eq!(start(now), Some(now + APART));
        assert_eq!(start(now), Some(now + APART * 2));
        assert_eq!(start(now + LONG), None);
    }

    #[test]
    fn short_calls_and_those_of_an_unknown_skill_start_at_once() {
        let (mut stagger, now) = (Stagger::default(), Instant::now());
        for _ in 0..8 {
            stagger.start(Some(LONG), 8, now);
        }
        assert_eq!(stagger.start(Some(SHORT), 8, now), None);
        assert_eq!(stagger.start(None, 8, now), None);
    }

    #[test]
    fn calls_that_are_cancelled_before_they_start_delay_the_next_by_an_eighth_of_a_call_at_most() {
        let (mut stagger, now) = (Stagger::default(), Instant::now());
        for _ in 0..100_000 {
            stagger.start(Some(LONG), 8, now);
        }
        assert_eq!(stagger.start(Some(LONG), 8, now), Some(now + LONG / PART));
        assert_eq!(stagger.start(Some(SHORT * 2), 8, now), Some(now + SHORT * 2 / PART));
    }

    #[test]
    fn filling_every_place_takes_an_eighth_of_a_call_at_most() {
        for (places, pace) in [(1, LONG), (8, LONG), (64, SHORT * 2), (100_000, LONG)] {
            let (mut stagger, now) = (Stagger::default(), Instant::now());
            let last = (0..places).filter_map(|_| stagger.start(Some(pace), places, now)).last();
            assert!(last.is_none_or(|last| last - now <= pace / PART), "{places} places, {pace:?}");
        }
    }
}
