//! What is known of a conversation without reading it.

use openskill_proto::v1;
use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Stamped};

/// The longest title, in characters.
const MAX_TITLE: usize = 80;

/// What a turn holds for its end from its beginning on, and more for each call of a reply: the end can be written even if
/// nothing else can.
const RESERVE_BYTES: usize = 4 << 10;
const RESERVE_BYTES_OF_CALL: usize = 4 << 10;

/// A conversation without its entries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Meta {
    pub(super) principal: String,
    pub(super) title: String,
    pub(super) created_us: u64,
    pub(super) used_us: u64,
    /// The number of its last entry.
    pub(super) last: u64,
    /// The bytes of its entries.
    pub(super) bytes: u64,
    /// What is reserved for the end of its turn.
    pub(super) reserve: usize,
    pub(super) state: State,
}

/// What the last turn does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// There was none.
    #[default]
    New,
    /// It ended.
    Idle,
    /// It runs, or ran when the process ended.
    Running,
    /// It waits for its user.
    Waiting,
}

impl Meta {
    /// A new conversation.
    pub(super) fn new(principal: String, now: u64) -> Self {
        Self { principal, created_us: now, used_us: now, ..Self::default() }
    }

    /// After one entry more.
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

    /// The bytes of its entries.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX / 2)
    }

    /// What is reserved for the end of its turn.
    pub(super) fn reserve(&self) -> usize {
        // An earlier release did not write it down.
        if self.is_over() { 0 } else { self.reserve.max(RESERVE_BYTES) }
    }

    /// What it takes of the room for conversations.
    pub(super) fn room(&self) -> usize {
        self.bytes() + self.reserve()
    }

    /// Whether no turn runs or waits.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::New | State::Idle)
    }

    /// As clients see it.
    pub(super) fn shown(&self, id: &str) -> v1::Conversation {
        let state = match self.state {
            State::New => v1::ConversationState::Unspecified,
            State::Idle => v1::ConversationState::Idle,
            State::Running => v1::ConversationState::Running,
            State::Waiting => v1::ConversationState::Waiting,
        };
        v1::Conversation {
            id: id.to_owned(),
            title: self.title.clone(),
            created_us: self.created_us,
            used_us: self.used_us,
            last_number: self.last,
            state: state.into(),
        }
    }
}
