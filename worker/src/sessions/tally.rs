//! Counts the calls of each caller.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use openskill_sandbox::sessions::key::SessionOwner;
use parking_lot::Mutex;

/// The maximum number of remembered callers. The least recently used one is forgotten first.
const MOST_CALLERS: usize = 1024;

/// A caller's counters, since the worker started or last forgot the caller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SessionCounts {
    /// The number of cells that ran.
    pub(crate) cells: u64,
    /// The number of cells that ended with an exception or did not end.
    pub(crate) failed: u64,
    /// The number of cells that a timeout interrupted.
    pub(crate) timed_out: u64,
    /// The number of sessions that were started.
    pub(crate) started: u64,
    /// The number of sessions whose state was lost with their process.
    pub(crate) lost: u64,
    /// The total time of all cells, and the time of the longest one.
    pub(crate) total: Duration,
    pub(crate) longest: Duration,
    /// How long the last start of a session's process took.
    pub(crate) last_start: Option<Duration>,
}

/// The counters of each caller, and their total.
#[derive(Default)]
pub(crate) struct SessionTally(Mutex<TallyState>);

#[derive(Default)]
struct TallyState {
    total: SessionCounts,
    callers: HashMap<SessionOwner, (Instant, SessionCounts)>,
}

impl SessionTally {
    /// Applies `change` to the caller's counters and to the total.
    pub(crate) fn count(&self, owner: &SessionOwner, now: Instant, change: impl Fn(&mut SessionCounts)) {
        let TallyState { total, callers } = &mut *self.0.lock();
        change(total);
        if callers.len() >= MOST_CALLERS && !callers.contains_key(owner) {
            let oldest = callers.iter().min_by_key(|(_, (used, _))| *used).map(|(owner, _)| owner.clone());
            oldest.map(|oldest| callers.remove(&oldest));
        }
        let (used, counts) = callers.entry(owner.clone()).or_insert((now, SessionCounts::default()));
        *used = now;
        change(counts);
    }

    /// Returns a caller's counters, which are zero for an unknown caller.
    pub(crate) fn counts(&self, owner: &SessionOwner) -> SessionCounts {
        self.0.lock().callers.get(owner).map(|(_, counts)| *counts).unwrap_or_default()
    }

    /// Returns the counters over all callers, since the worker started.
    pub(crate) fn total(&self) -> SessionCounts {
        self.0.lock().total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_counted_apart_and_only_so_many() {
        let (tally, now) = (SessionTally::default(), Instant::now());
        let owner = |number: usize| SessionOwner {
            group: String::new(),
            principal: number.to_string(),
            conversation: String::new(),
        };
        for number in 0..=MOST_CALLERS {
            let then = now + Duration::from_millis(number as u64);
            tally.count(&owner(number), then, |it| it.cells += number as u64);
        }
        assert_eq!(tally.0.lock().callers.len(), MOST_CALLERS);
        assert_eq!(tally.counts(&owner(0)).cells, 0, "it was forgotten");
        assert_eq!((tally.counts(&owner(1)).cells, tally.counts(&owner(2)).cells), (1, 2));
        assert_eq!(tally.total().cells, (0..=MOST_CALLERS as u64).sum::<u64>(), "nobody is forgotten in the total");
    }
}
