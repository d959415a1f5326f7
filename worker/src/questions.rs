//! Questions that running calls have asked and nobody has answered yet.
//!
//! ```text
//! skill ──asks──> Asker (one per call) ──> Questions (one per worker) <──answers── DeliverInput
//!   ^                                          │
//!   └───────────────── Answer ─────────────────┘
//! ```
//!
//! A question ends with its answer or with its call, whatever ends that. It has no timer of its own: waiting for an answer
//! counts against the call's deadline.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use openskill_proto::json;
use openskill_proto::limits::{MAX_ANSWER_BYTES, MAX_CALL_QUESTIONS, MAX_JSON_DEPTH};
use openskill_proto::trace::{hex, random_id};
use openskill_proto::v1::{InputAction, InputKind, InputResponse};
use openskill_skill::schema;
use serde_json::Value;
use tokio::sync::oneshot;

pub mod ask;

pub use ask::Ask;

/// How many questions of all calls may wait for an answer.
const MAX_QUESTIONS: usize = 4096;

/// How many faults of an answer its rejection lists.
const MAX_FAULTS: usize = 5;

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The user answered: a JSON object as text, without line breaks, that the question's schema admits.
    Accept(String),
    /// The user refused to answer.
    Decline,
    /// The user dismissed the question.
    Cancel,
    /// Nobody could be asked. Says why.
    Unavailable(String),
}

/// Why an answer was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// No question of this principal waits under this id.
    NotFound,
    /// The question does not admit this answer, and stays open. Says what is wrong.
    Invalid(String),
}

/// The open questions of one worker.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// By request id.
    open: Mutex<HashMap<String, Open>>,
}

#[derive(Debug)]
struct Open {
    /// The only principal who may answer.
    principal: String,
    schema: Option<Arc<Value>>,
    answer: oneshot::Sender<Answer>,
}

/// Asks for one call. Dropping or closing it withdraws the call's open questions.
#[derive(Debug)]
pub(crate) struct Asker {
    questions: Arc<Questions>,
    principal: String,
    deadline: Instant,
    /// What the caller answers.
    kinds: Vec<InputKind>,
    /// The request ids of this call's questions. None: the call has ended.
    asked: Mutex<Option<Vec<String>>>,
}

impl Questions {
    /// Hands an answer to the skill that waits for it.
    ///
    /// # Errors
    /// See [`Rejection`].
    pub(crate) fn deliver(&self, response: InputResponse, principal: &str) -> Result<(), Rejection> {
        let schema = self.schema(&response.request_id, principal)?;
        let answer = match response.action() {
            InputAction::Accept => Answer::Accept(accepted(response.content_json, schema.as_deref())?),
            InputAction::Decline => Answer::Decline,
            InputAction::Cancel | InputAction::Unspecified => Answer::Cancel,
        };
        // Somebody else may have answered while this answer was checked.
        let open = self.lock().remove(&response.request_id).ok_or(Rejection::NotFound)?;
        open.answer.send(answer).map_err(|_| Rejection::NotFound)
    }

    fn schema(&self, request_id: &str, principal: &str) -> Result<Option<Arc<Value>>, Rejection> {
        let open = self.lock();
        let question = open.get(request_id).filter(|it| it.principal == principal).ok_or(Rejection::NotFound)?;
        Ok(question.schema.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asker {
    /// Asks on behalf of one call.
    pub(crate) fn new(questions: Arc<Questions>, principal: &str, deadline: Instant) -> Self {
        let kinds = vec![InputKind::Form];
        Self { questions, principal: principal.to_owned(), deadline, kinds, asked: Mutex::new(Some(Vec::new())) }
    }

    /// The same for a caller that answers these kinds of questions. None means forms alone.
    pub(crate) fn answering(mut self, kinds: Vec<InputKind>) -> Self {
        if !kinds.is_empty() {
            self.kinds = kinds;
        }
        self
    }

    /// Whether the caller answers such questions.
    pub(crate) fn takes(&self, kind: InputKind) -> bool {
        self.kinds.contains(&kind)
    }

    /// When the call, and with it each of its questions, ends.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Opens a question: its request id, and where its answer comes. The receiver fails when the question is withdrawn.
    ///
    /// # Errors
    /// Why nobody can be asked, for the skill.
    pub(crate) fn open(&self, schema: Option<Value>) -> Result<(String, oneshot::Receiver<Answer>), String> {
        if let Some(schema) = &schema {
            check(schema)?;
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(asked) = asked.as_mut() else { return Err("the call has ended".to_owned()) };
        let mut open = self.questions.lock();
        asked.retain(|id| open.contains_key(id));
        if asked.len() >= MAX_CALL_QUESTIONS {
            return Err(format!("{MAX_CALL_QUESTIONS} questions of this call wait for an answer already"));
        }
        if open.len() >= MAX_QUESTIONS {
            return Err("too many questions wait for an answer on this worker".to_owned());
        }
        let (answer, answered) = oneshot::channel();
        let id = hex(&random_id::<16>());
        let principal = self.principal.clone();
        open.insert(id.clone(), Open { principal, schema: schema.map(Arc::new), answer });
        asked.push(id.clone());
        Ok((id, answered))
    }

    /// Withdraws one question.
    pub(crate) fn withdraw(&self, id: &str) {
        self.questions.lock().remove(id);
    }

    /// The call has ended: withdraws its open questions and takes no further ones.
    pub(crate) fn close(&self) {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        if asked.is_empty() {
            return;
        }
        let mut open = self.questions.lock();
        for id in asked {
            open.remove(&id);
        }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.close();
    }
}

/// A question's schema is a skill's text: checking an answer against it must be cheap, whatever it says.
fn check(given: &Value) -> Result<(), String> {
    if !given.is_object() {
        return Err("the question's schema is not a JSON object".to_owned());
    }
    let checked = schema::check(given).and_then(|_| schema::compile(given));
    checked.map(drop).map_err(|reason| format!("the question's schema is invalid: {reason}"))
}

/// The content of an answer as the skill reads it, on one line.
fn accepted(content: String, schema: Option<&Value>) -> Result<String, Rejection> {
    let invalid = |reason: String| Err(Rejection::Invalid(format!("the answer's content {reason}")));
    if content.len() > MAX_ANSWER_BYTES {
        return invalid(format!("has {} bytes; at most {MAX_ANSWER_BYTES} are accepted", content.len()));
    }
    if json::depth(content.as_bytes()) > MAX_JSON_DEPTH {
        return invalid(format!("nests deeper than {MAX_JSON_DEPTH} levels"));
    }
    let value = match serde_json::from_str::<Value>(&content) {
        Ok(value @ Value::Object(_)) => value,
        Ok(_) => return invalid("must be a JSON object with one key for each value the question asks for".to_owned()),
        Err(error) => return invalid(format!("is not JSON: {error}")),
    };
    if let Some(schema) = schema {
        // The schema was checked when the question was opened.
        let validator = schema::compile(schema).map_err(Rejection::Invalid)?;
        let faults: Vec<_> = validator
            .iter_errors(&value)
            .take(MAX_FAULTS)
            .map(|it| fault(&it.to_string(), it.instance_path().as_str()))
            .collect();
        if !faults.is_empty() {
            return invalid(format!("does not fit the question: {}", faults.join("; ")));
        }
    }
    // JSON has line breaks only between its tokens.
    Ok(content.replace(['\n', '\r'], " "))
}

fn fault(reason: &str, path: &str) -> String {
    if path.is_empty() { reason.to_owned() } else { format!("{path}: {reason}") }
}

#[cfg(test)]
mod tests;
