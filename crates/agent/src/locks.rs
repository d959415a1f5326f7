//! One lock per conversation. Conversations don't block each other.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The locks that are held or waited for. Unused locks are removed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Locks(Arc<Mutex<HashMap<String, Arc<AsyncMutex<()>>>>>);

/// A held lock, or one that a request waits for.
#[derive(Debug)]
pub(crate) struct Locked {
    locks: Locks,
    id: String,
    /// `None` while waiting for the lock.
    guard: Option<OwnedMutexGuard<()>>,
}

impl Locks {
    /// Acquires the lock of a conversation. Cancel safe.
    pub(crate) async fn lock(&self, id: &str) -> Locked {
        let lock = Arc::clone(self.0.lock().entry(id.to_owned()).or_default());
        let mut locked = Locked { locks: self.clone(), id: id.to_owned(), guard: None };
        locked.guard = Some(lock.lock_owned().await);
        locked
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let mut all = self.locks.0.lock();
        self.guard = None;
        // Only the map refers to the lock. Waiting requests would hold clones.
        if all.get(&self.id).is_some_and(|it| Arc::strong_count(it) == 1) {
            all.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_lock_holds_up_its_own_conversation_alone_and_is_not_kept() {
        let locks = Locks::default();
        let first = locks.lock("a").await;
        let mut second = Box::pin(locks.lock("a"));
        assert!((&mut second).now_or_never().is_none());
        assert!(locks.lock("b").now_or_never().is_some());
        drop(first);
        let second = second.await;
        drop(locks.lock("a").now_or_never());
        assert_eq!(locks.0.lock().len(), 1);
        drop(second);
        assert!(locks.0.lock().is_empty());
    }
}
