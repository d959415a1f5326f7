//! The thread that writes conversations to the store.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use openskill_proto::timestamp::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::meta::State;
use super::space::Space;
use super::store::{Store, Transaction};
use super::watchers::Watchers;
use crate::entry::{Entry, Stamped};
use crate::error::AgentError;
use crate::event::event;

/// The maximum number of changes waiting to be written.
const WAITING: usize = 1024;

/// The maximum number of changes in one transaction.
const BATCH: usize = 256;

/// How often expired conversations are deleted.
const SWEEP: Duration = Duration::from_secs(600);

pub(super) enum JournalChange {
    Create { principal: String },
    Append(Vec<Entry>),
    Delete,
}

struct WriteJob {
    id: String,
    change: JournalChange,
    done: oneshot::Sender<Result<Vec<Stamped>, AgentError>>,
    /// The permit that limits the number of waiting changes.
    _permit: OwnedSemaphorePermit,
}

/// A handle to the writer thread. Dropping it waits until all changes are written.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Option<SyncSender<WriteJob>>,
    permits: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Deletes expired and surplus conversations, and starts the thread.
    pub(super) fn start(
        store: Arc<Store>,
        watchers: Arc<Watchers>,
        lifetime: Duration,
        space: Space,
    ) -> Result<Self, AgentError> {
        let (jobs, received) = sync_channel(WAITING);
        let mut thread = Thread { store, watchers, lifetime, space };
        thread.sweep();
        thread.count()?;
        let thread = std::thread::Builder::new().name("conversations".to_owned()).spawn(move || thread.run(&received));
        let thread = thread
            .map_err(|error| AgentError::Store(format!("the thread that writes them can't be started: {error}")))?;
        Ok(Self { jobs: Some(jobs), permits: Arc::new(Semaphore::new(WAITING)), thread: Some(thread) })
    }

    /// Makes a change, waits until it is durable, and returns the appended entries. The change is made even if the
    /// caller stops waiting.
    pub(super) async fn change(&self, id: &str, change: JournalChange) -> Result<Vec<Stamped>, AgentError> {
        let ended = || AgentError::Store("the thread that writes them ended".to_owned());
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| ended())?;
        let (done, changed) = oneshot::channel();
        // Each permit stands for a free slot in the channel.
        let job = WriteJob { id: id.to_owned(), change, done, _permit: permit };
        self.jobs.as_ref().ok_or_else(ended)?.try_send(job).map_err(|_| ended())?;
        changed.await.map_err(|_| ended())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Once all senders are dropped, the thread writes the waiting changes and ends.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Thread {
    store: Arc<Store>,
    watchers: Arc<Watchers>,
    lifetime: Duration,
    space: Space,
}

impl Thread {
    fn run(mut self, jobs: &Receiver<WriteJob>) {
        let mut swept = Instant::now();
        loop {
            match jobs.recv_timeout(SWEEP) {
                Ok(first) => {
                    let more = std::iter::from_fn(|| jobs.try_recv().ok()).take(BATCH - 1);
                    self.write(std::iter::once(first).chain(more).collect());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if swept.elapsed() >= SWEEP {
                self.sweep();
                swept = Instant::now();
            }
        }
    }

    /// Writes a batch in a single transaction, notifies watchers, and replies to the callers.
    fn write(&mut self, jobs: Vec<WriteJob>) {
        let mut answers = Vec::with_capacity(jobs.len());
        let committed = self.store.begin().and_then(|transaction| {
            for job in jobs {
                let is_deletion = matches!(job.change, JournalChange::Delete);
                let changed = apply(&transaction, &mut self.space, &job.id, job.change);
                answers.push((job.id, job.done, is_deletion, changed));
            }
            transaction.commit()
        });
        if let Err(error) = &committed {
            tracing::error!(%error, "conversations could not be written");
            if let Err(error) = self.store.reopen() {
                tracing::error!(%error, "the store of conversations could not be reopened");
            }
        }
        for (id, done, is_deletion, changed) in answers {
            let answer = committed.clone().and(changed);
            match &answer {
                Ok(_) if is_deletion => self.forget(&id),
                Ok(written) => written.iter().for_each(|it| self.watchers.show(&id, || event(&id, it))),
                Err(_) => {
                    if let Ok(meta) = self.store.meta(&id) {
                        self.space.restore(&id, meta.as_ref());
                    }
                }
            }
            // Fails if the caller has stopped waiting, although the change is written.
            let _ = done.send(answer);
        }
    }

    /// Counts the existing conversations. Deletes the oldest ones if they exceed the limits, which can happen with
    /// conversations of an earlier release.
    fn count(&mut self) -> Result<(), AgentError> {
        let mut all = self.store.all(|_| true)?;
        let surplus = self.space.trim(&mut all);
        for ids in surplus.chunks(BATCH) {
            self.delete(ids)?;
        }
        if !surplus.is_empty() {
            tracing::warn!(
                count = surplus.len(),
                "the oldest conversations were deleted: all conversations together exceeded the size limit"
            );
        }
        all.iter().for_each(|(id, meta)| self.space.count(id, meta));
        Ok(())
    }

    /// Deletes conversations that were not used during their lifetime. Skips those with a running turn.
    fn sweep(&mut self) {
        let lifetime = u64::try_from(self.lifetime.as_micros()).unwrap_or(u64::MAX);
        let since = Timestamp::now().0.saturating_sub(lifetime);
        let unused = self.store.all(|meta| meta.used_us < since && meta.state != State::Running);
        let ids = unused.map(|all| all.into_iter().map(|(id, _)| id).collect::<Vec<_>>());
        match ids.and_then(|ids| self.delete(&ids)) {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "conversations expired"),
            Err(error) => tracing::warn!(%error, "expired conversations could not be deleted"),
        }
    }

    /// Deletes either all of these conversations or none. Returns the number of deleted conversations.
    fn delete(&mut self, ids: &[String]) -> Result<usize, AgentError> {
        if ids.is_empty() {
            return Ok(0);
        }
        let transaction = self.store.begin()?;
        for id in ids {
            transaction.delete(id)?;
        }
        transaction.commit()?;
        ids.iter().for_each(|id| self.forget(id));
        Ok(ids.len())
    }

    fn forget(&mut self, id: &str) {
        self.space.remove(id);
        self.watchers.end(id);
    }
}

fn apply(
    transaction: &Transaction,
    space: &mut Space,
    id: &str,
    change: JournalChange,
) -> Result<Vec<Stamped>, AgentError> {
    match change {
        JournalChange::Create { principal } => {
            space.begin(id, &principal)?;
            transaction.create(id, principal, Timestamp::now().0).map(|()| Vec::new())
        }
        JournalChange::Append(entries) => transaction.append(id, entries, Timestamp::now().0, space),
        JournalChange::Delete => transaction.delete(id).map(|()| Vec::new()),
    }
}
