//! Work on large documents, on threads of its own: a shard's thread serves many calls, and parses none of them for tens of
//! milliseconds.

use std::sync::Arc;
use std::time::Instant;

use openskill_identity::shares::Pool;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::principal::Principal;

/// A text up to this size is light whatever it holds.
pub(crate) const LIGHT_BYTES: usize = 4 * 1024;

/// A text of more bytes, or with more values, is heavy. Less is parsed and validated in about as long as it takes to wake
/// another thread.
pub(crate) const HEAVY_BYTES: usize = 64 * 1024;
pub(crate) const HEAVY_VALUES: usize = 1000;

/// Runs heavy work, a little at a time. What waits for a thread waits in order.
#[derive(Debug)]
pub(crate) struct Aside {
    threads: Arc<Semaphore>,
    /// What waits before its call is admitted.
    memory: Pool,
}

impl Aside {
    /// Takes half of the processors at most, so that shards go on. `memory` accounts for what waits.
    pub(crate) fn new(memory: Pool) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads: Arc::new(Semaphore::new((processors / 2).max(1))), memory }
    }

    /// Runs `work`, which has to be bounded: once it has begun, it ends by itself, even if the future is dropped.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        // The semaphore is never closed.
        let thread = Arc::clone(&self.threads).acquire_owned().await.ok();
        let done = spawn_blocking(move || {
            let done = work();
            drop(thread);
            done
        });
        match done.await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                // As if it had run here.
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends, and this future with it.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// The same for work that serves a call which is not admitted yet: so many bytes count to its principal until it is done.
    ///
    /// # Errors
    /// Too much of the principal, or of all, waits, or the work was not done by `until`.
    pub(crate) async fn run_until<T: Send + 'static>(
        &self,
        until: Instant,
        (principal, bytes): (&Principal, usize),
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SkillError> {
        let Some(_share) = self.memory.take(principal.shared_name(), bytes) else {
            return Err(SkillError::overloaded("the gateway holds too many large requests of this caller, or of all"));
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
        let aside = Arc::new(Aside { threads: Arc::new(Semaphore::new(2)), memory: Pool::new(100) });
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let works = (0..8).map(|_| {
            let (aside, running, most) = (Arc::clone(&aside), Arc::clone(&running), Arc::clone(&most));
            tokio::spawn(async move {
                let work = move || {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                };
                aside.run(work).await;
            })
        });
        futures_util::future::join_all(works).await;
        assert!((1..=2).contains(&most.load(Ordering::SeqCst)));
        // This runtime has one thread: it could not send what the work waits for.
        let (send, receive) = sync_channel(1);
        let work = tokio::spawn(async move { aside.run(move || receive.recv().unwrap()).await });
        tokio::task::yield_now().await;
        send.send(7).unwrap();
        assert_eq!(work.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn work_that_waits_too_long_or_holds_too_much_is_refused() {
        let (memory, caller) = (Pool::new(100), Principal::anonymous());
        let aside = Aside { threads: Arc::new(Semaphore::new(1)), memory: memory.clone() };
        let (release, wait) = sync_channel::<()>(1);
        let busy = aside.run(move || wait.recv());
        let late = async {
            let error =
                aside.run_until(Instant::now() + Duration::from_millis(1), (&caller, 10), || ()).await.unwrap_err();
            assert_eq!((error.code(), error.blame()), (ErrorCode::Timeout, Blame::Gateway));
            let error = aside.run_until(Instant::now(), (&caller, usize::MAX), || ()).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::Overloaded);
            release.send(()).unwrap();
        };
        let _ = tokio::join!(busy, late);
        assert_eq!(memory.used(), 0);
        assert_eq!(aside.run_until(Instant::now() + Duration::from_secs(60), (&caller, 10), || 1).await.ok(), Some(1));
    }
}
