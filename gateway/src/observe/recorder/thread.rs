//! The recorder's thread: takes recordings in batches, redacts and renders them, appends them to a file, and puts them into
//! the index. Nobody waits for it, and it gives way to whoever serves calls.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use openskill_log::turns::Turns;
use openskill_metrics::telemetry::TELEMETRY;
use tokio::sync::broadcast;

use super::index::{Index, Place, Summary};
use super::queue::Taken;
use super::render::Renderer;
use super::segment::Segment;
use super::store::Store;
use crate::observe::recording::Recording;

/// How long recordings are gathered before they are taken, all at once: waking this thread for each would cost the calls more
/// than the recording.
const GATHER: Duration = Duration::from_millis(10);

/// How many recordings are taken before the thread looks at anything else.
const MAX_ROUND: usize = 16 * 1024;

/// The thread does not yield after recordings that waited for longer: on a busy machine, it would fall further behind.
const LATE: Duration = Duration::from_millis(100);

/// How often old files are looked for while no calls end.
const TIDY_INTERVAL: Duration = Duration::from_secs(60);

/// How many bytes are written at once.
const BATCH_BYTES: usize = 128 * 1024;

/// How often a failure is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Calls as followers hear of them.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    /// How many calls ended before these.
    pub(super) before: u64,
    pub(super) calls: Arc<[Summary]>,
}

/// What the thread shares with those who read.
#[derive(Debug)]
pub(super) struct Shelf {
    index: Mutex<Index>,
    pub(super) ended: broadcast::Sender<Ended>,
    pub(super) is_stopping: AtomicBool,
}

impl Shelf {
    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Shelf {
    fn default() -> Self {
        Self { index: Mutex::default(), ended: broadcast::Sender::new(256), is_stopping: AtomicBool::new(false) }
    }
}

/// What the thread works with.
pub(super) struct Writer {
    pub(super) shelf: Arc<Shelf>,
    pub(super) queue: Taken,
    pub(super) renderer: Renderer,
    /// None: calls are kept in memory only.
    pub(super) store: Option<Store>,
    pub(super) log: FailureLog,
    /// Calls that ended so far.
    pub(super) ended: u64,
    /// What is rendered and not written yet.
    pub(super) batch: Batch,
}

/// The lines of some calls, and what the index has to know of each.
#[derive(Default)]
pub(super) struct Batch {
    lines: Vec<u8>,
    calls: Vec<(Summary, usize)>,
}

impl Writer {
    /// Runs until it is told to stop, and writes what waits then.
    pub(super) fn run(mut self) {
        let mut tidied = Instant::now();
        loop {
            // The last round may have consumed the wake-up of `stop`.
            if !self.is_stopping()
                && let Some(first) = self.queue.wait(TIDY_INTERVAL)
            {
                if !self.is_stopping() {
                    std::thread::park_timeout(GATHER);
                }
                self.add(&first);
            }
            // Asked before the last look: what was offered until then is taken.
            let is_stopping = self.is_stopping();
            self.write_waiting();
            if is_stopping {
                self.store.iter_mut().for_each(Store::close);
                return;
            }
            if tidied.elapsed() >= TIDY_INTERVAL {
                tidied = Instant::now();
                self.tidy(tidied);
            }
        }
    }

    /// Writes what waits, as much as one round may take.
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

    fn is_stopping(&self) -> bool {
        self.shelf.is_stopping.load(Ordering::Acquire)
    }

    fn add(&mut self, recording: &Recording) {
        let Self { renderer, batch, .. } = self;
        let start = batch.lines.len();
        let Some(summary) = unharmed(&mut batch.lines, |lines| renderer.write(recording, lines)) else {
            TELEMETRY.recorder_failed(1);
            if openskill_log::admits("a call could not be recorded") {
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
        let (mut batch, mut gone) = (std::mem::take(&mut self.batch), Vec::new());
        let written = self.store.as_mut().map(|store| store.append(&batch.lines, Instant::now(), &mut gone));
        let (calls, bytes) = (batch.calls.len() as u64, batch.lines.len() as u64);
        let file = match written {
            Some(Err(error)) => {
                TELEMETRY.recorder_failed(calls);
                self.log.failed(calls, &error, Instant::now());
                None
            }
            Some(Ok(file)) => {
                TELEMETRY.recorder_written(calls, bytes);
                self.log.succeeded();
                Some(file)
            }
            None => {
                TELEMETRY.recorder_written(calls, bytes);
                None
            }
        };
        self.tell(&batch);
        self.put_on_shelf(&mut batch, file.as_ref(), &gone);
        // Its buffers are used again.
        batch.lines.clear();
        self.batch = batch;
    }

    /// Tells followers, if there are any.
    fn tell(&mut self, batch: &Batch) {
        let before = self.ended;
        self.ended += batch.calls.len() as u64;
        if self.shelf.ended.receiver_count() > 0 {
            let calls = batch.calls.iter().map(|(summary, _)| summary.clone()).collect();
            // The last one may have gone meanwhile.
            let _ = self.shelf.ended.send(Ended { before, calls });
        }
    }

    /// Calls that are in no file stay in memory.
    fn put_on_shelf(&self, batch: &mut Batch, file: Option<&(Arc<Segment>, u64)>, gone: &[Arc<Segment>]) {
        let mut index = self.shelf.index();
        gone.iter().for_each(|it| index.forget(it));
        let mut start = 0;
        for (summary, bytes) in batch.calls.drain(..) {
            let place = match file {
                Some((segment, base)) => {
                    Place::File { segment: Arc::clone(segment), start: base + start as u64, bytes }
                }
                None => Place::Memory(batch.lines[start..start + bytes].into()),
            };
            index.push(summary, place);
            start += bytes;
        }
    }

    fn tidy(&mut self, now: Instant) {
        let mut gone = Vec::new();
        if let Some(store) = &mut self.store {
            store.tidy(now, &mut gone);
        }
        let mut index = self.shelf.index();
        gone.iter().for_each(|it| index.forget(it));
    }
}

/// Writes the lines of a call. None if that panics: nothing of the call is written then, and the next one is recorded.
fn unharmed<T>(lines: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> T) -> Option<T> {
    let length = lines.len();
    // What a renderer keeps from call to call are names, and buffers that it clears first.
    let written = catch_unwind(AssertUnwindSafe(|| write(lines)));
    written.inspect_err(|_| lines.truncate(length)).ok()
}

/// Logs failures, a line a minute at most.
#[derive(Debug, Default)]
pub(super) struct FailureLog {
    logged: Option<Instant>,
    /// Calls since the last line.
    calls: u64,
    has_failed: bool,
}

impl FailureLog {
    /// Whether it is logged now.
    pub(super) fn failed(&mut self, calls: u64, error: &io::Error, now: Instant) -> bool {
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

    fn succeeded(&mut self) {
        // Within a minute of a failure it says nothing: a disk that is full now and then must not fill the log.
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

    #[test]
    fn a_call_that_can_not_be_written_leaves_nothing_and_harms_no_other() {
        let mut lines = b"before\n".to_vec();
        let written = unharmed(&mut lines, |lines| {
            lines.extend_from_slice(b"half a l");
            assert!(lines.is_empty(), "as a bug would");
        });
        assert_eq!((written, &lines[..]), (None, &b"before\n"[..]));
        assert_eq!(unharmed(&mut lines, |lines| lines.extend_from_slice(b"after\n")), Some(()));
        assert_eq!(lines, b"before\nafter\n");
    }
}
