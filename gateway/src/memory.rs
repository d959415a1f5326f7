//! What clients make the gateway hold: a budget for bodies that arrive, one for answers that nobody reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A budget, in bytes. Past it, large bodies are refused and large answers that are not read are given up.
const MOST: usize = 512 * 1024 * 1024;

/// What is so small is not counted: who holds up others does not hold up their small requests.
pub(crate) const SMALL: usize = 64 * 1024;

/// One budget of a gateway.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory(Arc<AtomicUsize>);

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Memory,
    bytes: usize,
}

impl Memory {
    /// A share of nothing yet.
    pub(crate) fn share(&self) -> Share {
        Share { memory: self.clone(), bytes: 0 }
    }

    /// How many bytes are held now.
    pub(crate) fn held(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Share {
    /// Holds more. False if there is no more; then it is as before.
    pub(crate) fn add(&mut self, bytes: usize) -> bool {
        let before = self.memory.0.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= MOST;
        if fits {
            self.bytes += bytes;
        } else {
            self.memory.0.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    /// Holds this many, and no other. False if there is no room for that; then it is as before.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes {
            return self.add(bytes - self.bytes);
        }
        self.take(self.bytes - bytes);
        true
    }

    /// Holds less.
    pub(crate) fn take(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.memory.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.take(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_bounded_and_comes_back() {
        let memory = Memory::default();
        let (mut one, mut other) = (memory.share(), memory.share());
        assert!(one.add(MOST) && !other.add(1));
        one.take(10);
        assert!(other.add(10) && !other.add(1));
        drop(one);
        assert!(other.add(MOST - 10));
        drop(other);
        assert_eq!(memory.held(), 0);
    }
}
