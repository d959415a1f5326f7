//! State by key behind several locks (lock striping), so that shards seldom wait for one another.

use std::hash::Hash;

use ahash::RandomState;
use parking_lot::{Mutex, MutexGuard};

/// The number of locks.
pub(crate) const STRIPES: usize = 16;

/// Locks, each around one `T`. Each key belongs to one of them.
#[derive(Debug)]
pub(crate) struct Striped<T> {
    stripes: [Mutex<T>; STRIPES],
    hasher: RandomState,
}

impl<T> Striped<T> {
    pub(crate) fn new(stripe: impl Fn() -> T) -> Self {
        Self { stripes: std::array::from_fn(|_| Mutex::new(stripe())), hasher: RandomState::new() }
    }

    /// Locks the stripe that a key belongs to.
    pub(crate) fn lock<K: Hash + ?Sized>(&self, key: &K) -> MutexGuard<'_, T> {
        self.stripes[self.hasher.hash_one(key) as usize % STRIPES].lock()
    }

    /// Locks each stripe, one after the other.
    pub(crate) fn all(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.stripes.iter().map(Mutex::lock)
    }
}
