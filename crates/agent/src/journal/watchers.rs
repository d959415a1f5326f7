//! Who sees what happens in conversations.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use openskill_proto::v1::ChatEvent;
use tokio::sync::broadcast;

/// How many events a slow reader may be behind before it reads the log again.
const BEHIND: usize = 1024;

/// The watchers, by conversation.
#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<HashMap<String, broadcast::Sender<ChatEvent>>>);

impl Watchers {
    /// What happens from now on.
    pub(super) fn watch(&self, id: &str) -> broadcast::Receiver<ChatEvent> {
        let mut all = self.all();
        // Those whose readers are gone make room now.
        if !all.contains_key(id) && all.len().is_power_of_two() {
            all.retain(|_, it| it.receiver_count() > 0);
        }
        all.entry(id.to_owned()).or_insert_with(|| broadcast::channel(BEHIND).0).subscribe()
    }

    /// Shows an event, if anybody watches.
    pub(super) fn show(&self, id: &str, event: impl FnOnce() -> ChatEvent) {
        let mut all = self.all();
        let Some(watched) = all.get(id) else { return };
        if watched.receiver_count() == 0 {
            all.remove(id);
            return;
        }
        let _ = watched.send(event());
    }

    /// Ends the streams of a conversation that is gone.
    pub(super) fn end(&self, id: &str) {
        self.all().remove(id);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, broadcast::Sender<ChatEvent>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
