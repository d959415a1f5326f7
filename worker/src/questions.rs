//! The unanswered questions of running calls.
//!
//! ```text
//! skill ──asks──> CallQuestions ──> Questions (one per worker) <──answers── DeliverInput
//!   ^                                          │
//!   └───────────────── Answer ─────────────────┘
//! ```
//!
//! A question ends when it is answered or when its call ends for any reason. It has no separate timeout: waiting
//! for an answer counts against the call's deadline.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use openskill_proto::limits::MAX_CALL_QUESTIONS;
use openskill_proto::trace::{hex, random_id};
use openskill_proto::v1::{InputAction, InputKind, InputResponse};
use openskill_skill::{answer, schema};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// The maximum number of open questions of all calls.
const MAX_QUESTIONS: usize = 4096;

/// A question, or another request for input, from a skill.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The kind of input that the skill requests.
    pub kind: InputKind,
    /// The text of the question for people. May be empty except for forms and URLs.
    pub message: String,
    /// The JSON Schema of a form's content, which is an object. `None` accepts any object.
    pub schema: Option<Value>,
    /// The parameters of some kinds: those of MCP's `sampling/createMessage`, or the `url`.
    pub params: Option<Value>,
    /// The skill's name for the question. May be empty.
    pub key: String,
}

/// The ways in which a question can end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuestionAnswer {
    /// The user answered. The answer is a JSON object, as text without line breaks, that matches the question's
    /// schema.
    Accept(String),
    /// The user declined to answer.
    Decline,
    /// The user dismissed the question.
    Cancel,
    /// The question could not be asked, for this reason.
    Unavailable(String),
}

/// The reasons why an answer was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The principal has no open question with this id.
    NotFound,
    /// The answer does not match the question, for this reason. The question stays open.
    Invalid(String),
}

/// All open questions of a worker.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// The questions by request id.
    open: Mutex<HashMap<String, OpenQuestion>>,
}

#[derive(Debug)]
struct OpenQuestion {
    /// The only principal that may answer the question.
    principal: String,
    schema: Option<Arc<Value>>,
    answer: oneshot::Sender<QuestionAnswer>,
}

/// Asks questions for one call. Dropping or closing it withdraws the call's open questions.
#[derive(Debug)]
pub(crate) struct CallQuestions {
    questions: Arc<Questions>,
    principal: String,
    /// The time at which the call and all its questions end.
    pub(crate) deadline: Instant,
    /// The kinds of questions that the caller can answer.
    pub(crate) kinds: Vec<InputKind>,
    /// The request ids of this call's questions. `None` after the call has ended.
    asked: Mutex<Option<Vec<String>>>,
}

impl Ask {
    /// Creates a request to the user to fill in a form.
    pub fn form(message: impl Into<String>, schema: Option<Value>) -> Self {
        Self { kind: InputKind::Form, message: message.into(), schema, params: None, key: String::new() }
    }

    /// Creates a request to the caller's model for a message.
    pub fn sampling(params: Value) -> Self {
        Self { kind: InputKind::Sampling, params: Some(params), ..Self::form("", None) }
    }

    /// Creates a request for the folders that the user works in.
    pub fn roots() -> Self {
        Self { kind: InputKind::Roots, ..Self::form("", None) }
    }

    /// Creates a request to the user to open a URL.
    pub fn url(message: impl Into<String>, url: &str) -> Self {
        Self { kind: InputKind::Url, params: Some(json!({ "url": url })), ..Self::form(message, None) }
    }

    /// Returns the schema of the answer's content, or `None` if it accepts any object.
    pub(crate) fn answer_schema(&self) -> Option<Value> {
        match self.kind {
            InputKind::Form => self.schema.clone(),
            InputKind::Url => None,
            InputKind::Sampling => serde_json::from_str(include_str!("questions/sampling.schema.json")).ok(),
            InputKind::Roots => serde_json::from_str(include_str!("questions/roots.schema.json")).ok(),
        }
    }

    /// Returns the reason, for the skill, if the question can't be asked.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let param = |name: &str| self.params.as_ref().and_then(|it| it.get(name));
        let is_list = |name: &str| param(name).is_some_and(|it| it.as_array().is_some_and(|it| !it.is_empty()));
        match self.kind {
            InputKind::Sampling if !is_list("messages") => Some("params.messages must be a list of messages"),
            InputKind::Sampling if param("maxTokens").and_then(Value::as_u64).is_none() => {
                Some("params.maxTokens must be a whole number")
            }
            InputKind::Url if !param("url").and_then(Value::as_str).is_some_and(is_web) => {
                Some("params.url must be an https:// or http:// URL")
            }
            _ => None,
        }
    }
}

/// Returns the MCP client capability that a kind of question requires, as errors name it.
pub(crate) fn capability(kind: InputKind) -> &'static str {
    match kind {
        InputKind::Form => "elicitation",
        InputKind::Sampling => "sampling",
        InputKind::Roots => "roots",
        InputKind::Url => "elicitation.url",
    }
}

/// Returns whether a URL has one of the two schemes that clients may open.
fn is_web(url: &str) -> bool {
    url::Url::parse(url).is_ok_and(|it| matches!(it.scheme(), "https" | "http") && it.has_host())
}

impl Questions {
    /// Delivers an answer to the skill that waits for it.
    ///
    /// # Errors
    /// Fails as [`Rejection`] describes.
    pub(crate) fn deliver(&self, response: InputResponse, principal: &str) -> Result<(), Rejection> {
        let schema = self.schema(&response.request_id, principal)?;
        let answer = match response.action() {
            InputAction::Accept => QuestionAnswer::Accept(validate_answer(response.content_json, schema.as_deref())?),
            InputAction::Decline => QuestionAnswer::Decline,
            InputAction::Cancel | InputAction::Unspecified => QuestionAnswer::Cancel,
        };
        // Another answer may have arrived while this one was checked.
        let open = self.open.lock().remove(&response.request_id).ok_or(Rejection::NotFound)?;
        open.answer.send(answer).map_err(|_| Rejection::NotFound)
    }

    /// Whether a question has no answer yet.
    pub(crate) fn is_open(&self, request_id: &str) -> bool {
        self.open.lock().contains_key(request_id)
    }

    fn schema(&self, request_id: &str, principal: &str) -> Result<Option<Arc<Value>>, Rejection> {
        let open = self.open.lock();
        let question = open.get(request_id).filter(|it| it.principal == principal).ok_or(Rejection::NotFound)?;
        Ok(question.schema.clone())
    }
}

impl CallQuestions {
    /// Creates an object that asks questions on behalf of one call.
    pub(crate) fn new(questions: Arc<Questions>, principal: &str, deadline: Instant) -> Self {
        let kinds = vec![InputKind::Form];
        Self { questions, principal: principal.to_owned(), deadline, kinds, asked: Mutex::new(Some(Vec::new())) }
    }

    /// Opens a question. Returns its request id, and a receiver of its answer that fails when the question is
    /// withdrawn.
    ///
    /// # Errors
    /// Returns the reason, for the skill, if the question can't be asked.
    pub(crate) fn open(&self, schema: Option<Value>) -> Result<(String, oneshot::Receiver<QuestionAnswer>), String> {
        if let Some(schema) = &schema {
            check(schema)?;
        }
        let mut asked = self.asked.lock();
        let Some(asked) = asked.as_mut() else { return Err("the call has ended".to_owned()) };
        let mut open = self.questions.open.lock();
        asked.retain(|id| open.contains_key(id));
        if asked.len() >= MAX_CALL_QUESTIONS {
            return Err(format!("{MAX_CALL_QUESTIONS} questions of this call already wait for an answer"));
        }
        if open.len() >= MAX_QUESTIONS {
            return Err("too many questions wait for an answer on this worker".to_owned());
        }
        let (answer, answered) = oneshot::channel();
        let id = hex(&random_id::<16>());
        let principal = self.principal.clone();
        open.insert(id.clone(), OpenQuestion { principal, schema: schema.map(Arc::new), answer });
        asked.push(id.clone());
        Ok((id, answered))
    }

    /// Withdraws one question, so that it can no longer be answered.
    pub(crate) fn withdraw(&self, id: &str) {
        self.questions.open.lock().remove(id);
    }

    /// Withdraws all open questions and accepts no more, because the call has ended.
    pub(crate) fn close(&self) {
        let asked = self.asked.lock().take().unwrap_or_default();
        asked.iter().for_each(|id| self.withdraw(id));
    }
}

impl Drop for CallQuestions {
    fn drop(&mut self) {
        self.close();
    }
}

/// Checks a question's schema. The skill chooses it, so checking an answer against it must be cheap for any
/// schema.
fn check(given: &Value) -> Result<(), String> {
    if !given.is_object() {
        return Err("the question's schema is not a JSON object".to_owned());
    }
    let checked = schema::check(given).and_then(|_| schema::compile(given));
    checked.map(drop).map_err(|reason| format!("the question's schema is invalid: {reason}"))
}

/// Validates an answer's content, and formats it as one line for the skill.
fn validate_answer(content: String, schema: Option<&Value>) -> Result<String, Rejection> {
    answer::validate(&content, schema).map_err(Rejection::Invalid)?;
    // JSON contains raw line breaks only between tokens.
    Ok(content.replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests;
