//! The room that conversations take, shared fairly among principals. It is counted before anything is written.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use openskill_identity::shares::{Pool, Share};

use super::meta::Meta;
use crate::config::Place;
use crate::entry::Stamped;
use crate::error::{AgentError, Bound};

/// Bytes of all conversations, in memory and in a file.
const MEMORY_BYTES: usize = 32 << 20;
const FILE_BYTES: usize = 1 << 30;

/// Conversations.
const MAX_CONVERSATIONS: usize = 10_000;

/// Bytes of one conversation.
const MAX_CONVERSATION_BYTES: usize = 16 << 20;

/// Entries of one conversation. A turn that ends may exceed them by those of its open calls.
const MAX_ENTRIES: u64 = 100_000;

/// The largest entry, in bytes of JSON.
const MAX_ENTRY_BYTES: usize = 8 << 20;

/// The room of all conversations of a journal.
#[derive(Debug)]
pub(super) struct Space {
    bytes: Pool,
    places: Pool,
    rooms: HashMap<String, Room>,
}

/// The room of one conversation.
#[derive(Debug)]
struct Room {
    bytes: Share,
    _place: Share,
}

impl Space {
    pub(super) fn new(place: &Place) -> Self {
        let bytes = if *place == Place::Memory { MEMORY_BYTES } else { FILE_BYTES };
        Self::with(bytes, MAX_CONVERSATIONS)
    }

    pub(super) fn with(bytes: usize, conversations: usize) -> Self {
        Self { bytes: Pool::new(bytes), places: Pool::new(conversations), rooms: HashMap::new() }
    }

    /// Takes out of all conversations those that have to go so that the others fit, and returns their ids.
    pub(super) fn trim(&self, all: &mut Vec<(String, Meta)>) -> Vec<String> {
        let mut surplus = take_surplus(all, self.bytes.limit(), Meta::room);
        surplus.extend(take_surplus(all, self.places.limit(), |_| 1));
        surplus
    }

    /// Counts a conversation that is there already, as many bytes as it has.
    pub(super) fn count(&mut self, id: &str, meta: &Meta) {
        let (mut bytes, mut place) =
            (self.bytes.share(meta.principal.as_str()), self.places.share(meta.principal.as_str()));
        bytes.count(meta.room());
        place.count(1);
        self.rooms.insert(id.to_owned(), Room { bytes, _place: place });
    }

    /// Takes the place of a new conversation.
    pub(super) fn begin(&mut self, id: &str, principal: &str) -> Result<(), AgentError> {
        let place = self.places.take(principal, 1).ok_or(AgentError::Full(Bound::Conversations))?;
        let bytes = self.bytes.share(principal);
        self.rooms.insert(id.to_owned(), Room { bytes, _place: place });
        Ok(())
    }

    /// Takes room for entries. Nothing is changed if that is refused. `before`, `after`: the conversation without and with
    /// them.
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
        // The end of a turn has room in what its beginning reserved.
        let is_reserved = after.is_over() && after.bytes() - before.bytes() <= before.reserve();
        if is_long && !is_reserved {
            return Err(AgentError::Full(Bound::Conversation));
        }
        if room.bytes.resize(after.room()) { Ok(()) } else { Err(AgentError::Full(Bound::Bytes)) }
    }

    /// Counts what a conversation takes if its change could not be written. None: there is none.
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

    /// Gives back all that a conversation takes.
    pub(super) fn remove(&mut self, id: &str) {
        self.rooms.remove(id);
    }
}

/// Takes out the conversations that exceed a limit, and returns their ids: the oldest that ended, each time of the principal
/// that holds most. If there are some, a fifth is left free: when everything is taken, no principal can write anything.
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
        // A principal whose turns all run stays out of the heap.
        if let Some((_, id, freed)) = ended.pop() {
            surplus.insert(id.clone());
            total -= freed;
            holders.push((held - freed, ended));
        }
    }
    all.retain(|(id, _)| !surplus.contains(id));
    surplus.into_iter().collect()
}
