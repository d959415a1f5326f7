//! The agent's own tools.

use std::collections::HashSet;
use std::sync::{MutexGuard, PoisonError};

use openskill_proto::v1::ErrorCode;
use serde::Deserialize;
use serde_json::json;

use super::Turn;
use super::settle::failed;
use crate::clock::now_us;
use crate::concealment;
use crate::context::own_tools::{OwnTool, questions};
use crate::context::result::part;
use crate::entry::{Answered, Asked, Called, Calling, Entry, Outcome, Question, ReplyCall};
use crate::error::AgentError;

use super::user::declined;

/// The longest query, in bytes.
const MAX_QUERY_BYTES: usize = 1024;

#[derive(Debug, Deserialize)]
struct ReadArguments {
    result_id: String,
    #[serde(default)]
    pointer: String,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    limit: u64,
}

#[derive(Debug, Deserialize)]
struct SearchArguments {
    query: String,
}

impl Turn {
    /// Runs one of the agent's own tools.
    pub(super) async fn call_own(&self, call: &ReplyCall, tool: OwnTool) -> Result<Called, AgentError> {
        let (outcome, untrusted) = match tool {
            OwnTool::AskUser => return self.ask_user(call).await,
            OwnTool::ReadResult => self.read_result(&call.arguments),
            OwnTool::ToolSearch => (self.search_tools(&call.arguments).await, false),
        };
        self.begin_own(call).await?;
        Ok(Called { untrusted, ..failed(call, tool.name(), outcome) })
    }

    async fn begin_own(&self, call: &ReplyCall) -> Result<(), AgentError> {
        let calling = Calling {
            call_id: call.id.clone(),
            skill_id: call.name.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            is_idempotent: true,
            ..Calling::default()
        };
        // Own tools have no limit of their own.
        let _ = self.begin(calling).await?;
        Ok(())
    }

    async fn ask_user(&self, call: &ReplyCall) -> Result<Called, AgentError> {
        let name = OwnTool::AskUser.name();
        if self.delegated.is_some() {
            let message = "a sub-agent has no user to ask: go on without, or say in your answer what is missing";
            return Ok(failed(call, name, Outcome::failure(ErrorCode::AskUserUnavailable, message)));
        }
        let questions = match questions(&call.arguments) {
            Ok(questions) => questions,
            Err(reason) => return Ok(failed(call, name, Outcome::failure(ErrorCode::InvalidArgument, reason))),
        };
        self.begin_own(call).await?;
        let answers = self.question(&call.id, "", questions).await?;
        let outcome = match answers {
            None => Outcome::failure(
                ErrorCode::Cancelled,
                "the user declined to answer: go on without, or say what is missing",
            ),
            Some(answers) => {
                let text = format!("the user answered {} questions", answers.len());
                let answers: Vec<_> =
                    answers.iter().map(|(id, answer)| json!({"id": id, "answer": value(answer)})).collect();
                Outcome::success(json!({ "answers": answers }).to_string(), text)
            }
        };
        Ok(failed(call, name, outcome))
    }

    /// Asks the user on behalf of a call, and waits. None if there is no user, or the user declines, or does not answer in
    /// time. A question that a crash interrupted stands.
    pub(super) async fn question(
        &self,
        call_id: &str,
        message: &str,
        questions: Vec<Question>,
    ) -> Result<Option<Vec<(String, String)>>, AgentError> {
        if self.delegated.is_some() {
            return Ok(None);
        }
        let message = &self.secrets.conceal(message);
        let questions: Vec<_> = questions.into_iter().map(|it| concealment::question(it, &self.secrets)).collect();
        let standing = self.standing_question(call_id, message, &questions);
        let (request_id, at) = match standing {
            Some(standing) => standing,
            None => {
                let request_id = request_id("q");
                let asked = Asked {
                    request_id: request_id.clone(),
                    call_id: call_id.to_owned(),
                    message: message.to_owned(),
                    questions,
                };
                self.questions().insert(request_id.clone());
                self.write(vec![Entry::Asked(asked)]).await?;
                (request_id, now_us())
            }
        };
        let lifetime = u64::try_from(self.shared.config.question_lifetime.as_micros()).unwrap_or(u64::MAX);
        let expired = || declined(request_id.clone());
        let answered =
            self.wait_for(at.saturating_add(lifetime), expired, |state| state.answer(&request_id).cloned()).await?;
        let answers = answered.answers.into_iter().map(|it| (it.id, it.answer)).collect();
        Ok((!answered.declined).then_some(answers))
    }

    /// The same question of a process that ended, with when it was asked: its answer counts, once. One whose secrets were lost
    /// is asked again.
    fn standing_question(&self, call_id: &str, message: &str, questions: &[Question]) -> Option<(String, u64)> {
        let state = self.state();
        let mut asked_here = self.questions();
        let is_whole = |it: &Answered| it.answers.iter().all(|it| self.secrets.reveal(&it.answer).is_ok());
        let found = state.questions_of(call_id).find(|(asked, _)| {
            asked.message == message
                && asked.questions == questions
                && !asked_here.contains(&asked.request_id)
                && state.answer(&asked.request_id).is_none_or(is_whole)
        });
        let (asked, asked_us) = found?;
        asked_here.insert(asked.request_id.clone());
        // Nobody has to be in time with an answer that is there.
        let since = if state.answer(&asked.request_id).is_some() { now_us() } else { asked_us };
        Some((asked.request_id.clone(), since))
    }

    fn questions(&self) -> MutexGuard<'_, HashSet<String>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A part of a result, and whether it is text of strangers, as the whole is.
    fn read_result(&self, arguments: &str) -> (Outcome, bool) {
        let read: ReadArguments = match openskill_proto::json::read(arguments.as_bytes()) {
            Ok(read) => read,
            Err(error) => {
                let message = format!("the arguments of read_result: {error}");
                return (Outcome::failure(ErrorCode::InvalidArgument, message), false);
            }
        };
        let state = self.state();
        match state.result(&read.result_id) {
            Some(called) => (part(called, &read.pointer, read.offset, read.limit), called.untrusted),
            None => {
                let message = "there is no such result: use the result_id of a tool's result";
                (Outcome::failure(ErrorCode::NotFound, message), false)
            }
        }
    }

    async fn search_tools(&self, arguments: &str) -> Outcome {
        let query = match serde_json::from_str::<SearchArguments>(arguments) {
            Ok(SearchArguments { query }) if !query.trim().is_empty() && query.len() <= MAX_QUERY_BYTES => query,
            _ => {
                let message = format!("tool_search wants {{\"query\": \"...\"}} of 1 to {MAX_QUERY_BYTES} bytes");
                return Outcome::failure(ErrorCode::InvalidArgument, message);
            }
        };
        match self.search(&query).await {
            Ok(tools) => {
                let text = format!("{} tools fit: they can be called now", tools.len());
                Outcome::success(json!({ "tools": tools }).to_string(), text)
            }
            Err(error) => Outcome::failure(ErrorCode::Unavailable, error),
        }
    }
}

/// A reference to a secret as JSON, any other answer as text.
fn value(answer: &str) -> serde_json::Value {
    match serde_json::from_str(answer) {
        Ok(serde_json::Value::Object(fields)) if fields.len() == 1 && fields.contains_key("$secret") => fields.into(),
        _ => answer.into(),
    }
}

/// The id of a request to the user. Not guessable.
pub(super) fn request_id(prefix: &str) -> String {
    format!("{prefix}{:024x}", rand::random::<u128>() >> 32)
}
