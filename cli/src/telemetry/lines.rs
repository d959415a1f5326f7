//! Redacts log lines and writes them in batches.
//!
//! A gateway logs one line per call. A separate thread redacts a few milliseconds of lines and writes them with
//! one system call, so that calls do not wait. Only SIGKILL loses lines: those of the last milliseconds.

use std::borrow::Cow;
use std::io::{Result, Write, stderr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_redact::Redactor;
use openskill_telemetry::log::turns::Turns;
use parking_lot::{Condvar, Mutex};

use crate::background::BackgroundThread;

/// The name of the writing thread.
pub(super) const THREAD: &str = "log";

/// The time that a line waits to be batched with others.
const BATCH_WINDOW: Duration = Duration::from_millis(5);

/// The size of a batch that is written at once. A thread blocks if it would queue more than four times as many
/// bytes.
const BATCH_BYTES: usize = 64 * 1024;

/// The size of a batch above which the thread does not yield, since callers would soon block on it.
const LATE_BYTES: usize = 2 * BATCH_BYTES;

/// The duration of a batch after which the thread does not yield.
const LATE: Duration = Duration::from_millis(20);

/// Lines that are queued to be written.
#[derive(Debug, Default)]
struct Queue {
    lines: Mutex<QueueState>,
    /// Notified when lines are queued, and at the end.
    more: Condvar,
    /// Notified after the queue is emptied.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    bytes: Vec<u8>,
    ended: bool,
}

impl Queue {
    /// Waits for the next batch. Returns `None` at the end.
    fn next(&self) -> Option<Vec<u8>> {
        let mut queued = self.lines.lock();
        self.more.wait_while(&mut queued, |queued| queued.bytes.is_empty() && !queued.ended);
        let few = |queued: &mut QueueState| queued.bytes.len() < BATCH_BYTES && !queued.ended;
        self.more.wait_while_for(&mut queued, few, BATCH_WINDOW);
        self.emptied.notify_all();
        let bytes = std::mem::take(&mut queued.bytes);
        (!bytes.is_empty()).then_some(bytes)
    }
}

/// Queues log lines. Each write is a whole line.
#[derive(Debug, Clone)]
pub(super) struct LogWriter {
    queue: Arc<Queue>,
    redactor: Redactor,
}

/// Starts the writing thread. Dropping it writes the remaining lines.
///
/// # Errors
/// The system cannot start another thread.
pub(super) fn start(redactor: Redactor) -> Result<(LogWriter, BackgroundThread)> {
    let lines = LogWriter { queue: Arc::default(), redactor };
    let (from, queue) = (lines.clone(), Arc::clone(&lines.queue));
    let stop = move || {
        queue.lines.lock().ended = true;
        queue.more.notify_all();
    };
    let work = move || {
        while let Some(lines) = from.queue.next() {
            // If stderr fails, the error cannot be reported anywhere.
            let _ = stderr().write_all(from.redact(&lines).as_bytes());
        }
    };
    Ok((lines, BackgroundThread::start(THREAD, stop, work)?))
}

impl LogWriter {
    /// Redacts each line separately, so that the beginning of a secret in one line does not affect the next.
    fn redact<'l>(&self, lines: &'l [u8]) -> Cow<'l, str> {
        // Lines are formatted as strings, so they are always valid UTF-8.
        let lines = String::from_utf8_lossy(lines);
        if !self.redactor.is_on() {
            return lines;
        }
        let mut redacted = String::with_capacity(lines.len());
        let (mut turns, began) = (Turns::begin(), Instant::now());
        let is_large = lines.len() > LATE_BYTES;
        for line in lines.split_inclusive('\n') {
            // This is the only thread that writes the log, so a panic in redaction must not stop it.
            match catch_unwind(AssertUnwindSafe(|| self.redactor.text(line))) {
                Ok(line) => redacted.push_str(&line),
                Err(_) => redacted.push_str(&not_redacted(line)),
            }
            if !is_large && began.elapsed() < LATE {
                turns.yield_if_over();
            }
        }
        Cow::Owned(redacted)
    }
}

/// Returns the replacement for a line whose redaction failed, in the format of that line.
fn not_redacted(line: &str) -> String {
    let (target, message) = ("openskill::log", format!("a log line of {} bytes could not be redacted", line.len()));
    if line.starts_with('{') {
        return format!("{{\"level\":\"ERROR\",\"target\":\"{target}\",\"message\":\"{message}\"}}\n");
    }
    format!("ERROR {target}: {message}\n")
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> Result<usize> {
        let full = |queued: &mut QueueState| queued.bytes.len() >= 4 * BATCH_BYTES && !queued.ended;
        let mut queued = self.queue.lines.lock();
        self.queue.emptied.wait_while(&mut queued, full);
        if queued.ended {
            drop(queued);
            return stderr().write_all(self.redact(line).as_bytes()).map(|()| line.len());
        }
        let before = queued.bytes.len();
        queued.bytes.extend_from_slice(line);
        if before == 0 || (before < BATCH_BYTES && queued.bytes.len() >= BATCH_BYTES) {
            self.queue.more.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_many_threads_are_written_whole_and_in_order() {
        let queue = Arc::<Queue>::default();
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let mut lines = LogWriter { queue: Arc::clone(&queue), redactor: Redactor::off() };
                std::thread::spawn(move || {
                    for count in 0..10_000 {
                        lines.write_all(format!("{number} {count}\n").as_bytes()).unwrap();
                    }
                })
            })
            .collect();
        let from = Arc::clone(&queue);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            while let Some(lines) = from.next() {
                assert!(lines.len() < 5 * BATCH_BYTES);
                all.extend(lines);
            }
            String::from_utf8(all).unwrap()
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        queue.lines.lock().ended = true;
        queue.more.notify_all();
        let all = reader.join().unwrap();
        let mut next = [0; 4];
        for line in all.lines() {
            let (number, count) = line.split_once(' ').unwrap();
            let number: usize = number.parse().unwrap();
            assert_eq!(count, next[number].to_string());
            next[number] += 1;
        }
        assert_eq!(next, [10_000; 4]);
    }

    #[test]
    fn secrets_are_masked_in_lines_of_text_and_of_json() {
        let lines = LogWriter { queue: Arc::default(), redactor: Redactor::default() };
        let log = concat!(
            "2026-01-31T12:00:00.000000Z DEBUG openskill: stderr=\"password: \\\"hunter2\\\"\\nusing AKIAABCDEFGHIJKLMNOP\"\n",
            "{\"level\":\"DEBUG\",\"error.message\":\"password=hunter2\",\"api_key\":\"hunter2\",\"span_id\":\"00f067aa0ba902b7\"}\n",
            "2026-01-31T12:00:00.000000Z  INFO openskill::call: trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\" latency_ms=0.25\n",
        );
        let expected = concat!(
            "2026-01-31T12:00:00.000000Z DEBUG openskill: stderr=\"password: \\\"***\\\"\\nusing ***\"\n",
            "{\"level\":\"DEBUG\",\"error.message\":\"password=***\",\"api_key\":\"***\",\"span_id\":\"00f067aa0ba902b7\"}\n",
            "2026-01-31T12:00:00.000000Z  INFO openskill::call: trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\" latency_ms=0.25\n",
        );
        assert_eq!(lines.redact(log.as_bytes()), expected);
        let open = LogWriter { redactor: Redactor::off(), ..lines };
        assert_eq!(open.redact(log.as_bytes()), log);
    }

    #[test]
    fn what_a_line_says_is_not_about_the_next() {
        let lines = LogWriter { queue: Arc::default(), redactor: Redactor::default() };
        let log = "DEBUG openskill: stderr=\"-----BEGIN PRIVATE KEY-----\"\n INFO openskill: ready\n";
        assert!(lines.redact(log.as_bytes()).ends_with("\n INFO openskill: ready\n"));
    }
}
