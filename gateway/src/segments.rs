//! Something by name, behind several locks, so that shards of the gateway seldom wait for one another.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ahash::RandomState;

/// How many locks there are.
pub(crate) const SEGMENTS: usize = 16;

/// A part behind each lock; a name belongs to one of them.
#[derive(Debug)]
pub(crate) struct Segments<T> {
    parts: [Mutex<T>; SEGMENTS],
    hasher: RandomState,
}

impl<T> Segments<T> {
    pub(crate) fn new(part: impl Fn() -> T) -> Self {
        Self { parts: std::array::from_fn(|_| Mutex::new(part())), hasher: RandomState::new() }
    }

    /// The part that a name belongs to.
    pub(crate) fn of(&self, name: &str) -> MutexGuard<'_, T> {
        lock(&self.parts[self.hasher.hash_one(name) as usize % SEGMENTS])
    }

    /// All parts, one after the other.
    pub(crate) fn all(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.parts.iter().map(lock)
    }
}

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held; if something did, what is there is still whole.
    part.lock().unwrap_or_else(PoisonError::into_inner)
}
