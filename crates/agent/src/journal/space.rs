//! Limits the space of conversations, which principals share fairly.
//!
//! Each write compares itself with what the store adds up. Writes at the same time don't see each other, so together
//! they may exceed a limit by little.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use openskill_identity::shares::is_fair;
use openskill_store::Location;
use openskill_store::conversations::{Conversation, ConversationUsage, Phase};

use super::meta::Meta;
use crate::entry::Stamped;
use crate::error::{AgentError, Bound};

/// The maximum total size of all conversations in bytes, for a store in memory and for others.
const MEMORY_BYTES: usize = 32 << 20;
const DISK_BYTES: usize = 1 << 30;

/// The maximum number of conversations.
const MAX_CONVERSATIONS: usize = 10_000;

/// The maximum size of one conversation, in bytes.
const MAX_CONVERSATION_BYTES: usize = 16 << 20;

/// The maximum number of entries in a conversation. The end of a turn may exceed it with entries that close open
/// calls.
const MAX_ENTRIES: u64 = 100_000;

/// The maximum size of an entry as JSON, in bytes.
const MAX_ENTRY_BYTES: usize = 8 << 20;

/// The limits of all conversations in a store.
#[derive(Debug)]
pub(super) struct Space {
    bytes: usize,
    conversations: usize,
}

impl Space {
    pub(super) fn new(location: &Location) -> Self {
        let bytes = if *location == Location::Memory { MEMORY_BYTES } else { DISK_BYTES };
        Self::with_limits(bytes, MAX_CONVERSATIONS)
    }

    pub(super) fn with_limits(bytes: usize, conversations: usize) -> Self {
        Self { bytes, conversations }
    }

    /// Whether conversations use more than the limits.
    pub(super) fn is_exceeded(&self, usage: ConversationUsage) -> bool {
        size(usage.total_bytes) > self.bytes || size(usage.total_count) > self.conversations
    }

    /// Returns the conversations that must be deleted so that the rest fits the limits.
    pub(super) fn surplus(&self, all: &[Conversation]) -> Vec<Conversation> {
        let mut kept: Vec<_> = all.iter().collect();
        let mut surplus = take_surplus(&mut kept, self.bytes, |it| size(it.room_bytes));
        surplus.extend(take_surplus(&mut kept, self.conversations, |_| 1));
        surplus.into_iter().cloned().collect()
    }

    /// Checks whether a principal may have one more conversation.
    pub(super) fn check_new(&self, usage: ConversationUsage) -> Result<(), AgentError> {
        let (mine, used) = (size(usage.own_count), size(usage.total_count));
        let holders = size(usage.principals) + usize::from(mine == 0);
        let fits = used < self.conversations && is_fair(mine + 1, used, self.conversations, holders);
        if fits { Ok(()) } else { Err(AgentError::Full(Bound::Conversations)) }
    }

    /// Checks whether new entries fit. `before` and `after` are the metadata without and with them.
    pub(super) fn check(
        &self,
        usage: ConversationUsage,
        before: &Meta,
        after: &Meta,
        entries: &[Stamped],
    ) -> Result<(), AgentError> {
        if entries.iter().any(|it| it.bytes > MAX_ENTRY_BYTES) {
            return Err(AgentError::Full(Bound::Event));
        }
        let is_long = after.bytes() > MAX_CONVERSATION_BYTES || after.last > MAX_ENTRIES;
        // The end of a turn uses the space that was reserved for it.
        let is_reserved = after.is_over() && after.bytes() - before.bytes() <= before.reserve();
        if is_long && !is_reserved {
            return Err(AgentError::Full(Bound::Conversation));
        }
        let more = after.room().saturating_sub(before.room());
        let (mine, used) = (size(usage.own_bytes) + more, size(usage.total_bytes));
        let fits = used + more <= self.bytes && is_fair(mine, used, self.bytes, size(usage.principals));
        if more == 0 || fits { Ok(()) } else { Err(AgentError::Full(Bound::Bytes)) }
    }
}

/// What counts against a limit is never negative.
fn size(number: i64) -> usize {
    usize::try_from(number).unwrap_or_default()
}

/// Removes conversations that exceed a limit from `all`, and returns them. Repeatedly picks the principal with the
/// highest usage, and removes its oldest conversation without an open turn. Once the limit is exceeded, frees a fifth
/// of it, because without free space no principal could write.
fn take_surplus<'a>(
    all: &mut Vec<&'a Conversation>,
    limit: usize,
    amount: impl Fn(&Conversation) -> usize,
) -> Vec<&'a Conversation> {
    let mut total: usize = all.iter().map(|it| amount(it)).sum();
    if total <= limit {
        return Vec::new();
    }
    let mut holders: HashMap<_, (usize, Vec<_>)> = HashMap::new();
    for it in all.iter() {
        let (held, ended) = holders.entry(it.principal.as_str()).or_default();
        *held += amount(it);
        if it.phase == Phase::Over {
            ended.push((Reverse(it.used_us), it.id.as_str(), amount(it)));
        }
    }
    holders.values_mut().for_each(|(_, ended)| ended.sort_unstable());
    let mut holders: BinaryHeap<_> = holders.into_values().collect();
    let mut surplus = HashSet::new();
    while total > limit - limit / 5 {
        let Some((held, mut ended)) = holders.pop() else { break };
        // A principal that only has open turns is not pushed back onto the heap.
        if let Some((_, id, freed)) = ended.pop() {
            surplus.insert(id);
            total -= freed;
            holders.push((held - freed, ended));
        }
    }
    let (removed, kept) = all.iter().partition(|it| surplus.contains(it.id.as_str()));
    *all = kept;
    removed
}
