//! The conversations: an append-only log for each, in an embedded store.
//!
//! One thread writes. It commits what waits in one transaction, so a hundred turns cost about one flush; each entry is durable
//! before its writer goes on, and shown to watchers only then, in the order of the log. Reads go beside it.
//!
//! - `store`: tables and transactions
//! - `meta`: what is known of a conversation without reading it
//! - `space`: the room that conversations take
//! - `writer`: the thread
//! - `watchers`: who sees what happens

use std::sync::Arc;
use std::time::Duration;

use openskill_proto::v1;
use tokio::sync::broadcast;

use crate::clock::now_us;
use crate::config::Place;
use crate::entry::event::{ephemeral, event};
use crate::entry::{Entry, Stamped};
use crate::error::AgentError;

mod meta;
mod space;
mod store;
mod watchers;
mod writer;

#[cfg(test)]
mod tests;

use meta::Meta;
use space::Space;
use store::Store;
pub(crate) use watchers::Seen;
use watchers::Watchers;
use writer::{Change, Changed, Writer};

/// Conversations of a page unless the request says otherwise, and at most.
const PAGE: u32 = 50;
const MAX_PAGE: u32 = 1000;

/// The conversations of an agent. Cheap to clone. The last clone closes the store.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    // Dropped first: the thread finishes what waits while the store is open.
    writer: Writer,
    store: Arc<Store>,
    watchers: Arc<Watchers>,
}

/// The id of a new conversation.
pub(crate) fn new_id() -> String {
    format!("conv_{:032x}", rand::random::<u128>())
}

impl Journal {
    /// Opens the conversations at `place`, or begins with none. Those that were not used for `lifetime` are deleted, now and from
    /// time to time.
    ///
    /// # Errors
    /// [`AgentError::Store`]: the file can't be opened, another process has it, or it is no store of conversations.
    pub fn open(place: &Place, lifetime: Duration) -> Result<Self, AgentError> {
        Self::open_within(place, lifetime, Space::new(place))
    }

    fn open_within(place: &Place, lifetime: Duration, space: Space) -> Result<Self, AgentError> {
        let store = Arc::new(Store::open(place)?);
        let watchers = Arc::new(Watchers::default());
        let writer = Writer::start(Arc::clone(&store), Arc::clone(&watchers), lifetime, space)?;
        Ok(Self(Arc::new(Inner { writer, store, watchers })))
    }

    /// Begins a conversation, and returns its id.
    ///
    /// # Errors
    /// [`AgentError::Full`]: the principal has its share of conversations; [`AgentError::Store`].
    pub async fn create(&self, principal: &str) -> Result<String, AgentError> {
        let id = new_id();
        self.create_as(&id, principal).await?;
        Ok(id)
    }

    /// Begins a conversation with an id of [`new_id`], so that it can be locked before anybody sees it.
    ///
    /// # Errors
    /// As [`Journal::create`].
    pub(crate) async fn create_as(&self, id: &str, principal: &str) -> Result<(), AgentError> {
        let change = Change::Create { principal: principal.to_owned() };
        self.0.writer.change(id, change).await.map(drop)
    }

    /// Appends entries. They are durable, and shown, when this returns; none of them is if it fails.
    ///
    /// # Errors
    /// [`AgentError::Full`]: there is no room, but the end of a turn always has some; [`AgentError::Store`];
    /// [`AgentError::NoConversation`].
    pub async fn append(&self, id: &str, entries: Vec<Entry>) -> Result<Vec<Stamped>, AgentError> {
        match self.0.writer.change(id, Change::Append(entries)).await? {
            Changed::Written(written) => Ok(written),
            Changed::Deleted | Changed::Done => Ok(Vec::new()),
        }
    }

    /// Deletes a conversation. Its watchers' streams end.
    ///
    /// # Errors
    /// [`AgentError::NoConversation`]: also if it belongs to another principal; [`AgentError::Store`].
    pub async fn delete(&self, principal: &str, id: &str) -> Result<(), AgentError> {
        self.get(principal, id).await?;
        self.0.writer.change(id, Change::Delete).await.map(drop)
    }

    /// Shows watchers an event that is not kept. Does nothing if nobody watches.
    pub fn show(&self, id: &str, what: v1::chat_event::Event) {
        self.0.watchers.show(id, || ephemeral(id, now_us(), what));
    }

    /// What happens in a conversation from now on. Ends when it is deleted.
    pub(crate) fn watch(&self, id: &str) -> broadcast::Receiver<Seen> {
        self.0.watchers.watch(id)
    }

    /// Entries after this number, at most `limit`.
    #[cfg(test)]
    pub(crate) async fn read(&self, id: &str, after: u64, limit: usize) -> Result<Vec<Stamped>, AgentError> {
        let later = move |all: Vec<Stamped>| all.into_iter().filter(|it| it.number > after).take(limit).collect();
        self.fold(id, later).await
    }

    /// The next events after this number: about as much as is read at once. None: there are no more.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub(crate) async fn events(&self, id: &str, after: u64) -> Result<Vec<v1::ChatEvent>, AgentError> {
        let id = id.to_owned();
        self.reading(move |store| Ok(store.page(&id, after)?.iter().map(|it| event(&id, it)).collect())).await
    }

    /// What `fold` makes of all entries. It runs aside, too: a conversation may be long.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub(crate) async fn fold<T: Send + 'static>(
        &self,
        id: &str,
        fold: impl FnOnce(Vec<Stamped>) -> T + Send + 'static,
    ) -> Result<T, AgentError> {
        let id = id.to_owned();
        self.reading(move |store| store.entries(&id).map(fold)).await
    }

    /// How many bytes the entries of a principal's conversation have.
    ///
    /// # Errors
    /// [`AgentError::NoConversation`], [`AgentError::Store`].
    pub(crate) async fn bytes(&self, principal: &str, id: &str) -> Result<usize, AgentError> {
        self.meta(principal, id).await.map(|it| it.bytes())
    }

    /// A conversation.
    ///
    /// # Errors
    /// [`AgentError::NoConversation`]: also if it belongs to another principal; [`AgentError::Store`].
    pub async fn get(&self, principal: &str, id: &str) -> Result<v1::Conversation, AgentError> {
        self.meta(principal, id).await.map(|it| it.shown(id))
    }

    async fn meta(&self, principal: &str, id: &str) -> Result<Meta, AgentError> {
        let id = id.to_owned();
        let found = self.reading(move |store| store.meta(&id)).await?;
        found.filter(|it| it.principal == principal).ok_or(AgentError::NoConversation)
    }

    /// A page of a principal's conversations, the one used last first. `limit` 0 means 50; `cursor` is the previous page's.
    ///
    /// # Errors
    /// [`AgentError::Invalid`]: the cursor; [`AgentError::Store`].
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
        let mut found = self.reading(move |store| store.conversations(&principal, before, limit + 1)).await?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let last = found.last().filter(|_| has_more);
        let next_cursor = last.map(|(id, meta)| format!("{:016x}{id}", meta.used_us)).unwrap_or_default();
        let conversations = found.iter().map(|(id, meta)| meta.shown(id)).collect();
        Ok(v1::ListConversationsResponse { conversations, next_cursor })
    }

    /// The conversations whose turn was running when the process ended: principals and ids.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub async fn running(&self) -> Result<Vec<(String, String)>, AgentError> {
        let running = self.reading(Store::running).await?;
        Ok(running.into_iter().map(|(id, meta)| (meta.principal, id)).collect())
    }

    /// Reads aside: a disk may be slow.
    async fn reading<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Store) -> Result<T, AgentError> + Send + 'static,
    ) -> Result<T, AgentError> {
        let store = Arc::clone(&self.0.store);
        let read = tokio::task::spawn_blocking(move || read(&store)).await;
        read.unwrap_or_else(|_| Err(AgentError::Store("a read was interrupted".to_owned())))
    }
}

fn read_cursor(cursor: &str) -> Result<(u64, String), AgentError> {
    let invalid = || AgentError::Invalid("cursor is not one that a page gave".to_owned());
    let (used, id) = cursor.split_at_checked(16).ok_or_else(invalid)?;
    Ok((u64::from_str_radix(used, 16).map_err(|_| invalid())?, id.to_owned()))
}
