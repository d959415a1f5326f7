//! Delivers the events of conversations to watchers as they happen.

use std::collections::HashMap;

use openskill_proto::v1::ChatEvent;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::broadcast;

/// How many events a slow watcher may lag behind before it must read the log again.
const BEHIND: usize = 256;

/// The maximum size of an event buffered for slow watchers, in bytes. This limits a conversation's buffer to 1
/// MiB.
const MAX_WATCH_EVENT_BYTES: usize = 4 << 10;

/// An event, or a hint to read it from the log.
#[derive(Debug, Clone)]
pub(crate) enum WatchEvent {
    Event(Box<ChatEvent>),
    /// An event that is too large for the buffer. The watcher must read it from the log.
    InLog,
}

/// Event senders by conversation id.
#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<HashMap<String, broadcast::Sender<WatchEvent>>>);

impl Watchers {
    /// Subscribes to a conversation's future events.
    pub(super) fn watch(&self, id: &str) -> broadcast::Receiver<WatchEvent> {
        let mut all = self.0.lock();
        // Remove senders without receivers each time the map has doubled.
        if !all.contains_key(id) && all.len().is_power_of_two() {
            all.retain(|_, it| it.receiver_count() > 0);
        }
        all.entry(id.to_owned()).or_insert_with(|| broadcast::channel(BEHIND).0).subscribe()
    }

    /// Sends an event if there are watchers. Drops ephemeral events that are too large for the buffer.
    pub(super) fn show(&self, id: &str, event: impl FnOnce() -> ChatEvent) {
        let mut all = self.0.lock();
        let Some(watched) = all.get(id) else { return };
        if watched.receiver_count() == 0 {
            all.remove(id);
            return;
        }
        let event = event();
        let is_small = event.encoded_len() <= MAX_WATCH_EVENT_BYTES;
        if is_small || event.number > 0 {
            let _ = watched.send(if is_small { WatchEvent::Event(Box::new(event)) } else { WatchEvent::InLog });
        }
    }

    /// Ends the event streams of a deleted conversation.
    pub(super) fn end(&self, id: &str) {
        self.0.lock().remove(id);
    }
}
