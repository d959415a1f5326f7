//! Stores conversations: an append-only log for each, in an embedded database.
//!
//! A single thread writes. It commits all waiting changes in one transaction, so a hundred turns cost about one flush.
//! A write returns only once its entries are durable. Only then do watchers see them, in log order. Reads run
//! concurrently.
//!
//! - `store`: tables and transactions
//! - `meta`: metadata of conversations
//! - `space`: accounts for the space of conversations
//! - `writer`: the writer thread
//! - `watchers`: delivers events to watchers

use std::sync::Arc;
use std::time::Duration;

use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1;
use tokio::sync::broadcast;

use crate::config::StoreLocation;
use crate::entry::{Entry, Stamped};
use crate::error::AgentError;
use crate::event::{ephemeral, event};

mod meta;
mod space;
mod store;
mod watchers;
mod writer;

#[cfg(test)]
mod tests;

use meta::{Meta, State};
use space::Space;
use store::Store;
pub(crate) use watchers::WatchEvent;
use watchers::Watchers;
use writer::{JournalChange, Writer};

/// The default and maximum page size in lists of conversations.
const PAGE: u32 = 50;
const MAX_PAGE: u32 = 1000;

/// The approximate number of bytes per page of events. A single entry may be larger.
const PAGE_BYTES: usize = 256 << 10;

/// The stored conversations of an agent. Cheap to clone. Dropping the last clone closes the store.
#[derive(Debug, Clone)]
pub struct Journal(Arc<JournalInner>);

#[derive(Debug)]
struct JournalInner {
    // Dropped first, so that the thread can write waiting changes while the store is still open.
    writer: Writer,
    store: Arc<Store>,
    watchers: Arc<Watchers>,
}

/// Generates a conversation id.
pub(crate) fn new_id() -> String {
    format!("conv_{:032x}", rand::random::<u128>())
}

impl Journal {
    /// Opens the store of conversations at `location`, and creates it if it does not exist. Conversations that are
    /// not used for `lifetime` are deleted, both at startup and periodically.
    ///
    /// # Errors
    /// [`AgentError::Store`]: the file can't be opened, is in use by another process, or does not contain
    /// conversations.
    pub fn open(location: &StoreLocation, lifetime: Duration) -> Result<Self, AgentError> {
        Self::open_within(location, lifetime, Space::new(location))
    }

    fn open_within(location: &StoreLocation, lifetime: Duration, space: Space) -> Result<Self, AgentError> {
        let store = Arc::new(Store::open(location)?);
        let watchers = Arc::new(Watchers::default());
        let writer = Writer::start(Arc::clone(&store), Arc::clone(&watchers), lifetime, space)?;
        Ok(Self(Arc::new(JournalInner { writer, store, watchers })))
    }

    /// Creates a conversation and returns its id.
    ///
    /// # Errors
    /// [`AgentError::Full`]: the principal has used its share of conversations; [`AgentError::Store`].
    pub async fn create(&self, principal: &str) -> Result<String, AgentError> {
        let id = new_id();
        self.create_as(&id, principal).await?;
        Ok(id)
    }

    /// Creates a conversation with an id from [`new_id`], so that the caller can lock it before a list shows it.
    ///
    /// # Errors
    /// The same as for [`Journal::create`].
    pub(crate) async fn create_as(&self, id: &str, principal: &str) -> Result<(), AgentError> {
        let change = JournalChange::Create { principal: principal.to_owned() };
        self.0.writer.change(id, change).await.map(drop)
    }

    /// Appends entries. Once this returns, they are durable and sent to watchers. On failure, no entry is written.
    ///
    /// # Errors
    /// [`AgentError::Full`]: there is not enough space (the end of a turn has reserved space);
    /// [`AgentError::Store`]; [`AgentError::NoConversation`].
    pub async fn append(&self, id: &str, entries: Vec<Entry>) -> Result<Vec<Stamped>, AgentError> {
        self.0.writer.change(id, JournalChange::Append(entries)).await
    }

    /// Deletes a conversation and ends its event streams.
    ///
    /// # Errors
    /// [`AgentError::NoConversation`]: the conversation does not exist or belongs to another principal;
    /// [`AgentError::Store`].
    pub async fn delete(&self, principal: &str, id: &str) -> Result<(), AgentError> {
        self.get(principal, id).await?;
        self.0.writer.change(id, JournalChange::Delete).await.map(drop)
    }

    /// Sends an ephemeral event to watchers, if there are any. The event is not stored.
    pub fn show(&self, id: &str, what: v1::chat_event::Event) {
        self.0.watchers.show(id, || ephemeral(id, Timestamp::now().0, what));
    }

    /// Subscribes to a conversation's future events. The stream ends when the conversation is deleted.
    pub(crate) fn watch(&self, id: &str) -> broadcast::Receiver<WatchEvent> {
        self.0.watchers.watch(id)
    }

    /// Returns a page of events after the number `after`, or an empty page at the end.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub(crate) async fn events(&self, id: &str, after: u64) -> Result<Vec<v1::ChatEvent>, AgentError> {
        let id = id.to_owned();
        self.read_blocking(move |store| {
            Ok(store.read(&id, after, PAGE_BYTES)?.iter().map(|it| event(&id, it)).collect())
        })
        .await
    }

    /// Folds all entries of a conversation. `fold` runs on the blocking pool, because a conversation may be long.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub(crate) async fn fold<T: Send + 'static>(
        &self,
        id: &str,
        fold: impl FnOnce(Vec<Stamped>) -> T + Send + 'static,
    ) -> Result<T, AgentError> {
        let id = id.to_owned();
        self.read_blocking(move |store| store.read(&id, 0, usize::MAX).map(fold)).await
    }

    /// Returns the size of the entries of a principal's conversation, in bytes.
    ///
    /// # Errors
    /// [`AgentError::NoConversation`], [`AgentError::Store`].
    pub(crate) async fn bytes(&self, principal: &str, id: &str) -> Result<usize, AgentError> {
        self.meta(principal, id).await.map(|it| it.bytes())
    }

    /// Returns a conversation without its entries.
    ///
    /// # Errors
    /// [`AgentError::NoConversation`]: the conversation does not exist or belongs to another principal;
    /// [`AgentError::Store`].
    pub async fn get(&self, principal: &str, id: &str) -> Result<v1::Conversation, AgentError> {
        self.meta(principal, id).await.map(|it| it.to_conversation(id))
    }

    async fn meta(&self, principal: &str, id: &str) -> Result<Meta, AgentError> {
        let id = id.to_owned();
        let found = self.read_blocking(move |store| store.meta(&id)).await?;
        found.filter(|it| it.principal == principal).ok_or(AgentError::NoConversation)
    }

    /// Returns a page of a principal's conversations, most recently used first. A `limit` of 0 means 50. `cursor`
    /// comes from the previous page.
    ///
    /// # Errors
    /// [`AgentError::Invalid`]: the cursor is invalid; [`AgentError::Store`].
    pub async fn list(
        &self,
        principal: &str,
        limit: u32,
        cursor: &str,
    ) -> Result<v1::ListConversationsResponse, AgentError> {
        let limit = if limit == 0 { PAGE } else { limit.min(MAX_PAGE) };
        let before = if cursor.is_empty() { None } else { Some(read_cursor(cursor)?) };
        let principal = principal.to_owned();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut found = self.read_blocking(move |store| store.conversations(&principal, before, limit + 1)).await?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let last = found.last().filter(|_| has_more);
        let next_cursor = last.map(|(id, meta)| format!("{:016x}{id}", meta.used_us)).unwrap_or_default();
        let conversations = found.iter().map(|(id, meta)| meta.to_conversation(id)).collect();
        Ok(v1::ListConversationsResponse { conversations, next_cursor })
    }

    /// Returns the conversations whose turn was running when the process ended, as pairs of principal and
    /// conversation id.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub async fn running(&self) -> Result<Vec<(String, String)>, AgentError> {
        let running = self.read_blocking(|store| store.all(|meta| meta.state == State::Running)).await?;
        Ok(running.into_iter().map(|(id, meta)| (meta.principal, id)).collect())
    }

    /// Reads on the blocking pool, because the disk may be slow.
    async fn read_blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Store) -> Result<T, AgentError> + Send + 'static,
    ) -> Result<T, AgentError> {
        let store = Arc::clone(&self.0.store);
        let read = tokio::task::spawn_blocking(move || read(&store)).await;
        read.unwrap_or_else(|_| Err(AgentError::Store("a read was interrupted".to_owned())))
    }
}

fn read_cursor(cursor: &str) -> Result<(u64, String), AgentError> {
    let invalid = || AgentError::Invalid("cursor is not from an earlier page".to_owned());
    let (used, id) = cursor.split_at_checked(16).ok_or_else(invalid)?;
    Ok((u64::from_str_radix(used, 16).map_err(|_| invalid())?, id.to_owned()))
}
