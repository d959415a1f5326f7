//! Who sees what happens in conversations.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use openskill_proto::v1::ChatEvent;
use prost::Message as _;
use tokio::sync::broadcast;

/// How many events a slow reader may be behind before it reads the log again.
const BEHIND: usize = 256;

/// The largest event that is kept for slow readers, in bytes. So a conversation holds no more than 1 MiB for all of them.
const MAX_SEEN_BYTES: usize = 4 << 10;

/// What a watcher sees.
#[derive(Debug, Clone)]
pub(crate) enum Seen {
    /// An event.
    Event(Box<ChatEvent>),
    /// An event that the log has: it is too large to be held for those who are slow.
    InLog,
}

/// The watchers, by conversation.
#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<HashMap<String, broadcast::Sender<Seen>>>);

impl Watchers {
    /// What happens from now on.
    pub(super) fn watch(&self, id: &str) -> broadcast::Receiver<Seen> {
        let mut all = self.all();
        // Those whose readers are gone make room now.
        if !all.contains_key(id) && all.len().is_power_of_two() {
            all.retain(|_, it| it.receiver_count() > 0);
        }
        all.entry(id.to_owned()).or_insert_with(|| broadcast::channel(BEHIND).0).subscribe()
    }

    /// Shows an event, if anybody watches. One that is not kept and is too large to be held is not shown.
    pub(super) fn show(&self, id: &str, event: impl FnOnce() -> ChatEvent) {
        let mut all = self.all();
        let Some(watched) = all.get(id) else { return };
        if watched.receiver_count() == 0 {
            all.remove(id);
            return;
        }
        let event = event();
        let is_small = event.encoded_len() <= MAX_SEEN_BYTES;
        if is_small || event.number > 0 {
            let _ = watched.send(if is_small { Seen::Event(Box::new(event)) } else { Seen::InLog });
        }
    }

    /// Ends the streams of a conversation that is gone.
    pub(super) fn end(&self, id: &str) {
        self.all().remove(id);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, broadcast::Sender<Seen>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
