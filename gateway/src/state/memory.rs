//! A budget for the memory that clients make the gateway hold: request bodies that arrive, answers that nobody reads, what is
//! recorded of calls that run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One budget of requests and answers, in bytes. Past it, large bodies are refused and large answers that are not read are dropped.
const MAX_BYTES: usize = 512 * 1024 * 1024;

/// Bodies up to this size are not counted, so that one client's large bodies do not block another's small requests.
pub(crate) const SMALL: usize = 64 * 1024;

/// One budget of a gateway.
#[derive(Debug, Clone)]
pub(crate) struct MemoryBudget(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    held: AtomicUsize,
    most: usize,
}

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    budget: MemoryBudget,
    bytes: usize,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self::of(MAX_BYTES)
    }
}

impl MemoryBudget {
    /// One of so many bytes.
    pub(crate) fn of(most: usize) -> Self {
        Self(Arc::new(Budget { held: AtomicUsize::new(0), most }))
    }

    /// A share that holds nothing yet.
    pub(crate) fn share(&self) -> MemoryShare {
        MemoryShare { budget: self.clone(), bytes: 0 }
    }

    /// How many bytes are held now.
    pub(crate) fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }
}

impl MemoryShare {
    /// Holds so many bytes more. False if the budget is spent; the share does not change then.
    pub(crate) fn add(&mut self, bytes: usize) -> bool {
        let before = self.budget.0.held.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.budget.0.most;
        if fits {
            self.bytes += bytes;
        } else {
            self.budget.0.held.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    /// Holds exactly so many bytes. False if the budget is spent; the share does not change then.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes {
            return self.add(bytes - self.bytes);
        }
        self.take(self.bytes - bytes);
        true
    }

    /// Holds so many bytes less.
    pub(crate) fn take(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.0.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.take(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_bytes_are_bounded_and_returned() {
        let memory = MemoryBudget::default();
        let (mut one, mut other) = (memory.share(), memory.share());
        assert!(one.add(MAX_BYTES) && !other.add(1));
        one.take(10);
        assert!(other.add(10) && !other.add(1));
        drop(one);
        assert!(other.add(MAX_BYTES - 10));
        drop(other);
        assert_eq!(memory.held(), 0);
    }
}
