//! Processes large documents on separate threads. A shard's thread serves many calls, and must not spend tens of
//! milliseconds parsing one document.

use std::sync::Arc;
use std::time::Instant;

use openskill_identity::shares::Pool;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::principal::Principal;

/// The size up to which any text is light, in bytes.
pub(crate) const LIGHT_BYTES: usize = 4 * 1024;

/// The size above which any text is heavy, in bytes. Parsing and validating less takes about as long as waking
/// another thread.
pub(crate) const HEAVY_BYTES: usize = 64 * 1024;
pub(crate) const HEAVY_VALUES: usize = 1000;

/// Runs heavy work on a bounded number of threads, in the order of arrival.
#[derive(Debug)]
pub(crate) struct BlockingPool {
    threads: Arc<Semaphore>,
    /// Accounts for the work of calls that are not admitted yet.
    memory: Pool,
}

impl BlockingPool {
    /// Uses at most half of the processors, so that shards keep serving. `memory` accounts for work that is
    /// waiting.
    pub(crate) fn new(memory: Pool) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads: Arc::new(Semaphore::new((processors / 2).max(1))), memory }
    }

    /// Runs `work`, which must be bounded: once started, it runs to its end, even if the future is dropped.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        // Can't fail: the semaphore is never closed.
        let thread = Arc::clone(&self.threads).acquire_owned().await.ok();
        let done = spawn_blocking(move || {
            let done = work();
            drop(thread);
            done
        });
        match done.await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                // Panic as if the work had run on this thread.
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down and will drop this future.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Like [`Self::run`], for a call that is not admitted yet. `bytes` count towards its principal until the work
    /// is done.
    ///
    /// # Errors
    /// Too much work is waiting, for this principal or in total, or the work is not done by `until`.
    pub(crate) async fn run_until<T: Send + 'static>(
        &self,
        until: Instant,
        principal: &Principal,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SkillError> {
        let Some(_share) = self.memory.take(principal.shared_name(), bytes) else {
            return Err(SkillError::overloaded(
                "the gateway has too many large requests of this caller, or of all callers: try again later",
            ));
        };
        tokio::time::timeout_at(until.into(), self.run(work)).await.map_err(|_| {
            let message = "the deadline passed while the call waited for its arguments to be read";
            SkillError::new(ErrorCode::Timeout, message).with_blame(Blame::Gateway)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn only_so_many_run_at_once_and_a_shard_goes_on_meanwhile() {
        let pool = Arc::new(BlockingPool { threads: Arc::new(Semaphore::new(2)), memory: Pool::new(100) });
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let works = (0..8).map(|_| {
            let (pool, running, most) = (Arc::clone(&pool), Arc::clone(&running), Arc::clone(&most));
            tokio::spawn(async move {
                let work = move || {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                };
                pool.run(work).await;
            })
        });
        futures_util::future::join_all(works).await;
        assert!((1..=2).contains(&most.load(Ordering::SeqCst)));
        // This runtime has one thread. If the work blocked it, the message could not be sent.
        let (send, receive) = sync_channel(1);
        let work = tokio::spawn(async move { pool.run(move || receive.recv().unwrap()).await });
        tokio::task::yield_now().await;
        send.send(7).unwrap();
        assert_eq!(work.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn work_that_waits_too_long_or_holds_too_much_is_refused() {
        let (memory, caller) = (Pool::new(100), Principal::anonymous());
        let pool = BlockingPool { threads: Arc::new(Semaphore::new(1)), memory: memory.clone() };
        let (release, wait) = sync_channel::<()>(1);
        let busy = pool.run(move || wait.recv());
        let late = async {
            let error =
                pool.run_until(Instant::now() + Duration::from_millis(1), &caller, 10, || ()).await.unwrap_err();
            assert_eq!((error.code(), error.blame()), (ErrorCode::Timeout, Blame::Gateway));
            let error = pool.run_until(Instant::now(), &caller, usize::MAX, || ()).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::Overloaded);
            release.send(()).unwrap();
        };
        let _ = tokio::join!(busy, late);
        assert_eq!(memory.in_use(), 0);
        assert_eq!(pool.run_until(Instant::now() + Duration::from_secs(60), &caller, 10, || 1).await.ok(), Some(1));
    }
}
