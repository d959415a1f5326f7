//! The recorder's thread: takes recordings in batches, redacts and renders them, appends them to a file, and adds
//! them to the index. Calls never wait for it, and it yields to the threads that serve calls.
//!
//! Recordings reach it through a queue that is bounded by their number and by bytes. A full queue drops new ones.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use openskill_telemetry::log::turns::Turns;
use openskill_telemetry::metrics::telemetry::TELEMETRY;
use parking_lot::{Mutex, RwLock};
use tokio::sync::broadcast;

use super::folder::Segment;
use super::index::{CallIndex, EventLocation, Summary};
use super::render::Renderer;
use super::store::FileStore;
use crate::observe::recording::Recording;

/// The maximum number of queued recordings.
const MAX_RECORDINGS: usize = 8192;

/// The maximum total content of queued recordings, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A recording with its size in bytes. Boxed, because the queue preallocates its slots.
type QueuedRecording = (Box<Recording>, usize);

/// Sends ended calls to the recorder's thread.
#[derive(Debug)]
pub(super) struct RecordingSender {
    /// None once the queue is closed.
    items: RwLock<Option<SyncSender<QueuedRecording>>>,
    bytes: Arc<AtomicUsize>,
}

/// The receiving end of the queue.
pub(crate) struct RecordingReceiver {
    items: Receiver<QueuedRecording>,
    bytes: Arc<AtomicUsize>,
}

pub(super) fn queue() -> (RecordingSender, RecordingReceiver) {
    let (sender, items) = sync_channel(MAX_RECORDINGS);
    let bytes = Arc::<AtomicUsize>::default();
    let sender = RecordingSender { items: RwLock::new(Some(sender)), bytes: Arc::clone(&bytes) };
    (sender, RecordingReceiver { items, bytes })
}

impl RecordingSender {
    /// Offers a recording. Returns false if the queue is full or closed.
    pub(super) fn offer(&self, recording: Recording) -> bool {
        let bytes = recording.bytes();
        let held = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let send = |items: &SyncSender<_>| items.try_send((Box::new(recording), bytes)).is_ok();
        let is_taken = held.saturating_add(bytes) <= MAX_BYTES && self.items.read().as_ref().is_some_and(send);
        if !is_taken {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_taken
    }

    /// Closes the queue. The thread ends once it has written what is in it.
    pub(super) fn close(&self) {
        self.items.write().take();
    }
}

impl RecordingReceiver {
    /// Waits for a recording, for at most `most`.
    ///
    /// # Errors
    /// None arrived, or the queue is closed and empty.
    pub(super) fn wait(&self, most: Duration) -> Result<Box<Recording>, RecvTimeoutError> {
        self.items.recv_timeout(most).map(|item| self.open(item))
    }

    /// Returns a queued recording, if any.
    pub(crate) fn next(&self) -> Option<Box<Recording>> {
        self.items.try_recv().ok().map(|item| self.open(item))
    }

    fn open(&self, item: QueuedRecording) -> Box<Recording> {
        let (recording, bytes) = item;
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        recording
    }
}

/// How long recordings are collected before the thread takes them in one batch. Waking the thread for each call
/// would cost more than recording it.
const GATHER: Duration = Duration::from_millis(10);

/// The maximum number of recordings that the thread takes before it does anything else.
const MAX_ROUND: usize = 16 * 1024;

/// The maximum time that recordings wait before the thread stops yielding. On a busy machine, it would otherwise
/// fall further behind.
const LATE: Duration = Duration::from_millis(100);

/// The interval at which old files are removed while no calls end.
const TIDY_INTERVAL: Duration = Duration::from_secs(60);

/// The number of bytes that are written at once.
const BATCH_BYTES: usize = 128 * 1024;

/// The minimum interval between log lines about failures.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Calls that ended, as sent to followers.
#[derive(Debug, Clone)]
pub(super) struct EndedCalls {
    /// The number of calls that ended before these.
    pub(super) before: u64,
    pub(super) calls: Arc<[Summary]>,
}

/// State that the thread shares with readers.
#[derive(Debug)]
pub(super) struct RecorderState {
    pub(super) index: Mutex<CallIndex>,
    pub(super) ended: broadcast::Sender<EndedCalls>,
}

impl Default for RecorderState {
    fn default() -> Self {
        Self { index: Mutex::default(), ended: broadcast::Sender::new(256) }
    }
}

/// What the thread owns.
pub(super) struct RecordWriter {
    pub(super) state: Arc<RecorderState>,
    pub(super) queue: RecordingReceiver,
    pub(super) renderer: Renderer,
    /// None if calls are kept only in memory.
    pub(super) store: Option<FileStore>,
    pub(super) log: FailureLog,
    /// The number of calls that have ended.
    pub(super) ended: u64,
    /// Rendered lines that are not written yet.
    pub(super) batch: Batch,
}

/// The lines of several calls, with the index data of each call.
#[derive(Default)]
pub(super) struct Batch {
    lines: Vec<u8>,
    calls: Vec<(Summary, usize)>,
}

impl RecordWriter {
    /// Runs until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let mut tidied = Instant::now();
        loop {
            match self.queue.wait(TIDY_INTERVAL) {
                Ok(first) => {
                    std::thread::park_timeout(GATHER);
                    self.add(&first);
                    self.write_waiting();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.store.iter_mut().for_each(FileStore::close);
                    return;
                }
            }
            if tidied.elapsed() >= TIDY_INTERVAL {
                tidied = Instant::now();
                self.tidy(tidied);
            }
        }
    }

    /// Writes queued recordings, up to the limit of one round.
    pub(super) fn write_waiting(&mut self) {
        let mut turns = Turns::begin();
        for _ in 0..MAX_ROUND {
            let Some(recording) = self.queue.next() else { break };
            self.add(&recording);
            if recording.ended.elapsed() < LATE {
                turns.yield_if_over();
            }
        }
        self.flush();
    }

    fn add(&mut self, recording: &Recording) {
        let Self { renderer, batch, .. } = self;
        let start = batch.lines.len();
        let Some(summary) = rollback_on_panic(&mut batch.lines, |lines| renderer.write(recording, lines)) else {
            TELEMETRY.recorder_failed(1);
            if openskill_telemetry::log::admits("a call could not be recorded") {
                tracing::error!(target: "openskill::recorder", "a call could not be recorded: this is a bug, please report it");
            }
            return;
        };
        batch.calls.push((summary, batch.lines.len() - start));
        if batch.lines.len() >= BATCH_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.batch.calls.is_empty() {
            return;
        }
        let mut batch = std::mem::take(&mut self.batch);
        let written = self.store.as_mut().map(|store| store.append(&batch.lines, Instant::now()));
        let (calls, bytes) = (batch.calls.len() as u64, batch.lines.len() as u64);
        let file = match written.transpose() {
            Err(error) => {
                TELEMETRY.recorder_failed(calls);
                self.log.record_failure(calls, &error, Instant::now());
                None
            }
            Ok(file) => {
                TELEMETRY.recorder_written(calls, bytes);
                self.log.record_success();
                file
            }
        };
        let before = self.ended;
        self.ended += calls;
        if let Some(calls) = self.add_to_index(&mut batch, file.as_ref()) {
            // Index first, because followers read the events of announced calls. Sending fails if there are no
            // followers.
            let _ = self.state.ended.send(EndedCalls { before, calls });
        }
        // Reuse the buffers.
        batch.lines.clear();
        self.batch = batch;
    }

    /// Adds calls to the index. Those that are not in a file stay in memory. Returns the calls if there are
    /// followers.
    fn add_to_index(&mut self, batch: &mut Batch, file: Option<&(Arc<Segment>, u64)>) -> Option<Arc<[Summary]>> {
        let mut index = self.state.index.lock();
        // Check while the index is locked: a follower that starts later finds the calls in the list.
        let is_followed = self.state.ended.receiver_count() > 0;
        let followed = is_followed.then(|| batch.calls.iter().map(|(summary, _)| summary.clone()).collect());
        self.store.iter_mut().for_each(|it| index.forget(&std::mem::take(&mut it.gone)));
        let mut start = 0;
        for (summary, bytes) in batch.calls.drain(..) {
            let location = match file {
                Some((segment, base)) => {
                    EventLocation::File { segment: Arc::clone(segment), start: base + start as u64, bytes }
                }
                None => EventLocation::Memory(batch.lines[start..start + bytes].into()),
            };
            index.push(summary, location);
            start += bytes;
        }
        followed
    }

    fn tidy(&mut self, now: Instant) {
        if let Some(store) = &mut self.store {
            store.tidy(now);
            self.state.index.lock().forget(&std::mem::take(&mut store.gone));
        }
    }
}

/// Writes the lines of a call. If `write` panics, removes the partial lines and returns None, so that the next call
/// can be recorded.
fn rollback_on_panic<T>(lines: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> T) -> Option<T> {
    let length = lines.len();
    // Unwind-safe: between calls, a renderer keeps only names, and buffers that it clears first.
    let written = catch_unwind(AssertUnwindSafe(|| write(lines)));
    written.inspect_err(|_| lines.truncate(length)).ok()
}

/// Logs failures, at most one line per minute.
#[derive(Debug, Default)]
pub(super) struct FailureLog {
    logged: Option<Instant>,
    /// The number of calls since the last line.
    calls: u64,
    has_failed: bool,
}

impl FailureLog {
    /// Counts the calls, and logs the failure if the last log line is old enough. Returns whether it logged.
    pub(super) fn record_failure(&mut self, calls: u64, error: &io::Error, now: Instant) -> bool {
        self.has_failed = true;
        self.calls += calls;
        let is_due = self.logged.is_none_or(|logged| now.saturating_duration_since(logged) >= LOG_INTERVAL);
        if is_due {
            self.logged = Some(now);
            let calls = std::mem::take(&mut self.calls);
            tracing::warn!(target: "openskill::recorder", %error, calls, "could not write to the trace directory");
        }
        is_due
    }

    fn record_success(&mut self) {
        // At most one recovery line per minute: a disk that is full now and then must not fill the log.
        let is_due = self.logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL);
        if self.has_failed && is_due {
            (self.has_failed, self.logged) = (false, Some(Instant::now()));
            tracing::info!(target: "openskill::recorder", calls = std::mem::take(&mut self.calls), "calls are written to the trace directory again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(taken: &RecordingReceiver, most: usize) -> usize {
        std::iter::from_fn(|| taken.next()).take(most).count()
    }

    #[test]
    fn recordings_past_a_bound_are_refused_until_others_are_taken() {
        let (offers, taken) = queue();
        let offered = (0..MAX_RECORDINGS + 10).filter(|_| offers.offer(Recording::sample("{}"))).count();
        assert_eq!(offered, MAX_RECORDINGS);
        assert_eq!(all(&taken, 10), 10);
        assert!(offers.offer(Recording::sample("{}")));
        assert_eq!(all(&taken, usize::MAX), MAX_RECORDINGS - 9);
        assert_eq!(taken.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_bytes_that_wait_are_bounded() {
        let (offers, taken) = queue();
        // A sample contains its text twice: as arguments and as result.
        let large = "x".repeat(MAX_BYTES / 8);
        let offered = (0..10).filter(|_| offers.offer(Recording::sample(&large))).count();
        assert_eq!(offered, 3, "a recording holds a little more than its content");
        assert_eq!(all(&taken, usize::MAX), 3);
        assert!(offers.offer(Recording::sample(&large)));
    }

    #[test]
    fn whoever_waits_is_woken() {
        let (offers, taken) = queue();
        assert!(offers.offer(Recording::sample("{}")));
        offers.close();
        assert!(taken.wait(Duration::from_secs(60)).is_ok());
        assert_eq!(taken.wait(Duration::from_secs(60)).unwrap_err(), RecvTimeoutError::Disconnected);
        assert!(!offers.offer(Recording::sample("{}")));
    }

    #[test]
    fn a_call_that_can_not_be_written_leaves_nothing_and_harms_no_other() {
        let mut lines = b"before\n".to_vec();
        let written = rollback_on_panic(&mut lines, |lines| {
            lines.extend_from_slice(b"half a l");
            assert!(lines.is_empty(), "as a bug would");
        });
        assert_eq!((written, &lines[..]), (None, &b"before\n"[..]));
        assert_eq!(rollback_on_panic(&mut lines, |lines| lines.extend_from_slice(b"after\n")), Some(()));
        assert_eq!(lines, b"before\nafter\n");
    }
}
