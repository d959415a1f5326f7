//! Measures the CPU time that a process tree has used, by repeated readings of its processes.
//!
//! A process that waits for a child inherits the child's time, which increases its `reaped`. So the total is the
//! time that processes have used themselves, plus reaped time that was not seen before.
//!
//! ```text
//! one look:   reads own and reaped of each process, parents before their children
//!             what has grown since the last look counts,
//!             but reaped time is first set off against ended processes, whose time was counted already
//! ```
//!
//! Parents are read first, because a child that is reaped between two readings would otherwise count twice. Time
//! that is reaped right after its parent was read counts at the next reading.
//!
//! The result is never too high. It is too low if a parent ignores `SIGCHLD` (wait(2)): the kernel then drops its
//! children's time, so that only the time in readings counts.

use std::collections::HashMap;
use std::time::Duration;

use super::proc::ProcessTimes;

/// The CPU time that a process tree has used so far.
#[derive(Debug, Default)]
pub(super) struct Spent {
    /// The processes in the last reading.
    known: HashMap<i32, ProcessTimes>,
    /// The time of processes that have ended. It was counted already, and will appear again as reaped time.
    owed: Duration,
    total: Duration,
}

impl Spent {
    /// Iterates over the processes in the last reading.
    pub(super) fn known(&self) -> impl Iterator<Item = (i32, ProcessTimes)> + '_ {
        self.known.iter().map(|(pid, times)| (*pid, *times))
    }

    /// Adds a reading: all processes of the tree, in the order in which they were read. Returns the total time.
    pub(super) fn add(&mut self, look: impl IntoIterator<Item = (i32, ProcessTimes)>) -> Duration {
        let (mut own, mut reaped) = (Duration::ZERO, Duration::ZERO);
        let mut now = HashMap::new();
        for (pid, times) in look {
            // The process was listed under two parents, because its parent changed.
            if now.contains_key(&pid) {
                continue;
            }
            let before = self.known.get(&pid).filter(|it| it.started == times.started).copied().unwrap_or_default();
            own += times.own.saturating_sub(before.own);
            reaped += times.reaped.saturating_sub(before.reaped);
            now.insert(pid, times);
        }
        let is_gone = |(pid, times): &(&i32, &ProcessTimes)| now.get(pid).is_none_or(|it| it.started != times.started);
        let gone: Duration = self.known.iter().filter(is_gone).map(|(_, times)| times.own + times.reaped).sum();
        self.known = now;
        self.owed += gone;
        let paid = self.owed.min(reaped);
        self.owed -= paid;
        self.total += own + (reaped - paid);
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    /// Creates a process with this id, own time and reaped time.
    const fn it(pid: i32, own: u64, reaped: u64) -> (i32, ProcessTimes) {
        (pid, ProcessTimes { started: 7, own: ms(own), reaped: ms(reaped) })
    }

    #[test]
    fn what_was_seen_and_then_reaped_counts_once() {
        let mut spent = Spent::default();
        assert_eq!(spent.add([it(1, 10, 0), it(2, 50, 0)]), ms(60));
        // It used 20 ms more before its parent waited for it.
        assert_eq!(spent.add([it(1, 10, 70)]), ms(80));
        assert_eq!(spent.add([it(1, 15, 70)]), ms(85));
    }

    #[test]
    fn what_was_never_seen_counts_when_it_is_reaped() {
        let mut spent = Spent::default();
        spent.add([it(1, 0, 0)]);
        assert_eq!(spent.add([it(1, 0, 5000)]), ms(5000));
    }

    #[test]
    fn what_is_reaped_after_its_parent_was_read_counts_once() {
        let mut spent = Spent::default();
        spent.add([it(1, 0, 0), it(2, 50, 0)]);
        assert_eq!(spent.add([it(1, 0, 0)]), ms(50));
        assert_eq!(spent.add([it(1, 0, 50), it(3, 5, 0)]), ms(55));
    }

    #[test]
    fn what_passes_through_two_parents_counts_once() {
        let mut spent = Spent::default();
        spent.add([it(1, 0, 0), it(2, 10, 0), it(3, 100, 0)]);
        assert_eq!(spent.add([it(1, 0, 0), it(2, 10, 110)]), ms(120));
        assert_eq!(spent.add([it(1, 0, 125)]), ms(125));
    }

    #[test]
    fn what_nobody_waits_for_counts_as_far_as_it_was_seen() {
        let mut spent = Spent::default();
        spent.add([it(1, 0, 0), it(2, 50, 0)]);
        assert_eq!(spent.add([it(1, 0, 0), it(3, 40, 0)]), ms(90));
        assert_eq!(spent.add([it(1, 0, 0)]), ms(90), "it does not become less");
    }

    #[test]
    fn an_id_that_is_used_again_is_another_process() {
        let mut spent = Spent::default();
        spent.add([it(1, 0, 0), it(2, 50, 0)]);
        let again = (2, ProcessTimes { started: 8, own: ms(30), reaped: ms(0) });
        assert_eq!(spent.add([it(1, 0, 55), again]), ms(85));
    }

    #[test]
    fn a_process_that_is_listed_twice_counts_once() {
        let mut spent = Spent::default();
        assert_eq!(spent.add([it(1, 0, 0), it(2, 50, 0), it(2, 60, 0)]), ms(50));
        assert_eq!(spent.add([it(1, 0, 0), it(2, 60, 0)]), ms(60));
    }
}
