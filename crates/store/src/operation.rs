//! Operations, as gateways see them.

use crate::deliveries::Webhook;

/// Where an operation is. The numbers are in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It waits for its time.
    Scheduled = 0,
    /// It waits for its turn.
    Queued = 1,
    /// A gateway runs it.
    Running = 2,
    /// It ended with a successful result.
    Succeeded = 3,
    /// It ended with an error.
    Failed = 4,
    /// It was cancelled.
    Cancelled = 5,
}

impl State {
    /// All states, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Scheduled, Self::Queued, Self::Running, Self::Succeeded, Self::Failed, Self::Cancelled];

    /// Whether an operation in this state has ended.
    #[must_use]
    pub fn is_done(self) -> bool {
        self >= Self::Succeeded
    }
}

/// An operation to store.
#[derive(Debug, Clone)]
pub struct NewOperation {
    /// Its id, which is not guessable.
    pub id: String,
    /// The principal that submits it, and the name of its credential.
    pub principal: String,
    /// See `principal`.
    pub credential: String,
    /// The skill that it calls.
    pub skill_id: String,
    /// The toolset of the skill, and whether it is destructive, for policies: the skill may be gone when somebody reads the result.
    pub toolset: String,
    /// See `toolset`.
    pub destructive: bool,
    /// The session of the call. May be empty.
    pub session_id: String,
    /// The trace id of the call.
    pub trace_id: String,
    /// The idempotency key, if the caller gave one.
    pub idempotency_key: Option<String>,
    /// Tells apart calls with the same key.
    pub fingerprint: Vec<u8>,
    /// What is needed to run the call.
    pub request: Vec<u8>,
    /// When to run it at the earliest.
    pub start_at_ms: i64,
    /// When to give up if it has not started.
    pub start_before_ms: i64,
    /// Whom to tell of its end.
    pub webhook: Option<Webhook>,
}

/// The outcome of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    /// It is stored.
    Stored,
    /// An operation with its key and its fingerprint was stored before. The text is the id.
    Known(String),
    /// Its key belongs to another call.
    KeyMismatch,
}

/// What the store knows about an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of NewOperation, and those described here")]
pub struct Operation {
    pub id: String,
    pub principal: String,
    pub credential: String,
    pub skill_id: String,
    pub toolset: String,
    pub destructive: bool,
    pub session_id: String,
    pub trace_id: String,
    pub state: State,
    pub start_at_ms: i64,
    pub start_before_ms: i64,
    pub created_ms: i64,
    /// When its skill was first started.
    pub started_ms: Option<i64>,
    pub ended_ms: Option<i64>,
    /// When it may be removed. None while it has not ended.
    pub remove_ms: Option<i64>,
    /// How often a run was begun.
    pub runs: i64,
    pub cancel_requested: bool,
    /// Why it waits although it was due. Empty unless it was postponed.
    pub reason: String,
    /// Where it is a task: a slash and the name of an MCP view. Empty for one that was submitted.
    pub task_view: String,
}

/// An operation that a gateway holds: it must run it, or give it back.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The operation.
    pub operation: Operation,
    /// What is needed to run the call.
    pub request: Vec<u8>,
    /// Identifies this claim. Writes of an older one have no effect.
    pub epoch: i64,
    /// Whether its skill may have run for an earlier claim.
    pub may_have_run: bool,
    /// The number of the last stored event. 0 if there is none.
    pub last_event: i64,
}

/// How an operation is given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postponement {
    /// When it waits for its turn again.
    pub start_at_ms: i64,
    /// Whether its skill may have run, for this or an earlier claim. If not, no run counts.
    pub may_have_run: bool,
    /// Why, for its owner.
    pub reason: String,
}

/// A complete blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Its id, which is not guessable.
    pub id: String,
    /// The size of its content, in bytes.
    pub size_bytes: u64,
    /// The SHA-256 of its content.
    pub sha256: Vec<u8>,
    /// Whether it is in a file, not in the database.
    pub(crate) is_in_file: bool,
}

/// How an operation ended.
#[derive(Debug, Clone)]
pub struct End {
    /// Succeeded, failed or cancelled.
    pub state: State,
    /// The encoded result.
    pub result: Vec<u8>,
    /// The blobs that it names, which are complete.
    pub blobs: Vec<Blob>,
    /// How long the operation is kept from now on.
    pub keep_ms: i64,
}

impl End {
    /// The size of the result and its blobs, in bytes.
    pub(crate) fn bytes(&self) -> i64 {
        let blobs = self.blobs.iter().map(|it| it.size_bytes.cast_signed()).sum::<i64>();
        blobs + i64::try_from(self.result.len()).unwrap_or(i64::MAX / 2)
    }
}

/// A numbered event of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Counts from 1.
    pub number: i64,
    /// The encoded event.
    pub event: Vec<u8>,
}

/// Which operations to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct OperationFilter {
    /// Only those of this principal. None: of all.
    pub principal: Option<String>,
    /// The first and the last state.
    pub states: Option<(i64, i64)>,
    /// Only calls of this skill. Empty: of all.
    pub skill_id: String,
    /// Only calls of this session. Empty: of all.
    pub session_id: String,
}
