//! One lock for each conversation. Conversations do not wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The locks that somebody holds or waits for. As many as there are requests, and none is kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Locks(Arc<Mutex<HashMap<String, Arc<AsyncMutex<()>>>>>);

/// A lock that is held, or waited for.
#[derive(Debug)]
pub(crate) struct Locked {
    locks: Locks,
    id: String,
    /// None while it is waited for.
    guard: Option<OwnedMutexGuard<()>>,
}

impl Locks {
    /// Waits for the lock of a conversation.
    pub(crate) async fn lock(&self, id: &str) -> Locked {
        let lock = Arc::clone(self.all().entry(id.to_owned()).or_default());
        let mut locked = Locked { locks: self.clone(), id: id.to_owned(), guard: None };
        locked.guard = Some(lock.lock_owned().await);
        locked
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<AsyncMutex<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let mut all = self.locks.all();
        self.guard = None;
        // Nobody else has it: those who wait do.
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
        assert_eq!(locks.all().len(), 1);
        drop(second);
        assert!(locks.all().is_empty());
    }
}
