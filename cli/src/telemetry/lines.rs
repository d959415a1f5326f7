//! Writes log lines in batches, redacted.
//!
//! A gateway logs a line per call. A separate thread redacts the lines of a few milliseconds and writes them with one system
//! call, so that no call waits for either. Only a process killed by SIGKILL loses the lines of its last milliseconds.

use std::borrow::Cow;
use std::io::{Result, Write, stderr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use openskill_log::turns::Turns;
use openskill_redact::Redactor;

/// The name of the thread that writes.
pub(super) const THREAD: &str = "log";

/// How long a line waits to be batched with others.
const BATCH_WINDOW: Duration = Duration::from_millis(5);

/// A batch of this size is written at once. A thread that would queue more than four times as much waits.
const BATCH_BYTES: usize = 64 * 1024;

/// The thread does not yield in a batch of more bytes: callers would soon have to wait for it.
const LATE_BYTES: usize = 2 * BATCH_BYTES;

/// Nor does it yield once a batch has taken this long.
const LATE: Duration = Duration::from_millis(20);

/// Lines that are queued to be written.
#[derive(Debug, Default)]
struct Queue {
    lines: Mutex<Queued>,
    /// Notified when there is something to write, and at the end.
    more: Condvar,
    /// Notified when the queue has been emptied.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct Queued {
    bytes: Vec<u8>,
    ended: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Queued> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next batch. None at the end.
    fn next(&self) -> Option<Vec<u8>> {
        let queued = self.more.wait_while(self.lock(), |queued| queued.bytes.is_empty() && !queued.ended);
        let queued = queued.unwrap_or_else(PoisonError::into_inner);
        let few = |queued: &mut Queued| queued.bytes.len() < BATCH_BYTES && !queued.ended;
        let gathered = self.more.wait_timeout_while(queued, BATCH_WINDOW, few);
        let mut queued = gathered.unwrap_or_else(PoisonError::into_inner).0;
        self.emptied.notify_all();
        let bytes = std::mem::take(&mut queued.bytes);
        (!bytes.is_empty()).then_some(bytes)
    }
}

/// Takes log lines, a whole line per write.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    queue: Arc<Queue>,
    redactor: Redactor,
}

/// The thread that writes the lines. Dropping it writes the rest and joins the thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the writing thread.
///
/// # Errors
/// The system has no thread left.
pub(super) fn start(redactor: Redactor) -> Result<(Lines, Writer)> {
    let lines = Lines { queue: Arc::default(), redactor };
    let from = lines.clone();
    let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
        while let Some(lines) = from.queue.next() {
            // There is nowhere to report that stderr cannot be written.
            let _ = stderr().write_all(from.redacted(&lines).as_bytes());
        }
    })?;
    let queue = Arc::clone(&lines.queue);
    Ok((lines, Writer { queue, thread: Some(thread) }))
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.lock().ended = true;
        self.queue.more.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Lines {
    /// Each line by itself: what one line says is not about the next.
    fn redacted<'l>(&self, lines: &'l [u8]) -> Cow<'l, str> {
        // Lines are formatted as strings.
        let lines = String::from_utf8_lossy(lines);
        if !self.redactor.is_on() {
            return lines;
        }
        let mut redacted = String::with_capacity(lines.len());
        let (mut turns, began) = (Turns::begin(), Instant::now());
        let is_large = lines.len() > LATE_BYTES;
        for line in lines.split_inclusive('\n') {
            // Nobody else writes the log: a mistake in redaction must cost no more than this line.
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

/// What stands in place of a line that could not be redacted, in the format of the line.
fn not_redacted(line: &str) -> String {
    let (target, message) = ("openskill::log", format!("a log line of {} bytes could not be redacted", line.len()));
    if line.starts_with('{') {
        return format!("{{\"level\":\"ERROR\",\"target\":\"{target}\",\"message\":\"{message}\"}}\n");
    }
    format!("ERROR {target}: {message}\n")
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> Result<usize> {
        let full = |queued: &mut Queued| queued.bytes.len() >= 4 * BATCH_BYTES && !queued.ended;
        let queued = self.queue.emptied.wait_while(self.queue.lock(), full);
        let mut queued = queued.unwrap_or_else(PoisonError::into_inner);
        if queued.ended {
            drop(queued);
            return stderr().write_all(self.redacted(line).as_bytes()).map(|()| line.len());
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
                let mut lines = Lines { queue: Arc::clone(&queue), redactor: Redactor::off() };
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
        queue.lock().ended = true;
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
        let lines = Lines { queue: Arc::default(), redactor: Redactor::default() };
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
        assert_eq!(lines.redacted(log.as_bytes()), expected);
        let open = Lines { redactor: Redactor::off(), ..lines };
        assert_eq!(open.redacted(log.as_bytes()), log);
    }

    #[test]
    fn what_a_line_says_is_not_about_the_next() {
        let lines = Lines { queue: Arc::default(), redactor: Redactor::default() };
        let log = "DEBUG openskill: stderr=\"-----BEGIN PRIVATE KEY-----\"\n INFO openskill: ready\n";
        assert!(lines.redacted(log.as_bytes()).ends_with("\n INFO openskill: ready\n"));
    }
}
