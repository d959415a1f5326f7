//! Shards: threads with one current-thread runtime each, so that a call stays on the core that accepted it.

use std::future::Future;
use std::thread::JoinHandle;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The running shards of one server.
///
/// A shutdown has three steps: [`stop`](Self::stop), then [`wait_ended`](Self::wait_ended) for as long as the
/// caller likes, then [`join`](Self::join), which abandons unfinished work.
#[derive(Debug)]
pub struct Shards {
    name: &'static str,
    stack_bytes: Option<usize>,
    threads: Vec<JoinHandle<()>>,
    running: TaskTracker,
    shutdown: Shutdown,
}

/// Tells a shard when to stop.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Cancelled when the shard must stop accepting connections and finish its calls.
    pub stop: CancellationToken,
    abandon: CancellationToken,
}

impl Shutdown {
    /// Runs `work` to completion, or drops it if the shards are abandoned.
    pub async fn unless_abandoned(&self, work: impl Future<Output = ()>) {
        tokio::select! {
            () = work => {}
            () = self.abandon.cancelled() => {}
        }
    }
}

impl Shards {
    /// Creates an empty set of shards. Their threads are named `name-0`, `name-1` and so on.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            stack_bytes: None,
            threads: Vec::new(),
            running: TaskTracker::new(),
            shutdown: Shutdown::default(),
        }
    }

    /// Sets the stack size of each thread and of its blocking pool, in bytes.
    #[must_use]
    pub fn with_stack_bytes(self, bytes: usize) -> Self {
        Self { stack_bytes: Some(bytes), ..self }
    }

    /// Starts one more shard, which runs `work` on a new thread with a separate runtime.
    ///
    /// # Errors
    /// The system is out of threads or descriptors.
    pub fn spawn<F: Future<Output = ()>>(
        &mut self,
        work: impl FnOnce(Shutdown) -> F + Send + 'static,
    ) -> std::io::Result<()> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all();
        if let Some(bytes) = self.stack_bytes {
            runtime.thread_stack_size(bytes);
        }
        let runtime = runtime.build()?;
        let mut thread = std::thread::Builder::new().name(format!("{}-{}", self.name, self.threads.len()));
        if let Some(bytes) = self.stack_bytes {
            thread = thread.stack_size(bytes);
        }
        let (shutdown, running) = (self.shutdown.clone(), self.running.token());
        self.threads.push(thread.spawn(move || {
            runtime.block_on(async { work(shutdown).await });
            drop(running);
        })?);
        Ok(())
    }

    /// Tells every shard to stop accepting connections and to finish its calls.
    pub fn stop(&self) {
        self.shutdown.stop.cancel();
        self.running.close();
    }

    /// Waits until every shard has ended after [`stop`](Self::stop). Cancel-safe.
    pub async fn wait_ended(&self) {
        self.running.wait().await;
    }

    /// Drops the unfinished work of all shards and waits for their threads.
    pub async fn join(self) {
        self.stop();
        self.shutdown.abandon.cancel();
        self.wait_ended().await;
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn every_shard_finishes_its_work_after_stop() {
        let finished = Arc::new(AtomicU32::new(0));
        let mut shards = Shards::new("test");
        for _ in 0..3 {
            let finished = Arc::clone(&finished);
            let work = |shutdown: Shutdown| async move {
                shutdown.stop.cancelled().await;
                finished.fetch_add(1, Ordering::Relaxed);
            };
            shards.spawn(work).unwrap();
        }
        shards.stop();
        shards.wait_ended().await;
        assert_eq!(finished.load(Ordering::Relaxed), 3);
        shards.join().await;
    }

    #[tokio::test]
    async fn join_drops_work_that_never_ends_and_keeps_what_follows_it() {
        let followed = Arc::new(AtomicU32::new(0));
        let mut shards = Shards::new("test").with_stack_bytes(256 * 1024);
        let counter = Arc::clone(&followed);
        let work = |shutdown: Shutdown| async move {
            shutdown.unless_abandoned(std::future::pending()).await;
            counter.fetch_add(1, Ordering::Relaxed);
        };
        shards.spawn(work).unwrap();
        shards.join().await;
        assert_eq!(followed.load(Ordering::Relaxed), 1);
    }
}
