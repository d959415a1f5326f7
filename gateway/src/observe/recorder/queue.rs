//! From the calls to the recorder's thread: bounded by recordings and by bytes. Offering never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::observe::recording::Recording;

/// How many recordings wait at most.
const MAX_RECORDINGS: usize = 8192;

/// How many bytes of content they hold at most.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// What the thread hears.
enum Item {
    /// Boxed: the queue has a place for each that may wait.
    Call(Box<Recording>, usize),
    /// Wakes the thread, which then looks whether to stop.
    Wake,
}

/// The end of the queue where calls are offered.
#[derive(Debug)]
pub(super) struct Offers {
    items: SyncSender<Item>,
    bytes: Arc<AtomicUsize>,
}

/// The end of the queue where they are taken.
pub(crate) struct Taken {
    items: Receiver<Item>,
    bytes: Arc<AtomicUsize>,
}

pub(super) fn queue() -> (Offers, Taken) {
    let (sender, items) = sync_channel(MAX_RECORDINGS);
    let bytes = Arc::<AtomicUsize>::default();
    (Offers { items: sender, bytes: Arc::clone(&bytes) }, Taken { items, bytes })
}

impl Offers {
    /// Offers a recording. False if there is no room for it.
    pub(super) fn offer(&self, recording: Recording) -> bool {
        let bytes = recording.bytes();
        let held = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_taken = held.saturating_add(bytes) <= MAX_BYTES
            && self.items.try_send(Item::Call(Box::new(recording), bytes)).is_ok();
        if !is_taken {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_taken
    }

    /// Wakes whoever waits for a recording.
    pub(super) fn wake(&self) {
        // A queue that is full is not waited for.
        let _ = self.items.try_send(Item::Wake);
    }
}

impl Taken {
    /// Waits for something to happen, at most so long. The recording, if that is what happened.
    pub(super) fn wait(&self, most: Duration) -> Option<Box<Recording>> {
        match self.items.recv_timeout(most) {
            Ok(item) => self.open(item),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// A recording that is there now.
    pub(crate) fn next(&self) -> Option<Box<Recording>> {
        self.items.try_iter().find_map(|item| self.open(item))
    }

    fn open(&self, item: Item) -> Option<Box<Recording>> {
        match item {
            Item::Call(recording, bytes) => {
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
                Some(recording)
            }
            Item::Wake => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(taken: &Taken, most: usize) -> usize {
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
        // A sample holds its arguments and its result.
        let large = "x".repeat(MAX_BYTES / 8);
        let offered = (0..10).filter(|_| offers.offer(Recording::sample(&large))).count();
        assert_eq!(offered, 3, "a recording holds a little more than its content");
        assert_eq!(all(&taken, usize::MAX), 3);
        assert!(offers.offer(Recording::sample(&large)));
    }

    #[test]
    fn whoever_waits_is_woken() {
        let (offers, taken) = queue();
        offers.wake();
        assert!(taken.wait(Duration::from_secs(60)).is_none());
        assert!(offers.offer(Recording::sample("{}")));
        assert!(taken.wait(Duration::from_secs(60)).is_some());
    }
}
