//! Eviction from bounded stores that principals share: the principal with the most entries loses one. Others can't
//! evict what is within an even share, and a single principal may fill the store.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::HashMap;

/// Values that are kept for a while, oldest first.
#[derive(Debug)]
pub(super) struct ExpiringStore<V> {
    entries: VecDeque<ExpiringEntry<V>>,
    bytes: usize,
}

#[derive(Debug)]
struct ExpiringEntry<V> {
    at: Instant,
    principal: Arc<str>,
    bytes: usize,
    value: V,
}

impl<V> Default for ExpiringStore<V> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), bytes: 0 }
    }
}

impl<V> ExpiringStore<V> {
    /// Adds a value. The caller shrinks the store afterwards.
    pub(super) fn push(&mut self, now: Instant, principal: Arc<str>, bytes: usize, value: V) {
        self.bytes += bytes;
        self.entries.push_back(ExpiringEntry { at: now, principal, bytes, value });
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.iter().map(|it| &it.value)
    }

    /// Drops expired values. While the others take too much memory, drops the oldest one of the principal that has
    /// the most.
    pub(super) fn shrink(&mut self, now: Instant, lifetime: Duration, max_bytes: usize) {
        while self.entries.front().is_some_and(|it| now.saturating_duration_since(it.at) >= lifetime) {
            self.remove(0);
        }
        while self.bytes > max_bytes {
            let most = heaviest(self.entries.iter().map(|it| (&*it.principal, it.bytes))).map(str::to_owned);
            if !most.is_some_and(|principal| self.remove_oldest(&principal)) {
                return;
            }
        }
    }

    /// Drops the oldest value of a principal. Returns false if it has none.
    pub(super) fn remove_oldest(&mut self, principal: &str) -> bool {
        let oldest = self.entries.iter().position(|it| *it.principal == *principal);
        oldest.map(|place| self.remove(place)).is_some()
    }

    fn remove(&mut self, place: usize) {
        self.bytes -= self.entries.remove(place).map_or(0, |it| it.bytes);
    }
}

/// Returns the principal with the largest total weight in `kept`.
pub(super) fn heaviest<'k>(kept: impl Iterator<Item = (&'k str, usize)>) -> Option<&'k str> {
    let mut weights: HashMap<&str, usize> = HashMap::default();
    for (principal, weight) in kept {
        *weights.entry(principal).or_default() += weight;
    }
    // Deterministic, regardless of the map's order.
    weights
        .into_iter()
        .max_by(|(one, mine), (other, its)| mine.cmp(its).then(other.cmp(one)))
        .map(|(principal, _)| principal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_principal_that_keeps_most_is_evicted() {
        assert_eq!(heaviest([("a", 3), ("b", 2), ("b", 2)].into_iter()), Some("b"));
        assert_eq!(heaviest([("b", 1), ("a", 1)].into_iter()), Some("a"));
        assert_eq!(heaviest(std::iter::empty()), None);
    }
}
