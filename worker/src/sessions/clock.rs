//! How long a cell may still run: its own time, which stands still while the user is asked, and the end of its call, which
//! does not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// The remaining time of one cell.
pub(super) struct Clock {
    state: Mutex<State>,
    /// The latest time at which its call needs an answer.
    latest: Instant,
    changed: Notify,
}

struct State {
    ends: Instant,
    /// Open questions, and since when there are any.
    questions: u32,
    since: Instant,
}

/// A question that is open.
pub(super) struct Asked(Arc<Clock>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.go_on(Instant::now());
    }
}

impl Clock {
    pub(super) fn new(time: Duration, latest: Instant, now: Instant) -> Self {
        let state = State { ends: now + time, questions: 0, since: now };
        Self { state: Mutex::new(state), latest, changed: Notify::new() }
    }

    /// Waits until the time is up.
    pub(super) async fn over(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if tokio::time::timeout_at(self.end().into(), changed).await.is_err() && self.end() <= Instant::now() {
                return;
            }
        }
    }

    /// Stops the clock until the returned guard is dropped.
    pub(super) fn asked(self: &Arc<Self>) -> Asked {
        self.stop(Instant::now());
        Asked(Arc::clone(self))
    }

    fn stop(&self, now: Instant) {
        let mut state = self.lock();
        if state.questions == 0 {
            state.since = now;
        }
        state.questions += 1;
        drop(state);
        self.changed.notify_waiters();
    }

    fn go_on(&self, now: Instant) {
        let mut state = self.lock();
        if state.questions == 1 {
            let asked_for = now.saturating_duration_since(state.since);
            state.ends += asked_for;
        }
        state.questions = state.questions.saturating_sub(1);
        drop(state);
        self.changed.notify_waiters();
    }

    fn end(&self) -> Instant {
        let state = self.lock();
        if state.questions > 0 { self.latest } else { state.ends.min(self.latest) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        clock.go_on(at(3));
        assert_eq!(clock.end(), at(60), "one is open");
        clock.go_on(at(11));
        assert_eq!(clock.end(), at(15));
        // An answer to nothing gives no time.
        clock.go_on(at(12));
        assert_eq!(clock.end(), at(15));
        assert_eq!(Clock::new(Duration::from_secs(5), at(3), now).end(), at(3));
    }

    #[test]
    fn a_question_stops_the_time_while_it_is_open() {
        let now = Instant::now();
        let (ends, latest) = (now + Duration::from_secs(5), now + Duration::from_secs(60));
        let clock = Arc::new(Clock::new(Duration::from_secs(5), latest, now));
        let (one, other) = (clock.asked(), clock.asked());
        drop(one);
        assert_eq!(clock.end(), latest);
        drop(other);
        assert!(clock.end() >= ends && clock.end() < latest);
    }
}
