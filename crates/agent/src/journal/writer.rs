//! The thread that writes.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::space::Space;
use super::store::{Store, Transaction};
use super::watchers::Watchers;
use crate::clock::now_us;
use crate::entry::event::event;
use crate::entry::{Entry, Stamped};
use crate::error::AgentError;

/// Changes that wait to be written.
const WAITING: usize = 1024;

/// Changes of one transaction.
const BATCH: usize = 256;

/// How often conversations that nobody uses any more are looked for.
const SWEEP: Duration = Duration::from_secs(600);

/// A change of a conversation.
pub(super) enum Change {
    Create { principal: String },
    Append(Vec<Entry>),
    Delete,
}

/// What came of it.
pub(super) enum Changed {
    Written(Vec<Stamped>),
    Deleted,
    Done,
}

struct Job {
    id: String,
    change: Change,
    done: oneshot::Sender<Result<Changed, AgentError>>,
    /// Its place among those that wait.
    _place: OwnedSemaphorePermit,
}

/// A way to the thread. Dropping it waits until everything is written.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Option<SyncSender<Job>>,
    places: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread.
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
        let thread = thread.map_err(|error| AgentError::Store(format!("no thread to write them: {error}")))?;
        Ok(Self { jobs: Some(jobs), places: Arc::new(Semaphore::new(WAITING)), thread: Some(thread) })
    }

    /// Makes a change, and waits until it is durable. A caller that goes away meanwhile does not stop it.
    pub(super) async fn change(&self, id: &str, change: Change) -> Result<Changed, AgentError> {
        let ended = || AgentError::Store("the thread that writes them ended".to_owned());
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| ended())?;
        let (done, changed) = oneshot::channel();
        // With a place there is room in the channel.
        let job = Job { id: id.to_owned(), change, done, _place: place };
        self.jobs.as_ref().ok_or_else(ended)?.try_send(job).map_err(|_| ended())?;
        changed.await.map_err(|_| ended())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Without senders, the thread ends after what waits.
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
    fn run(mut self, jobs: &Receiver<Job>) {
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

    /// Writes a batch in one transaction, shows it, and answers.
    fn write(&mut self, jobs: Vec<Job>) {
        let mut answers = Vec::with_capacity(jobs.len());
        let committed = self.store.begin().and_then(|transaction| {
            for job in jobs {
                let changed = apply(&transaction, &mut self.space, &job.id, job.change);
                answers.push((job.id, job.done, changed));
            }
            transaction.commit()
        });
        if let Err(error) = &committed {
            tracing::error!(%error, "conversations could not be written");
            if let Err(error) = self.store.reopen() {
                tracing::error!(%error, "the store of conversations could not be opened again");
            }
        }
        for (id, done, changed) in answers {
            let answer = committed.clone().and(changed);
            if answer.is_err()
                && let Ok(meta) = self.store.meta(&id)
            {
                self.space.restore(&id, meta.as_ref());
            }
            match &answer {
                Ok(Changed::Written(written)) => {
                    written.iter().for_each(|it| self.watchers.show(&id, || event(&id, it)));
                }
                Ok(Changed::Deleted) => {
                    self.space.remove(&id);
                    self.watchers.end(&id);
                }
                Ok(Changed::Done) | Err(_) => {}
            }
            // Whoever asked may be gone: it is written nevertheless.
            let _ = done.send(answer);
        }
    }

    /// Counts what is there. If it exceeds the room, as that of an earlier release may, the oldest conversations are deleted.
    fn count(&mut self) -> Result<(), AgentError> {
        let mut all = self.store.all(|_| true)?;
        let surplus = self.space.trim(&mut all);
        for ids in surplus.chunks(BATCH) {
            self.delete(ids)?;
        }
        if !surplus.is_empty() {
            tracing::warn!(
                count = surplus.len(),
                "the oldest conversations were deleted: together they exceeded their room"
            );
        }
        all.iter().for_each(|(id, meta)| self.space.count(id, meta));
        Ok(())
    }

    /// Deletes what was not used for the lifetime.
    fn sweep(&mut self) {
        let lifetime = u64::try_from(self.lifetime.as_micros()).unwrap_or(u64::MAX);
        let unused = self.store.unused_since(now_us().saturating_sub(lifetime));
        match unused.and_then(|ids| self.delete(&ids)) {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "conversations expired"),
            Err(error) => tracing::warn!(%error, "expired conversations could not be deleted"),
        }
    }

    /// Deletes conversations, all or none, and returns how many.
    fn delete(&mut self, ids: &[String]) -> Result<usize, AgentError> {
        if ids.is_empty() {
            return Ok(0);
        }
        let transaction = self.store.begin()?;
        for id in ids {
            transaction.delete(id)?;
        }
        transaction.commit()?;
        for id in ids {
            self.space.remove(id);
            self.watchers.end(id);
        }
        Ok(ids.len())
    }
}

fn apply(transaction: &Transaction, space: &mut Space, id: &str, change: Change) -> Result<Changed, AgentError> {
    match change {
        Change::Create { principal } => {
            space.begin(id, &principal)?;
            transaction.create(id, principal, now_us()).map(|()| Changed::Done)
        }
        Change::Append(entries) => transaction.append(id, entries, now_us(), space).map(Changed::Written),
        Change::Delete => transaction.delete(id).map(|()| Changed::Deleted),
    }
}
