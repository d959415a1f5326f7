//! Metadata of conversations, which is available without reading their entries.

use openskill_proto::v1;
use openskill_store::conversations::{Conversation, Phase};
use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Stamped};
use crate::error::AgentError;

/// The maximum length of a title, in characters.
const MAX_TITLE: usize = 80;

/// The space reserved for the end of a turn: this base amount when the turn begins, and more for each call in a
/// reply. Thus the end can be written even if the store is full.
const RESERVE_BYTES: usize = 4 << 10;
const RESERVE_BYTES_OF_CALL: usize = 4 << 10;

/// The metadata of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Meta {
    pub(super) principal: String,
    pub(super) title: String,
    pub(super) created_us: u64,
    pub(super) used_us: u64,
    /// The number of the last entry.
    pub(super) last: u64,
    /// The size of all entries, in bytes.
    pub(super) bytes: u64,
    /// The space reserved for the end of the turn, in bytes.
    pub(super) reserve: usize,
    pub(super) state: State,
}

/// The state of a conversation's last turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// No turn has begun yet.
    #[default]
    New = v1::ConversationState::Unspecified as isize,
    /// The last turn has ended.
    Idle = v1::ConversationState::Idle as isize,
    /// A turn is running, or was running when the process ended.
    Running = v1::ConversationState::Running as isize,
    /// The turn is waiting for its user.
    Waiting = v1::ConversationState::Waiting as isize,
}

impl Meta {
    pub(super) fn new(principal: String, now: u64) -> Self {
        Self { principal, created_us: now, used_us: now, ..Self::default() }
    }

    pub(super) fn from_row(row: &Conversation) -> Result<Self, AgentError> {
        serde_json::from_slice(&row.metadata).map_err(unreadable)
    }

    /// Returns the row of a conversation that `gateway` writes.
    pub(super) fn to_row(&self, id: &str, gateway: &str) -> Result<Conversation, AgentError> {
        let integer = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Ok(Conversation {
            id: id.to_owned(),
            principal: self.principal.clone(),
            used_us: integer(self.used_us),
            last_number: integer(self.last),
            room_bytes: integer(self.room() as u64),
            phase: match self.state {
                State::New | State::Idle => Phase::Over,
                State::Running => Phase::Running,
                State::Waiting => Phase::Waiting,
            },
            gateway: gateway.to_owned(),
            metadata: serde_json::to_vec(self).map_err(unreadable)?,
        })
    }

    /// Updates the metadata with a new entry.
    pub(super) fn apply(&mut self, stamped: &Stamped) {
        (self.last, self.used_us) = (stamped.number, stamped.time_us.max(self.used_us));
        self.bytes += stamped.bytes as u64;
        self.state = match &stamped.entry {
            Entry::Ended(_) => State::Idle,
            Entry::Waiting { .. } => State::Waiting,
            _ => State::Running,
        };
        self.reserve = match &stamped.entry {
            Entry::Started(_) => RESERVE_BYTES,
            Entry::Replied(it) => RESERVE_BYTES + it.calls.len() * RESERVE_BYTES_OF_CALL,
            Entry::Ended(_) => 0,
            _ => self.reserve,
        };
        if let Entry::Started(started) = &stamped.entry
            && self.title.is_empty()
        {
            let line = started.text.lines().map(str::trim).find(|it| !it.is_empty()).unwrap_or_default();
            self.title = line.chars().filter(|it| !it.is_control()).take(MAX_TITLE).collect();
        }
    }

    /// Returns the size of all entries, in bytes.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX / 2)
    }

    /// Returns the space reserved for the end of the turn, in bytes.
    pub(super) fn reserve(&self) -> usize {
        if self.is_over() { 0 } else { self.reserve }
    }

    /// Returns the space used by the conversation in bytes: its entries and its reserve.
    pub(super) fn room(&self) -> usize {
        self.bytes() + self.reserve()
    }

    /// Returns whether no turn is running or waiting.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::New | State::Idle)
    }

    /// Converts the metadata to its form for clients.
    pub(super) fn to_conversation(&self, id: &str) -> v1::Conversation {
        v1::Conversation {
            id: id.to_owned(),
            title: self.title.clone(),
            created_us: self.created_us,
            used_us: self.used_us,
            last_number: self.last,
            state: self.state as i32,
        }
    }
}

/// Returns the error for stored data that is not in the format of this program.
pub(super) fn unreadable(error: serde_json::Error) -> AgentError {
    AgentError::Store(format!("the stored data can't be read: {error}"))
}
