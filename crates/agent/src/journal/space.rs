//! Accounts for the space of conversations, which principals share fairly. Changes are counted before they are
//! written.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use openskill_identity::shares::{Pool, Share};

use super::meta::Meta;
use crate::config::StoreLocation;
use crate::entry::Stamped;
use crate::error::{AgentError, Bound};

/// The maximum total size of all conversations in bytes, for a store in memory and in a file.
const MEMORY_BYTES: usize = 32 << 20;
const FILE_BYTES: usize = 1 << 30;

/// The maximum number of conversations.
const MAX_CONVERSATIONS: usize = 10_000;

/// The maximum size of one conversation, in bytes.
const MAX_CONVERSATION_BYTES: usize = 16 << 20;

/// The maximum number of entries in a conversation. The end of a turn may exceed it with entries that close open
/// calls.
const MAX_ENTRIES: u64 = 100_000;

/// The maximum size of an entry as JSON, in bytes.
const MAX_ENTRY_BYTES: usize = 8 << 20;

/// The used space of all conversations in a journal.
#[derive(Debug)]
pub(super) struct Space {
    bytes: Pool,
    slots: Pool,
    rooms: HashMap<String, ConversationSpace>,
}

/// The used space of a conversation.
#[derive(Debug)]
struct ConversationSpace {
    bytes: Share,
    _slot: Share,
}

impl Space {
    pub(super) fn new(location: &StoreLocation) -> Self {
        let bytes = if *location == StoreLocation::Memory { MEMORY_BYTES } else { FILE_BYTES };
        Self::with_limits(bytes, MAX_CONVERSATIONS)
    }

    pub(super) fn with_limits(bytes: usize, conversations: usize) -> Self {
        Self { bytes: Pool::new(bytes), slots: Pool::new(conversations), rooms: HashMap::new() }
    }

    /// Removes conversations from `all` until the rest fits the limits. Returns the ids of the removed
    /// conversations, which must be deleted.
    pub(super) fn trim(&self, all: &mut Vec<(String, Meta)>) -> Vec<String> {
        let mut surplus = take_surplus(all, self.bytes.limit(), Meta::room);
        surplus.extend(take_surplus(all, self.slots.limit(), |_| 1));
        surplus
    }

    /// Counts an existing conversation, even if this exceeds the limits.
    pub(super) fn count(&mut self, id: &str, meta: &Meta) {
        let (mut bytes, mut slot) =
            (self.bytes.share(meta.principal.as_str()), self.slots.share(meta.principal.as_str()));
        bytes.count(meta.room());
        slot.count(1);
        self.rooms.insert(id.to_owned(), ConversationSpace { bytes, _slot: slot });
    }

    /// Reserves space for a new conversation.
    pub(super) fn begin(&mut self, id: &str, principal: &str) -> Result<(), AgentError> {
        let slot = self.slots.take(principal, 1).ok_or(AgentError::Full(Bound::Conversations))?;
        let bytes = self.bytes.share(principal);
        self.rooms.insert(id.to_owned(), ConversationSpace { bytes, _slot: slot });
        Ok(())
    }

    /// Reserves space for new entries. Changes nothing on failure. `before` and `after` are the metadata without
    /// and with the entries.
    pub(super) fn take(
        &mut self,
        id: &str,
        before: &Meta,
        after: &Meta,
        entries: &[Stamped],
    ) -> Result<(), AgentError> {
        let room = self.rooms.get_mut(id).ok_or(AgentError::NoConversation)?;
        if entries.iter().any(|it| it.bytes > MAX_ENTRY_BYTES) {
            return Err(AgentError::Full(Bound::Event));
        }
        let is_long = after.bytes() > MAX_CONVERSATION_BYTES || after.last > MAX_ENTRIES;
        // The end of a turn uses the space that was reserved for it.
        let is_reserved = after.is_over() && after.bytes() - before.bytes() <= before.reserve();
        if is_long && !is_reserved {
            return Err(AgentError::Full(Bound::Conversation));
        }
        if room.bytes.resize(after.room()) { Ok(()) } else { Err(AgentError::Full(Bound::Bytes)) }
    }

    /// Restores a conversation's count after a failed write. `meta` is `None` if the conversation does not exist.
    pub(super) fn restore(&mut self, id: &str, meta: Option<&Meta>) {
        match (meta, self.rooms.get_mut(id)) {
            (Some(meta), Some(room)) => {
                if !room.bytes.resize(meta.room()) {
                    room.bytes.count(meta.room() - room.bytes.amount());
                }
            }
            (None, _) => self.remove(id),
            (Some(_), None) => {}
        }
    }

    /// Releases the space of a deleted conversation.
    pub(super) fn remove(&mut self, id: &str) {
        self.rooms.remove(id);
    }
}

/// Removes conversations that exceed a limit from `all`, and returns their ids. Repeatedly picks the principal
/// with the highest usage, and removes its oldest conversation without an open turn. Once the limit is exceeded,
/// frees a fifth of it, because without free space no principal could write.
fn take_surplus(all: &mut Vec<(String, Meta)>, limit: usize, amount: impl Fn(&Meta) -> usize) -> Vec<String> {
    let mut total: usize = all.iter().map(|(_, meta)| amount(meta)).sum();
    if total <= limit {
        return Vec::new();
    }
    let mut holders: HashMap<_, (usize, Vec<_>)> = HashMap::new();
    for (id, meta) in all.iter() {
        let (held, ended) = holders.entry(meta.principal.as_str()).or_default();
        *held += amount(meta);
        if meta.is_over() {
            ended.push((Reverse(meta.used_us), id, amount(meta)));
        }
    }
    holders.values_mut().for_each(|(_, ended)| ended.sort_unstable());
    let mut holders: BinaryHeap<_> = holders.into_values().collect();
    let mut surplus = HashSet::new();
    while total > limit - limit / 5 {
        let Some((held, mut ended)) = holders.pop() else { break };
        // A principal that only has open turns is not pushed back onto the heap.
        if let Some((_, id, freed)) = ended.pop() {
            surplus.insert(id.clone());
            total -= freed;
            holders.push((held - freed, ended));
        }
    }
    all.retain(|(id, _)| !surplus.contains(id));
    surplus.into_iter().collect()
}
