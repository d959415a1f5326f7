//! Stores conversations: an append-only log for each, in the store of a gateway or in one of its own.
//!
//! An append names the number of its first entry, and fails if another gateway wrote that number or holds the
//! conversation. It returns only once its entries are durable. Only then do watchers see them, in log order.
//!
//! - `meta`: metadata of conversations
//! - `space`: limits the space of conversations
//! - `watchers`: delivers events to watchers

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1;
use openskill_store::conversations::{Conversation, HeldConversation};
use openskill_store::engine::StoreError;
use openskill_store::{Location, Store};
use tokio::sync::{OnceCell, broadcast};

use crate::entry::{Entry, Stamped};
use crate::error::AgentError;
use crate::event::{ephemeral, event};

mod meta;
mod space;
mod watchers;

#[cfg(test)]
mod tests;

use meta::Meta;
use space::Space;
pub(crate) use watchers::WatchEvent;
use watchers::Watchers;

/// The default and maximum page size in lists of conversations.
const PAGE: u32 = 50;
const MAX_PAGE: u32 = 1000;

/// The approximate number of bytes per page of events. A single entry may be larger.
const PAGE_BYTES: usize = 256 << 10;

/// The same when a whole conversation is read.
const FOLD_BYTES: usize = 4 << 20;

/// How long a gateway that is gone holds a conversation in a shared store.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
const LEASE_MS: i64 = LEASE.as_millis() as i64;

/// The maximum number of turns that are resumed at once.
const MAX_ABANDONED: usize = 10_000;

/// The file of earlier releases, and how it begins.
const OLD_FILE: &str = "agent.redb";
const OLD_FILE_START: [u8; 4] = *b"redb";

/// The stored conversations of an agent. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Journal(Arc<JournalInner>);

#[derive(Debug)]
struct JournalInner {
    location: Location,
    /// Empty until the store can be reached.
    store: OnceCell<Store>,
    /// Identifies this agent in the store.
    gateway: String,
    space: Space,
    watchers: Watchers,
}

/// Generates a conversation id.
pub(crate) fn new_id() -> String {
    format!("conv_{:032x}", rand::random::<u128>())
}

impl Journal {
    /// Conversations at `location`. If `store` is set, it is the open store of that location. Otherwise, the first use
    /// opens it.
    pub(crate) fn new(location: Location, store: Option<Store>) -> Self {
        let space = Space::new(&location);
        Self::within(location, store, space)
    }

    fn within(location: Location, store: Option<Store>, space: Space) -> Self {
        let gateway = format!("{:016x}", rand::random::<u64>());
        let store = OnceCell::new_with(store);
        Self(Arc::new(JournalInner { location, store, gateway, space, watchers: Watchers::default() }))
    }

    /// Opens the store. Deletes the oldest conversations if they exceed the limits.
    ///
    /// # Errors
    /// [`AgentError::Store`]: it can't be opened, is in use by another process, or does not contain conversations.
    pub(crate) async fn open(&self) -> Result<(), AgentError> {
        let store = self.store().await?;
        let usage = store.conversation_usage("").await?;
        if !self.0.space.is_exceeded(usage) {
            return Ok(());
        }
        let mut all = store.all_conversations("").await?;
        while let Some(last) = all.last().map(|it| it.id.clone()) {
            let more = store.all_conversations(&last).await?;
            if more.is_empty() {
                break;
            }
            all.extend(more);
        }
        let surplus = self.0.space.surplus(&all);
        store.remove_unused(&surplus).await?;
        tracing::warn!(
            count = surplus.len(),
            "the oldest conversations were deleted: all conversations together exceeded the size limit"
        );
        Ok(())
    }

    /// Whether other gateways use the same conversations.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.0.location, Location::Postgres(_))
    }

    async fn store(&self) -> Result<&Store, AgentError> {
        let open = async || {
            if let Location::File(path) = &self.0.location {
                check_file(path)?;
            }
            Ok(Store::open(&self.0.location).await?)
        };
        self.0.store.get_or_try_init(open).await
    }

    /// Creates a conversation and returns its id.
    ///
    /// # Errors
    /// [`AgentError::Full`]: the principal has used its share of conversations; [`AgentError::Store`].
    pub(crate) async fn create(&self, principal: &str) -> Result<String, AgentError> {
        let id = new_id();
        self.create_as(&id, principal).await?;
        Ok(id)
    }

    /// Creates a conversation with an id from [`new_id`], so that the caller can lock it before a list shows it.
    ///
    /// # Errors
    /// The same as for [`Journal::create`].
    pub(crate) async fn create_as(&self, id: &str, principal: &str) -> Result<(), AgentError> {
        let store = self.store().await?;
        self.0.space.check_new(store.conversation_usage(principal).await?)?;
        let meta = Meta::new(principal.to_owned(), Timestamp::now().0);
        Ok(store.create_conversation(&meta.to_row(id, &self.0.gateway)?).await?)
    }

    /// Appends entries, the first of which gets `number`. Once this returns, they are durable and sent to watchers. On
    /// failure, no entry is written.
    ///
    /// # Errors
    /// [`AgentError::Full`]: there is not enough space (the end of a turn has reserved space);
    /// [`AgentError::Elsewhere`]: `number` is not the next one, or another gateway holds the conversation;
    /// [`AgentError::Store`]; [`AgentError::NoConversation`].
    pub(crate) async fn append_at(
        &self,
        id: &str,
        number: u64,
        entries: Vec<Entry>,
    ) -> Result<Vec<Stamped>, AgentError> {
        let store = self.store().await?;
        let before = self.find(id).await?.ok_or(AgentError::NoConversation)?;
        if before.last + 1 != number {
            return Err(AgentError::Elsewhere);
        }
        let time_us = Timestamp::now().0.max(before.used_us);
        let mut json = Vec::with_capacity(entries.len());
        let mut written = Vec::with_capacity(entries.len());
        for (entry, number) in entries.into_iter().zip(number..) {
            let mut stamped = Stamped { number, time_us, entry, bytes: 0 };
            let text = serde_json::to_vec(&stamped).map_err(|error| AgentError::Store(error.to_string()))?;
            stamped.bytes = text.len();
            written.push(stamped);
            json.push(text);
        }
        let mut after = before.clone();
        written.iter().for_each(|it| after.apply(it));
        let usage = store.conversation_usage(&before.principal).await?;
        self.0.space.check(usage, &before, &after, &written)?;
        if !store.append_entries(&after.to_row(id, &self.0.gateway)?, json, LEASE_MS).await? {
            return Err(AgentError::Elsewhere);
        }
        written.iter().for_each(|it| self.0.watchers.show(id, || event(id, it)));
        Ok(written)
    }

    /// Deletes a conversation and ends its event streams.
    ///
    /// # Errors
    /// [`AgentError::NoConversation`]: the conversation does not exist or belongs to another principal;
    /// [`AgentError::Store`].
    pub(crate) async fn delete(&self, principal: &str, id: &str) -> Result<(), AgentError> {
        self.get(principal, id).await?;
        self.store().await?.remove_conversation(id).await?;
        self.0.watchers.end(id);
        Ok(())
    }

    /// Deletes conversations that were not used for `lifetime`. Skips those with a running turn.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub(crate) async fn remove_unused(&self, lifetime: Duration) -> Result<(), AgentError> {
        let lifetime = u64::try_from(lifetime.as_micros()).unwrap_or(u64::MAX);
        let before = integer(Timestamp::now().0.saturating_sub(lifetime));
        let store = self.store().await?;
        loop {
            let unused = store.unused_conversations(before).await?;
            if unused.is_empty() {
                return Ok(());
            }
            store.remove_unused(&unused).await?;
            unused.iter().for_each(|it| self.0.watchers.end(&it.id));
            tracing::info!(count = unused.len(), "conversations expired");
        }
    }

    /// Sends an ephemeral event to watchers, if there are any. The event is not stored.
    pub(crate) fn show(&self, id: &str, what: v1::chat_event::Event) {
        self.0.watchers.show(id, || ephemeral(id, Timestamp::now().0, what));
    }

    /// Subscribes to a conversation's future events that this agent writes. The stream ends when the conversation is
    /// deleted here.
    pub(crate) fn watch(&self, id: &str) -> broadcast::Receiver<WatchEvent> {
        self.0.watchers.watch(id)
    }

    /// Returns a page of events after the number `after`, or an empty page at the end.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub(crate) async fn events(&self, id: &str, after: u64) -> Result<Vec<v1::ChatEvent>, AgentError> {
        let page = self.store().await?.entries(id, integer(after), PAGE_BYTES).await?;
        page.iter().map(|it| Ok(event(id, &parse_entry(&it.entry)?))).collect()
    }

    /// Folds all entries of a conversation. Runs on the blocking pool, because a conversation may be long.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub(crate) async fn fold<T: Send + 'static>(
        &self,
        id: &str,
        fold: impl FnOnce(Vec<Stamped>) -> T + Send + 'static,
    ) -> Result<T, AgentError> {
        let store = self.store().await?;
        let mut stored = store.entries(id, 0, FOLD_BYTES).await?;
        while let Some(last) = stored.last().map(|it| it.number) {
            let page = store.entries(id, last, FOLD_BYTES).await?;
            if page.is_empty() {
                break;
            }
            stored.extend(page);
        }
        let parse = move || stored.iter().map(|it| parse_entry(&it.entry)).collect::<Result<_, _>>().map(fold);
        let read = tokio::task::spawn_blocking(parse).await;
        read.unwrap_or_else(|_| Err(AgentError::Store("a read was interrupted".to_owned())))
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
    pub(crate) async fn get(&self, principal: &str, id: &str) -> Result<v1::Conversation, AgentError> {
        self.meta(principal, id).await.map(|it| it.to_conversation(id))
    }

    /// Returns the number of a conversation's last entry. None if the conversation is gone.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub(crate) async fn last_number(&self, id: &str) -> Result<Option<u64>, AgentError> {
        Ok(self.find(id).await?.map(|it| it.last))
    }

    async fn meta(&self, principal: &str, id: &str) -> Result<Meta, AgentError> {
        self.find(id).await?.filter(|it| it.principal == principal).ok_or(AgentError::NoConversation)
    }

    async fn find(&self, id: &str) -> Result<Option<Meta>, AgentError> {
        let row = self.store().await?.conversation(id).await?;
        row.map(|it| Meta::from_row(&it)).transpose()
    }

    /// Returns a page of a principal's conversations, most recently used first. A `limit` of 0 means 50. `cursor`
    /// comes from the previous page.
    ///
    /// # Errors
    /// [`AgentError::Invalid`]: the cursor is invalid; [`AgentError::Store`].
    pub(crate) async fn list(
        &self,
        principal: &str,
        limit: u32,
        cursor: &str,
    ) -> Result<v1::ListConversationsResponse, AgentError> {
        let limit = if limit == 0 { PAGE } else { limit.min(MAX_PAGE) };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let before = if cursor.is_empty() { None } else { Some(read_cursor(cursor)?) };
        let mut found = self.store().await?.conversations(principal, before, limit + 1).await?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let last = found.last().filter(|_| has_more);
        let next_cursor = last.map(|it| format!("{:016x}{}", it.used_us, it.id)).unwrap_or_default();
        let shown = found.iter().map(|it| Ok(Meta::from_row(it)?.to_conversation(&it.id)));
        Ok(v1::ListConversationsResponse { conversations: shown.collect::<Result<_, AgentError>>()?, next_cursor })
    }

    /// Returns the conversations whose turn was running when its agent stopped.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub(crate) async fn abandoned(&self) -> Result<Vec<Conversation>, AgentError> {
        Ok(self.store().await?.abandoned_conversations(MAX_ABANDONED).await?)
    }

    /// Takes the conversation of a turn that is not over. Returns false if another gateway holds it, or it is over.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub(crate) async fn claim(&self, id: &str) -> Result<bool, AgentError> {
        Ok(self.store().await?.claim_conversation(id, &self.0.gateway, LEASE_MS).await?)
    }

    /// Whether this agent was the last to write or to claim a conversation.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub(crate) async fn is_own(&self, id: &str) -> Result<bool, AgentError> {
        let row = self.store().await?.conversation(id).await?;
        Ok(row.is_some_and(|it| it.gateway == self.0.gateway))
    }

    /// Extends the leases of this agent's conversations, and returns those.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub(crate) async fn renew(&self) -> Result<Vec<HeldConversation>, AgentError> {
        Ok(self.store().await?.renew_conversations(&self.0.gateway, LEASE_MS).await?)
    }

    /// Lets other gateways take a conversation at once. Otherwise, they take it when its lease ends.
    pub(crate) async fn release(&self, id: &str) {
        if !self.is_shared() {
            return;
        }
        let released =
            async { Ok::<_, AgentError>(self.store().await?.release_conversation(id, &self.0.gateway).await?) };
        if let Err(error) = released.await {
            tracing::warn!(%error, conversation = id, "the conversation stays here until its lease ends");
        }
    }

    /// Asks the gateway that runs a turn to cancel it.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub(crate) async fn request_cancel(&self, id: &str) -> Result<(), AgentError> {
        Ok(self.store().await?.request_cancel(id).await?)
    }
}

fn parse_entry(json: &[u8]) -> Result<Stamped, AgentError> {
    let stamped: Stamped = serde_json::from_slice(json).map_err(meta::unreadable)?;
    Ok(Stamped { bytes: json.len(), ..stamped })
}

fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn read_cursor(cursor: &str) -> Result<(i64, &str), AgentError> {
    let invalid = || AgentError::Invalid("cursor is not from an earlier page".to_owned());
    let (used, id) = cursor.split_at_checked(16).ok_or_else(invalid)?;
    Ok((i64::from_str_radix(used, 16).map_err(|_| invalid())?, id))
}

/// Refuses a file of an earlier release, and mentions one that is in the same folder.
fn check_file(path: &Path) -> Result<(), AgentError> {
    let mut start = [0; OLD_FILE_START.len()];
    let is_old = std::fs::File::open(path).and_then(|mut it| it.read_exact(&mut start)).is_ok();
    if is_old && start == OLD_FILE_START {
        let shown = path.display();
        return Err(AgentError::Store(format!(
            "{shown}: an earlier openskill wrote it, and this one can't read it: set another file"
        )));
    }
    let old = path.with_file_name(OLD_FILE);
    if !path.exists() && old.exists() {
        tracing::warn!(file = %old.display(), "this file has earlier conversations, which this openskill can't read");
    }
    Ok(())
}

impl From<StoreError> for AgentError {
    fn from(error: StoreError) -> Self {
        Self::Store(match error {
            StoreError::Locked(file) => {
                format!("{file}: another process has it open: stop that process, or set another file")
            }
            error => error.to_string(),
        })
    }
}
