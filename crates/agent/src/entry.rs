//! What a conversation's log holds: one entry for each fact, written before the effect that it announces.
//!
//! Everything that an agent knows of a conversation follows from its entries: a turn that was cut off by a crash goes on from
//! them, and what clients see is a projection of them. An entry never holds the text of a secret that a user gave.

use openskill_proto::v1;
use serde::{Deserialize, Serialize};

mod definition;
pub mod event;
mod used;

pub use definition::Definition;
pub use used::Used;

/// An entry with its place in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stamped {
    /// Its number in the conversation, from 1 on, without gaps.
    pub number: u64,
    /// When it was written, in microseconds since 1970.
    pub time_us: u64,
    /// What happened.
    pub entry: Entry,
    /// How many bytes it takes in the log.
    #[serde(skip)]
    pub bytes: usize,
}

/// A fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Entry {
    /// A user's message began a turn.
    Started(Started),
    /// The model answered, or the router chose.
    Replied(Replied),
    /// A call wants approval.
    ApprovalAsked(ApprovalAsked),
    /// The user decided, or the request expired.
    ApprovalDecided(ApprovalDecided),
    /// A call begins. Written before it is sent.
    Calling(Calling),
    /// A call asks the user.
    Asked(Asked),
    /// The user answered, or nobody can answer any more.
    Answered(Answered),
    /// A call ended. Exactly one for each call of a reply.
    Called(Called),
    /// Only the user can continue the turn: the requests that wait.
    Waiting {
        /// Their ids.
        request_ids: Vec<String>,
    },
    /// Earlier entries were summarized for the model.
    Summarized(Summarized),
    /// The turn ended. Its last entry.
    Ended(Ended),
}

/// The beginning of a turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Started {
    /// The user's text.
    pub text: String,
    /// `provider:model`. Empty if the router answers.
    pub model: String,
    /// What may happen without the user.
    pub mode: Mode,
    /// Bounds of the turn, resolved.
    pub limits: Limits,
    /// Only skills of this toolset. Empty means all.
    pub toolset: String,
    /// The trace id of the turn and of its calls.
    pub trace_id: String,
    /// The name of the credential that began the turn: it acts with the rights of that one alone. No secret.
    pub credential: String,
    /// Set if the turn is a sub-agent's.
    pub delegated: Option<Delegated>,
}

/// What makes a turn a sub-agent's: it has no user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Delegated {
    /// The skill that it is.
    pub agent: String,
    /// Its instructions.
    pub prompt: String,
    /// The skills that it may call.
    pub tools: Vec<String>,
    /// How deep it is nested, from 1 on.
    pub depth: u32,
    /// The session of its calls. Empty means one of its own.
    pub session: String,
    /// Whether the turn that calls it read text of strangers.
    pub tainted: bool,
    /// Whether its calls go on without approval after it read text of strangers.
    pub acts_on_untrusted: bool,
    /// Whether its model sees the pictures that its calls return.
    pub sees_pictures: bool,
}

/// What may happen without the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Calls that want approval ask.
    #[default]
    Ask,
    /// Only read-only skills can be called.
    ReadOnly,
    /// Nothing asks, except writing or sending after untrusted text was read.
    Auto,
}

/// Bounds of a turn. 0 means none, where a bound may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Tool calls.
    pub max_tool_calls: u32,
    /// Requests to the model, the last one not counted.
    pub max_iterations: u32,
    /// Tokens, read and written. 0 means none.
    pub max_tokens: u64,
    /// Time in milliseconds, without waiting for the user.
    pub timeout_ms: u64,
    /// Cost in millionths. 0 means none.
    pub max_cost_micros: u64,
    /// How often in a row refused arguments go back to the model.
    pub max_validation_retries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_tool_calls: 5,
            max_iterations: 10,
            max_tokens: 0,
            timeout_ms: 300_000,
            max_cost_micros: 0,
            max_validation_retries: 3,
        }
    }
}

/// An answer of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Replied {
    /// Its text.
    pub text: String,
    /// Its calls, in order, with ids that are unique in the conversation.
    pub calls: Vec<ReplyCall>,
    /// The model.
    pub model: String,
    /// Tokens that it read.
    pub input_tokens: u64,
    /// Tokens that it wrote.
    pub output_tokens: u64,
    /// What that cost, in millionths.
    pub cost_micros: u64,
    /// It was asked without tools, because of a limit: the answer ends the turn.
    pub is_last: bool,
    /// It stopped before it was done.
    pub stopped: Stopped,
    /// Set if rules chose the skill.
    pub routing: Option<Routing>,
}

/// Why a model stopped before it was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// It was done.
    #[default]
    No,
    /// Its answer reached the bound of tokens.
    Length,
    /// The provider refused or filtered the answer.
    Refused,
}

/// A call as the model wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplyCall {
    /// Its id, unique in the conversation.
    pub id: String,
    /// The tool's name, unchecked.
    pub name: String,
    /// The arguments, byte for byte.
    pub arguments: String,
    /// What the provider wants back with it.
    pub opaque: String,
}

/// What the router chose.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Routing {
    /// The skill. Empty if none fits.
    pub skill_id: String,
    /// The rule.
    pub reason: String,
}

/// A repair of arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Repaired {
    /// As [`v1::Repair::path`].
    pub path: String,
    /// As [`v1::Repair::kind`].
    pub kind: String,
    /// As [`v1::Repair::before_json`].
    pub before: String,
    /// As [`v1::Repair::after_json`].
    pub after: String,
}

impl From<v1::Repair> for Repaired {
    fn from(it: v1::Repair) -> Self {
        Self { path: it.path, kind: it.kind, before: it.before_json, after: it.after_json }
    }
}

impl From<Repaired> for v1::Repair {
    fn from(it: Repaired) -> Self {
        Self { path: it.path, kind: it.kind, before_json: it.before, after_json: it.after }
    }
}

/// A call wants approval, with its final arguments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApprovalAsked {
    /// The request's id.
    pub request_id: String,
    /// The call.
    pub call_id: String,
    /// The skill.
    pub skill_id: String,
    /// Its version.
    pub version: String,
    /// As [`Definition::hash`].
    pub definition_hash: String,
    /// The final arguments; secrets are references.
    pub arguments: String,
    /// What was repaired in them.
    pub repairs: Vec<Repaired>,
    /// Why it asks.
    pub reason: String,
    /// When the request expires, in microseconds since 1970.
    pub expires_us: u64,
    /// The conversation read untrusted text.
    pub tainted: bool,
}

/// A decision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApprovalDecided {
    /// The request.
    pub request_id: String,
    /// What was decided.
    pub decision: Decided,
    /// [`Decided::Edit`]: the user's arguments.
    pub arguments: String,
    /// [`Decided::Deny`]: why.
    pub reason: String,
}

/// What a user decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decided {
    /// This call.
    Allow,
    /// This skill in this version, for the conversation.
    AllowConversation,
    /// This call with other arguments.
    Edit,
    /// Not this call.
    #[default]
    Deny,
}

/// A call begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Calling {
    /// The call.
    pub call_id: String,
    /// The skill, or the agent's own tool.
    pub skill_id: String,
    /// Its version. Empty for the agent's own tools.
    pub version: String,
    /// As [`Definition::hash`].
    pub definition_hash: String,
    /// The name that the model wrote.
    pub name: String,
    /// The final arguments; secrets are references.
    pub arguments: String,
    /// The same as clients see it: what the schema marks as secret is masked. Empty if it marks nothing in them.
    pub masked: String,
    /// What was repaired in them.
    pub repairs: Vec<Repaired>,
    /// Whether it may run again if its outcome is lost.
    pub is_idempotent: bool,
}

/// A call asks the user.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// The request's id.
    pub request_id: String,
    /// The call.
    pub call_id: String,
    /// What it is about.
    pub message: String,
    /// The questions.
    pub questions: Vec<Question>,
}

/// A question to the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Question {
    /// Names the answer.
    pub id: String,
    /// The question.
    pub text: String,
    /// What kind of answer is expected.
    #[serde(rename = "type")]
    pub kind: QuestionKind,
    /// What to choose from.
    pub options: Vec<String>,
    /// Whether an answer is required.
    pub required: bool,
}

/// Kinds of questions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// Any text.
    #[default]
    Text,
    /// One of the options.
    Choice,
    /// Yes or no.
    Confirm,
    /// A text that is kept in memory only.
    Secret,
}

/// The user answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answered {
    /// The request.
    pub request_id: String,
    /// The answers. A secret's is a reference.
    pub answers: Vec<Answer>,
    /// The user declined, or the question was withdrawn.
    pub declined: bool,
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The question.
    pub id: String,
    /// The answer, or a reference such as `{"$secret":"s1"}`.
    pub answer: String,
}

/// A call ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Called {
    /// The call.
    pub call_id: String,
    /// The skill. Empty if there is none.
    pub skill_id: String,
    /// The name that the model wrote.
    pub name: String,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it took, in milliseconds.
    pub latency_ms: f64,
    /// The call whose result this repeats. Empty if it ran, or failed before.
    pub replays: String,
    /// Whether its text is of strangers.
    pub untrusted: bool,
    /// Whether it may have had an effect that nobody knows of.
    pub unknown: bool,
    /// What a sub-agent used: it counts as the turn's own.
    pub used: Option<Used>,
}

/// What came of a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// The error's code, [`v1::ErrorCode`] as number. 0 if it succeeded.
    pub code: i32,
    /// What happened and what to do. Empty if it succeeded.
    pub message: String,
    /// The error's details, a JSON object as text. May be empty.
    pub details: String,
    /// The data, any JSON value as text. Empty if it failed.
    pub data: String,
    /// The summary for a model. May be empty.
    pub text: String,
    /// Whether the skill truncated its data.
    pub truncated: bool,
    /// What the caller should know about a call that went on nevertheless.
    pub warnings: Vec<String>,
}

impl Outcome {
    /// Whether the call succeeded.
    pub fn is_success(&self) -> bool {
        self.code == 0
    }

    /// A failure.
    pub fn failure(code: v1::ErrorCode, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), ..Self::default() }
    }

    /// A success.
    pub fn success(data: impl Into<String>, text: impl Into<String>) -> Self {
        Self { data: data.into(), text: text.into(), ..Self::default() }
    }
}

impl From<v1::SkillError> for Outcome {
    fn from(error: v1::SkillError) -> Self {
        let details = match error.more {
            Some(v1::skill_error::More::DetailsJson(json)) => json,
            _ => String::new(),
        };
        Self { code: error.code, message: error.message, details, ..Self::default() }
    }
}

impl From<v1::SkillResult> for Outcome {
    /// Of a result of a call that carried its input as JSON text.
    fn from(result: v1::SkillResult) -> Self {
        let meta = result.meta.unwrap_or_default();
        let mut outcome = match (result.error, result.output) {
            (Some(error), _) => Self::from(error),
            (None, Some(v1::skill_result::Output::DataJson(data))) => Self::success(data, ""),
            (None, _) => Self::success("null", ""),
        };
        outcome.text = result.text;
        outcome.truncated = meta.truncated;
        outcome.warnings = meta.warnings;
        outcome
    }
}

/// A summary of earlier entries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summarized {
    /// Entries up to this number are summarized. The next one begins a turn.
    pub until: u64,
    /// The summary.
    pub text: String,
    /// Tokens that the model read and wrote for it.
    pub tokens: u64,
    /// What that cost, in millionths.
    pub cost_micros: u64,
}

/// The end of a turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ended {
    /// Why.
    pub end: End,
    /// The answer.
    pub text: String,
    /// [`End::Failed`]: what happened.
    pub error: String,
    /// [`End::Limit`]: which limit.
    pub limit: String,
    /// What the turn used.
    pub used: Used,
}

/// Why a turn ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The model answered.
    #[default]
    Completed,
    /// A limit was reached.
    Limit,
    /// The user cancelled.
    Cancelled,
    /// The model could not be asked, or the credential that began the turn has ended.
    Failed,
}

impl From<&ApprovalAsked> for Definition {
    fn from(it: &ApprovalAsked) -> Self {
        Self { skill_id: it.skill_id.clone(), version: it.version.clone(), hash: it.definition_hash.clone() }
    }
}

impl From<&Calling> for Definition {
    fn from(it: &Calling) -> Self {
        Self { skill_id: it.skill_id.clone(), version: it.version.clone(), hash: it.definition_hash.clone() }
    }
}
