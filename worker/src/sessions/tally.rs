//! What is counted of the calls of each caller.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::key::Owner;

/// How many callers are remembered. The least recently used one is forgotten first.
const MOST_CALLERS: usize = 1024;

/// Counters of one caller, since the worker started or last forgot it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Cells that ran.
    pub(crate) cells: u64,
    /// Those that ended with an exception, or did not end.
    pub(crate) failed: u64,
    /// Those that were interrupted because their time was over.
    pub(crate) timed_out: u64,
    /// Sessions that began.
    pub(crate) started: u64,
    /// Sessions whose state was lost with their process.
    pub(crate) lost: u64,
    /// How long all cells ran, and the longest of them.
    pub(crate) total: Duration,
    pub(crate) longest: Duration,
    /// How long it took to start a session's process, the last time.
    pub(crate) last_start: Option<Duration>,
}

/// The counters of each caller, and of all together.
#[derive(Default)]
pub(crate) struct Tally(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    total: Counts,
    callers: HashMap<Owner, (Instant, Counts)>,
}

impl Tally {
    /// Updates the counters of a caller.
    pub(crate) fn count(&self, owner: &Owner, now: Instant, change: impl Fn(&mut Counts)) {
        let Kept { total, callers } = &mut *self.lock();
        change(total);
        if callers.len() >= MOST_CALLERS && !callers.contains_key(owner) {
            let oldest = callers.iter().min_by_key(|(_, (used, _))| *used).map(|(owner, _)| owner.clone());
            oldest.map(|oldest| callers.remove(&oldest));
        }
        let (used, counts) = callers.entry(owner.clone()).or_insert((now, Counts::default()));
        *used = now;
        change(counts);
    }

    /// The counters of a caller.
    pub(crate) fn of(&self, owner: &Owner) -> Counts {
        self.lock().callers.get(owner).map(|(_, counts)| *counts).unwrap_or_default()
    }

    /// The counters of all callers together, since the worker started.
    pub(crate) fn total(&self) -> Counts {
        self.lock().total
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_counted_apart_and_only_so_many() {
        let (tally, now) = (Tally::default(), Instant::now());
        let owner =
            |number: usize| Owner { group: String::new(), principal: number.to_string(), conversation: String::new() };
        for number in 0..=MOST_CALLERS {
            let then = now + Duration::from_millis(number as u64);
            tally.count(&owner(number), then, |it| it.cells += number as u64);
        }
        assert_eq!(tally.lock().callers.len(), MOST_CALLERS);
        assert_eq!(tally.of(&owner(0)).cells, 0, "it was forgotten");
        assert_eq!((tally.of(&owner(1)).cells, tally.of(&owner(2)).cells), (1, 2));
        assert_eq!(tally.total().cells, (0..=MOST_CALLERS as u64).sum::<u64>(), "nobody is forgotten in the total");
    }
}
