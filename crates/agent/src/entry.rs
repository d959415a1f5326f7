//! The entries of a conversation's log. An entry records one fact, and is written before the effect that it
//! announces.
//!
//! The agent derives the state of a conversation from its entries alone: they suffice to resume a turn after a
//! crash, and clients receive events that are derived from them. Entries never contain secrets that users entered.

use openskill_model::{ModelCall, StopReason};
use openskill_proto::v1;
use serde::{Deserialize, Serialize};

mod usage;

pub use usage::TurnUsage;

/// An entry with its position in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stamped {
    /// The number of the entry in its conversation, from 1 without gaps.
    pub number: u64,
    /// When the entry was written, in microseconds since 1970.
    pub time_us: u64,
    /// The recorded fact.
    pub entry: Entry,
    /// The size of the entry in the log, in bytes.
    #[serde(skip)]
    pub bytes: usize,
}

/// An event in the history of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Entry {
    /// A user's message began a turn.
    Started(Started),
    /// The model replied, or the router chose a skill.
    Replied(Replied),
    /// A call needs the user's approval.
    ApprovalAsked(ApprovalAsked),
    /// The user decided about a call, or the request expired.
    ApprovalDecided(ApprovalDecided),
    /// A call begins. Written before the call is sent.
    Calling(Calling),
    /// A call asks the user questions.
    Asked(QuestionsAsked),
    /// The user answered or declined the questions, or they were withdrawn.
    Answered(Answered),
    /// A call ended. Written exactly once for each call of a reply.
    Called(Called),
    /// Only the user can continue the turn.
    Waiting {
        /// The ids of the requests that are waiting for the user.
        request_ids: Vec<String>,
    },
    /// Earlier entries were summarized for the model.
    Summarized(Summarized),
    /// The turn ended. This is the turn's last entry.
    Ended(TurnEnded),
}

/// The start of a turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Started {
    /// The user's message.
    pub text: String,
    /// The model, as `provider:model`. Empty if the router answers instead of a model.
    pub model: String,
    /// Which calls may run without the user's approval.
    pub mode: Mode,
    /// The turn's limits, with defaults filled in.
    pub limits: Limits,
    /// The toolset whose skills may be used. Empty means all skills.
    pub toolset: String,
    /// The trace id of the turn and its calls.
    pub trace_id: String,
    /// The name of the credential that began the turn (not a secret). The turn has only this credential's rights.
    pub credential: String,
    /// Set for the turn of a sub-agent.
    pub delegated: Option<Delegated>,
}

/// The properties of a sub-agent's turn, which has no user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Delegated {
    /// The id of the skill that defines the sub-agent.
    pub agent: String,
    /// The sub-agent's instructions.
    pub prompt: String,
    /// The ids of the skills that the sub-agent may call.
    pub tools: Vec<String>,
    /// The nesting depth, from 1.
    pub depth: u32,
    /// The session for the sub-agent's calls. Empty means a new session.
    pub session: String,
    /// Whether the calling turn has read untrusted text.
    pub tainted: bool,
    /// Whether the sub-agent's calls run without approval even after it has read untrusted text.
    pub acts_on_untrusted: bool,
    /// Whether the sub-agent's model sees pictures that its calls return.
    pub sees_pictures: bool,
}

/// Which calls may run without the user's approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Calls that need approval request it.
    #[default]
    Ask = v1::ApprovalMode::Ask as isize,
    /// Only read-only skills can be called.
    ReadOnly = v1::ApprovalMode::ReadOnly as isize,
    /// Calls request approval only if they may write or send and the conversation has read untrusted text.
    Auto = v1::ApprovalMode::Auto as isize,
}

/// The limits of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// The maximum number of tool calls.
    pub max_tool_calls: u32,
    /// The maximum number of model requests, not counting the last one.
    pub max_iterations: u32,
    /// The maximum number of input and output tokens. 0 means no limit.
    pub max_tokens: u64,
    /// The time limit in milliseconds, without the time spent waiting for the user.
    pub timeout_ms: u64,
    /// The maximum cost in millionths of a currency unit. 0 means no limit.
    pub max_cost_micros: u64,
    /// How many times in a row invalid arguments are returned to the model.
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

/// A reply of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Replied {
    /// The text of the reply.
    pub text: String,
    /// The calls in order. Call ids are unique in the conversation.
    pub calls: Vec<ModelCall>,
    /// The model that replied, as `provider:model`.
    pub model: String,
    /// The number of tokens that the model read.
    pub input_tokens: u64,
    /// The number of tokens that the model wrote.
    pub output_tokens: u64,
    /// The cost in millionths of a currency unit.
    pub cost_micros: u64,
    /// Whether this reply ends the turn, because a limit was reached and the model was called without tools.
    pub is_last: bool,
    /// Why the reply stopped early.
    pub stopped: StopReason,
    /// Set if routing rules chose the skill.
    pub routing: Option<Routing>,
}

/// The router's choice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Routing {
    /// The id of the chosen skill. Empty if none fits.
    pub skill_id: String,
    /// The rule that matched.
    pub reason: String,
}

/// A repair of arguments. The fields match [`v1::Repair`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Repaired {
    /// See [`v1::Repair::path`].
    pub path: String,
    /// See [`v1::Repair::kind`].
    pub kind: String,
    /// See [`v1::Repair::before_json`].
    pub before: String,
    /// See [`v1::Repair::after_json`].
    pub after: String,
}

impl From<Repaired> for v1::Repair {
    fn from(it: Repaired) -> Self {
        Self { path: it.path, kind: it.kind, before_json: it.before, after_json: it.after }
    }
}

/// A request for the user to approve a call with its final arguments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApprovalAsked {
    /// The request id.
    pub request_id: String,
    /// The call id.
    pub call_id: String,
    /// The revision of the skill to which the decision applies.
    #[serde(flatten)]
    pub skill: SkillRevision,
    /// The final arguments, with references in place of secrets.
    pub arguments: String,
    /// The repairs made to the arguments.
    pub repairs: Vec<Repaired>,
    /// Why the call needs approval, for display.
    pub reason: String,
    /// When the request expires, in microseconds since 1970.
    pub expires_us: u64,
    /// Whether the conversation has read untrusted text.
    pub tainted: bool,
}

/// The user's decision about a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApprovalDecided {
    /// The request id.
    pub request_id: String,
    /// What the user decided.
    pub decision: Decided,
    /// The user's arguments, for [`Decided::Edit`].
    pub arguments: String,
    /// The user's reason, for [`Decided::Deny`].
    pub reason: String,
}

/// The user's possible decisions about a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decided {
    /// Run this call once.
    Allow = v1::Decision::Allow as isize,
    /// Run this call, and allow this revision of the skill for the rest of the conversation.
    AllowConversation = v1::Decision::AllowConversation as isize,
    /// Run this call with other arguments.
    Edit = v1::Decision::Edit as isize,
    /// Do not run this call.
    #[default]
    Deny = v1::Decision::Deny as isize,
}

/// The beginning of a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Calling {
    /// The call id.
    pub call_id: String,
    /// The revision of the skill. Built-in tools only have an id, which is their name.
    #[serde(flatten)]
    pub skill: SkillRevision,
    /// The tool name that the model used.
    pub name: String,
    /// The final arguments, with references in place of secrets.
    pub arguments: String,
    /// The arguments for display, in which values that the schema marks as secret are masked. Empty if there are
    /// no such values.
    pub masked: String,
    /// The repairs made to the arguments.
    pub repairs: Vec<Repaired>,
    /// Whether the call may run again if its result is lost.
    pub is_idempotent: bool,
}

/// A call's questions to the user.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuestionsAsked {
    /// The request id.
    pub request_id: String,
    /// The call id.
    pub call_id: String,
    /// An introduction to the questions. May be empty.
    pub message: String,
    /// The questions, in display order.
    pub questions: Vec<UserQuestion>,
}

/// A question for the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserQuestion {
    /// The id that answers refer to.
    pub id: String,
    /// The text of the question.
    pub text: String,
    /// The expected kind of answer.
    #[serde(rename = "type")]
    pub kind: QuestionKind,
    /// The options of a choice.
    pub options: Vec<String>,
    /// Whether an answer is required.
    pub required: bool,
}

/// The kinds of answers that questions expect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// Any text.
    #[default]
    Text = v1::QuestionType::Text as isize,
    /// One of the options.
    Choice = v1::QuestionType::Choice as isize,
    /// Yes or no.
    Confirm = v1::QuestionType::Confirm as isize,
    /// A secret text, which is only kept in memory.
    Secret = v1::QuestionType::Secret as isize,
}

/// The user's answers, or the closing of a request without answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answered {
    /// The request id.
    pub request_id: String,
    /// The answers. Secrets are replaced with references.
    pub answers: Vec<QuestionAnswer>,
    /// Whether there are no answers, because the user declined or the questions were withdrawn.
    pub declined: bool,
}

/// The answer to one question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuestionAnswer {
    /// The question id.
    pub id: String,
    /// The answer, or a reference such as `{"$secret":"s1"}`.
    pub answer: String,
}

/// The end of a call, with its outcome.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Called {
    /// The call id.
    pub call_id: String,
    /// The skill id. Empty if no such skill exists.
    pub skill_id: String,
    /// The tool name that the model used.
    pub name: String,
    /// The result data or the error.
    pub outcome: Outcome,
    /// The duration of the call, in milliseconds.
    pub latency_ms: f64,
    /// The id of an identical earlier call whose result is repeated. Empty for all other calls.
    pub replays: String,
    /// Whether the result contains untrusted text.
    pub untrusted: bool,
    /// Whether the result is unknown and the call may have had effects.
    pub unknown: bool,
    /// The usage of a sub-agent, which counts towards the turn's limits.
    pub used: Option<TurnUsage>,
}

/// The result data or the error of a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// The numeric [`v1::ErrorCode`]. 0 means success.
    pub code: i32,
    /// What happened and how to proceed. Empty if the call succeeded.
    pub message: String,
    /// The error details as a JSON object. May be empty.
    pub details: String,
    /// The result data as JSON text. Empty if the call failed.
    pub data: String,
    /// A summary for the model. May be empty.
    pub text: String,
    /// Whether the skill truncated the data.
    pub truncated: bool,
    /// Warnings about a call that ran anyway.
    pub warnings: Vec<String>,
}

impl Outcome {
    /// Returns whether the call succeeded.
    pub fn is_success(&self) -> bool {
        self.code == 0
    }

    /// Creates the outcome of a failed call.
    pub fn failure(code: v1::ErrorCode, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), ..Self::default() }
    }

    /// Creates the outcome of a successful call.
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
    /// Converts the result of a call with JSON input.
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
    /// The number of the last summarized entry. The following entry begins a turn.
    pub until: u64,
    /// The text of the summary.
    pub text: String,
    /// The number of tokens that the model read and wrote for the summary.
    pub tokens: u64,
    /// The cost of the summary, in millionths of a currency unit.
    pub cost_micros: u64,
}

/// The end of a turn, with its answer and usage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnEnded {
    /// Why the turn ended.
    pub end: EndReason,
    /// The final answer to the user.
    pub text: String,
    /// What happened, for [`EndReason::Failed`].
    pub error: String,
    /// The name of the limit, for [`EndReason::Limit`].
    pub limit: String,
    /// The usage of the turn.
    pub used: TurnUsage,
}

/// Why a turn ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The model gave its final answer.
    #[default]
    Completed = v1::TurnEnd::Completed as isize,
    /// The turn reached a limit.
    Limit = v1::TurnEnd::Limit as isize,
    /// The user cancelled the turn.
    Cancelled = v1::TurnEnd::Cancelled as isize,
    /// A model request failed, or the credential that began the turn is no longer valid.
    Failed = v1::TurnEnd::Failed as isize,
}

/// A skill at the time of a decision about one of its calls. The decision applies only to this revision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct SkillRevision {
    /// The skill id.
    pub skill_id: String,
    /// The skill version.
    pub version: String,
    /// The [`v1::Skill::definition_hash`], because a skill can change without a new version. Empty in entries of
    /// earlier releases.
    pub definition_hash: String,
}

impl From<&v1::Skill> for SkillRevision {
    fn from(it: &v1::Skill) -> Self {
        Self { skill_id: it.id.clone(), version: it.version.clone(), definition_hash: it.definition_hash.clone() }
    }
}
