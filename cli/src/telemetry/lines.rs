//! Log lines that go out together.
//!
//! A gateway writes a line for each call. A thread of its own writes those of a few milliseconds with one system call, so
//! that no answer waits for the disk. A process that is killed by force may lose the lines of its last moment; one that
//! ends, in whatever other way, does not.

use std::io::{Result, Write, stderr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a line waits for others.
const GATHER: Duration = Duration::from_millis(5);

/// So many bytes are written at once, whatever the time; who would add to four times as many waits.
const PLENTY: usize = 64 * 1024;

/// Lines that are not written yet.
#[derive(Debug, Default)]
struct Waiting {
    lines: Mutex<Held>,
    /// There is something to write, or the end.
    more: Condvar,
    /// There is room.
    room: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    ended: bool,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is to write, once there is something. None at the end.
    fn next(&self) -> Option<Vec<u8>> {
        let held = self.more.wait_while(self.lock(), |held| held.bytes.is_empty() && !held.ended);
        let held = held.unwrap_or_else(PoisonError::into_inner);
        let few = |held: &mut Held| held.bytes.len() < PLENTY && !held.ended;
        let gathered = self.more.wait_timeout_while(held, GATHER, few);
        let mut held = gathered.unwrap_or_else(PoisonError::into_inner).0;
        self.room.notify_all();
        let bytes = std::mem::take(&mut held.bytes);
        (!bytes.is_empty()).then_some(bytes)
    }
}

/// Where the log's lines go, a whole line at a time.
#[derive(Debug, Clone)]
pub(super) struct Lines(Arc<Waiting>);

/// The thread that writes them. Dropped, it writes what is left, and ends.
#[derive(Debug)]
pub(super) struct Writer {
    waiting: Arc<Waiting>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the thread.
///
/// # Errors
/// The system's.
pub(super) fn start() -> Result<(Lines, Writer)> {
    let waiting = Arc::<Waiting>::default();
    let from = Arc::clone(&waiting);
    let thread = std::thread::Builder::new().name("log".to_owned()).spawn(move || {
        while let Some(lines) = from.next() {
            // A log that can't be written has nobody to tell.
            let _ = stderr().write_all(&lines);
        }
    })?;
    Ok((Lines(Arc::clone(&waiting)), Writer { waiting, thread: Some(thread) }))
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.waiting.lock().ended = true;
        self.waiting.more.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> Result<usize> {
        let full = |held: &mut Held| held.bytes.len() >= 4 * PLENTY && !held.ended;
        let held = self.0.room.wait_while(self.0.lock(), full);
        let mut held = held.unwrap_or_else(PoisonError::into_inner);
        if held.ended {
            drop(held);
            return stderr().write_all(line).map(|()| line.len());
        }
        let before = held.bytes.len();
        held.bytes.extend_from_slice(line);
        if before == 0 || (before < PLENTY && held.bytes.len() >= PLENTY) {
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
    fn lines_of_many_threads_come_out_whole_and_the_last_ones_too() {
        let waiting = Arc::<Waiting>::default();
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let mut lines = Lines(Arc::clone(&waiting));
                std::thread::spawn(move || {
                    for count in 0..10_000 {
                        lines.write_all(format!("{number} {count}\n").as_bytes()).unwrap();
                    }
                })
            })
            .collect();
        let from = Arc::clone(&waiting);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            while let Some(lines) = from.next() {
                assert!(lines.len() < 5 * PLENTY);
                all.extend(lines);
            }
            String::from_utf8(all).unwrap()
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        waiting.lock().ended = true;
        waiting.more.notify_all();
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
