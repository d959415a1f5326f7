//! Tracks how long a cell may still run. The cell's own time stops while the user is asked. Its call's deadline
//! does not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// The remaining time of one cell.
pub(super) struct Clock {
    state: watch::Sender<State>,
    /// The latest time at which the call needs an answer.
    latest: Instant,
}

struct State {
    ends: Instant,
    /// The number of open questions, and the time since which any are open.
    questions: u32,
    since: Instant,
}

/// Pauses the clock for an open question until dropped.
pub(super) struct ClockPause(Arc<Clock>);

impl Drop for ClockPause {
    fn drop(&mut self) {
        self.0.resume(Instant::now());
    }
}

impl Clock {
    pub(super) fn new(time: Duration, latest: Instant, now: Instant) -> Self {
        let state = State { ends: now + time, questions: 0, since: now };
        Self { state: watch::Sender::new(state), latest }
    }

    /// Waits until the cell's time is over.
    pub(super) async fn over(&self) {
        let mut state = self.state.subscribe();
        loop {
            state.mark_unchanged();
            let changed = tokio::time::timeout_at(self.end().into(), state.changed()).await;
            if changed.is_err() && self.end() <= Instant::now() {
                return;
            }
        }
    }

    /// Pauses the clock until the returned guard is dropped.
    pub(super) fn pause(self: &Arc<Self>) -> ClockPause {
        self.stop(Instant::now());
        ClockPause(Arc::clone(self))
    }

    fn stop(&self, now: Instant) {
        self.state.send_modify(|state| {
            if state.questions == 0 {
                state.since = now;
            }
            state.questions += 1;
        });
    }

    fn resume(&self, now: Instant) {
        self.state.send_modify(|state| {
            if state.questions == 1 {
                state.ends += now.saturating_duration_since(state.since);
            }
            state.questions = state.questions.saturating_sub(1);
        });
    }

    fn end(&self) -> Instant {
        let state = self.state.borrow();
        if state.questions > 0 { self.latest } else { state.ends.min(self.latest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_stands_still_while_the_user_is_asked_and_the_calls_own_does_not() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let clock = Clock::new(Duration::from_secs(5), at(60), now);
        assert_eq!(clock.end(), at(5));
        clock.stop(at(1));
        clock.stop(at(2));
        assert_eq!(clock.end(), at(60));
        clock.resume(at(3));
        assert_eq!(clock.end(), at(60), "one is open");
        clock.resume(at(11));
        assert_eq!(clock.end(), at(15));
        // An answer without a question adds no time.
        clock.resume(at(12));
        assert_eq!(clock.end(), at(15));
        assert_eq!(Clock::new(Duration::from_secs(5), at(3), now).end(), at(3));
    }

    #[test]
    fn a_question_stops_the_time_while_it_is_open() {
        let now = Instant::now();
        let (ends, latest) = (now + Duration::from_secs(5), now + Duration::from_secs(60));
        let clock = Arc::new(Clock::new(Duration::from_secs(5), latest, now));
        let (one, other) = (clock.pause(), clock.pause());
        drop(one);
        assert_eq!(clock.end(), latest);
        drop(other);
        assert!(clock.end() >= ends && clock.end() < latest);
    }
}
