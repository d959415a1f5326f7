//! Limits the log lines of one kind per second. Pure: the caller passes the time.
//!
//! A client that is rejected a million times must not fill a disk. The first lines of each second show what
//! happens. The rest are only counted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The time window of a limit.
const WINDOW: Duration = Duration::from_secs(1);

/// Counts lines by kind. Kinds are string literals, so their number is limited.
#[derive(Debug, Default)]
pub struct Sampler {
    kinds: BTreeMap<&'static str, Count>,
}

#[derive(Debug)]
struct Count {
    /// The start of the current window.
    begun: Instant,
    /// The number of lines in the current window.
    admitted: u32,
    /// The number of lines suppressed since the last report.
    left_out: u64,
}

impl Sampler {
    /// Creates an empty sampler.
    pub const fn new() -> Self {
        Self { kinds: BTreeMap::new() }
    }

    /// Whether to log a line of this kind now. At most `limit` lines of a kind are logged per second.
    pub fn admits(&mut self, kind: &'static str, limit: u32, now: Instant) -> bool {
        let count = self.kinds.entry(kind).or_insert(Count { begun: now, admitted: 0, left_out: 0 });
        if now.saturating_duration_since(count.begun) >= WINDOW {
            (count.begun, count.admitted) = (now, 0);
        }
        let is_admitted = count.admitted < limit;
        if is_admitted {
            count.admitted += 1;
        } else {
            count.left_out += 1;
        }
        is_admitted
    }

    /// Returns the number of lines of each kind suppressed since the last report, and resets it. Omits kinds
    /// without suppressed lines.
    pub fn report(&mut self) -> Vec<(&'static str, u64)> {
        let counts = self.kinds.iter_mut().map(|(kind, count)| (*kind, std::mem::take(&mut count.left_out)));
        counts.filter(|(_, left_out)| *left_out > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(sampler: &mut Sampler, kind: &'static str, times: u32, now: Instant) -> usize {
        (0..times).filter(|_| sampler.admits(kind, 10, now)).count()
    }

    #[test]
    fn the_first_lines_of_a_second_are_logged_and_the_others_counted() {
        let (mut sampler, now) = (Sampler::new(), Instant::now());
        assert_eq!(admitted(&mut sampler, "a", 10, now), 10);
        assert_eq!(sampler.report(), []);
        assert_eq!(admitted(&mut sampler, "a", 1_000_000, now + Duration::from_millis(999)), 0);
        assert_eq!(sampler.report(), [("a", 1_000_000)]);
        assert_eq!(sampler.report(), [], "each line is reported once");
    }

    #[test]
    fn a_new_second_admits_lines_again() {
        let (mut sampler, now) = (Sampler::new(), Instant::now());
        for second in 0..3 {
            assert_eq!(admitted(&mut sampler, "a", 25, now + Duration::from_secs(second)), 10);
        }
        assert_eq!(sampler.report(), [("a", 45)]);
    }

    #[test]
    fn a_flood_of_one_kind_hides_no_other() {
        let (mut sampler, now) = (Sampler::new(), Instant::now());
        assert_eq!(admitted(&mut sampler, "flood", 1000, now), 10);
        assert_eq!(admitted(&mut sampler, "rare", 1, now), 1);
        assert_eq!(sampler.report(), [("flood", 990)]);
    }

    #[test]
    fn a_clock_that_goes_back_admits_no_more() {
        let (mut sampler, now) = (Sampler::new(), Instant::now() + Duration::from_secs(10));
        assert_eq!(admitted(&mut sampler, "a", 10, now), 10);
        assert_eq!(admitted(&mut sampler, "a", 10, now - Duration::from_secs(5)), 0);
    }
}
