//! Background threads that yield the CPU to calls.

use std::time::{Duration, Instant};

/// The time that a thread works before it yields. Without yielding, the kernel may let it run for a time slice of
/// milliseconds while calls wait for its CPU.
const TURN: Duration = Duration::from_micros(50);

/// Divides a background thread's work into turns, and yields the CPU after each turn.
///
/// A thread that yields makes little progress on a busy machine. If it falls behind, it must stop yielding.
#[derive(Debug)]
pub struct Turns {
    began: Instant,
}

impl Turns {
    /// Starts the first turn.
    pub fn begin() -> Self {
        Self { began: Instant::now() }
    }

    /// Yields the CPU if the turn is over. Call it after each small piece of work.
    pub fn yield_if_over(&mut self) {
        if self.began.elapsed() > TURN {
            std::thread::yield_now();
            self.began = Instant::now();
        }
    }
}
