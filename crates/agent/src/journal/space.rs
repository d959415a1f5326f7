//! The room that conversations take, shared fairly among principals. It is counted before anything is written.

use std::collections::HashMap;

use openskill_identity::shares::{Pool, Share};

use super::meta::Meta;
use crate::config::Place;
use crate::entry::{Entry, Stamped};
use crate::error::{AgentError, Bound};

/// Bytes of all conversations, in memory and in a file.
const MEMORY_BYTES: usize = 64 << 20;
const FILE_BYTES: usize = 1 << 30;

/// Conversations.
const MAX_CONVERSATIONS: usize = 10_000;

/// Bytes of one conversation.
const MAX_CONVERSATION_BYTES: usize = 16 << 20;

/// Entries of one conversation. A turn that ends may exceed them by those of its open calls.
const MAX_ENTRIES: u64 = 100_000;

/// The largest entry, in bytes of JSON.
const MAX_ENTRY_BYTES: usize = 8 << 20;

/// What a turn holds for its end from its beginning on, and more for each call of a reply: the end can be written even if
/// nothing else can.
const RESERVE_BYTES: usize = 4 << 10;
const RESERVE_BYTES_OF_CALL: usize = 4 << 10;

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
    /// What of it is for the end of its turn.
    reserve: usize,
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

    /// Counts a conversation that is there already, as many bytes as it has.
    pub(super) fn count(&mut self, id: &str, meta: &Meta) {
        let (mut bytes, mut place) =
            (self.bytes.share(meta.principal.as_str()), self.places.share(meta.principal.as_str()));
        let reserve = if meta.is_over() { 0 } else { RESERVE_BYTES };
        bytes.count(meta.bytes() + reserve);
        place.count(1);
        self.rooms.insert(id.to_owned(), Room { bytes, reserve, _place: place });
    }

    /// Takes the place of a new conversation.
    pub(super) fn begin(&mut self, id: &str, principal: &str) -> Result<(), AgentError> {
        let place = self.places.take(principal, 1).ok_or(AgentError::Full(Bound::Conversations))?;
        let bytes = self.bytes.share(principal);
        self.rooms.insert(id.to_owned(), Room { bytes, reserve: 0, _place: place });
        Ok(())
    }

    /// The bytes that a conversation of an earlier release was found to have; at most those of any.
    pub(super) fn bytes_of(&self, id: &str) -> u64 {
        self.rooms.get(id).map_or(0, |room| (room.bytes.amount() - room.reserve.min(room.bytes.amount())) as u64)
    }

    /// Takes room for entries. Nothing is changed if that is refused. `before`: the conversation without them.
    pub(super) fn take(&mut self, id: &str, before: &Meta, entries: &[Stamped]) -> Result<(), AgentError> {
        let room = self.rooms.get_mut(id).ok_or(AgentError::NoConversation)?;
        let is_end = entries.last().is_some_and(|it| matches!(it.entry, Entry::Ended(_)));
        let more: usize = entries.iter().map(|it| it.bytes).sum();
        if entries.iter().any(|it| it.bytes > MAX_ENTRY_BYTES) {
            return Err(AgentError::Full(Bound::Event));
        }
        let is_long =
            before.bytes() + more > MAX_CONVERSATION_BYTES || entries.last().is_some_and(|it| it.number > MAX_ENTRIES);
        // The end of a turn has room in what its beginning reserved.
        if is_long && !(is_end && more <= room.reserve) {
            return Err(AgentError::Full(Bound::Conversation));
        }
        let reserve =
            if is_end { 0 } else { entries.iter().fold(room.reserve, |reserve, it| reserve_after(reserve, &it.entry)) };
        if !room.bytes.resize(before.bytes() + more + reserve) {
            return Err(AgentError::Full(Bound::Bytes));
        }
        room.reserve = reserve;
        Ok(())
    }

    /// Gives back what a conversation does not take after all: it could not be written. None: there is none.
    pub(super) fn restore(&mut self, id: &str, meta: Option<&Meta>) {
        match (meta, self.rooms.get_mut(id)) {
            (Some(meta), Some(room)) => {
                room.bytes.shrink(room.bytes.amount().saturating_sub(meta.bytes() + room.reserve))
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

/// What is reserved once this is written.
fn reserve_after(before: usize, entry: &Entry) -> usize {
    match entry {
        Entry::Started(_) => RESERVE_BYTES,
        Entry::Replied(it) => RESERVE_BYTES + it.calls.len() * RESERVE_BYTES_OF_CALL,
        _ => before,
    }
}
