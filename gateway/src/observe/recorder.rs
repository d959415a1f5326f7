//! Hands recordings of whole calls to whoever keeps them. No call waits for that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::recording::Recording;

/// The way to whoever keeps recordings.
#[derive(Debug)]
pub(crate) struct Recorder {
    queue: SyncSender<Recording>,
    dropped: AtomicU64,
}

impl Recorder {
    /// Of more than `capacity` recordings that wait, the newest are dropped.
    #[cfg_attr(not(test), expect(dead_code, reason = "no setting turns recording on yet"))]
    pub(crate) fn new(capacity: usize) -> (Self, Receiver<Recording>) {
        let (queue, recordings) = sync_channel(capacity);
        (Self { queue, dropped: AtomicU64::new(0) }, recordings)
    }

    /// Takes a recording, or counts that there was no room for it.
    pub(crate) fn offer(&self, recording: Recording) {
        if self.queue.try_send(recording).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
