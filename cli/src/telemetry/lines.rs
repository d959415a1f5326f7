//! Writes log lines in batches.
//!
//! A gateway logs a line per call. A separate thread writes the lines of a few milliseconds with one system call, so that no
//! call waits for stderr. Only a process killed by SIGKILL loses the lines of its last milliseconds.

use std::io::{Result, Write, stderr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a line waits to be batched with others.
const BATCH_WINDOW: Duration = Duration::from_millis(5);

/// A batch of this size is written at once. A thread that would queue more than four times as much waits.
const BATCH_BYTES: usize = 64 * 1024;

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
pub(super) struct Lines(Arc<Queue>);

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
pub(super) fn start() -> Result<(Lines, Writer)> {
    let queue = Arc::<Queue>::default();
    let from = Arc::clone(&queue);
    let thread = std::thread::Builder::new().name("log".to_owned()).spawn(move || {
        while let Some(lines) = from.next() {
            // There is nowhere to report that stderr cannot be written.
            let _ = stderr().write_all(&lines);
        }
    })?;
    Ok((Lines(Arc::clone(&queue)), Writer { queue, thread: Some(thread) }))
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

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> Result<usize> {
        let full = |queued: &mut Queued| queued.bytes.len() >= 4 * BATCH_BYTES && !queued.ended;
        let queued = self.0.emptied.wait_while(self.0.lock(), full);
        let mut queued = queued.unwrap_or_else(PoisonError::into_inner);
        if queued.ended {
            drop(queued);
            return stderr().write_all(line).map(|()| line.len());
        }
        let before = queued.bytes.len();
        queued.bytes.extend_from_slice(line);
        if before == 0 || (before < BATCH_BYTES && queued.bytes.len() >= BATCH_BYTES) {
            self.0.more.notify_one();
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
                let mut lines = Lines(Arc::clone(&queue));
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
}
