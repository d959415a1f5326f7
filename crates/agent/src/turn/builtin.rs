//! Runs calls of built-in tools.

use openskill_model::ModelCall;
use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::ErrorCode;
use serde::Deserialize;
use serde_json::json;

use super::Turn;
use super::settle::call_result;
use crate::concealment::conceal_question;
use crate::context::builtin_tools::{BuiltinTool, questions};
use crate::context::result::part;
use crate::entry::{Answered, Called, Calling, Entry, Outcome, QuestionsAsked, SkillRevision, UserQuestion};
use crate::error::AgentError;

use super::user::decline_entry;

/// The maximum length of a query, in bytes.
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
    pub(super) async fn call_builtin(&self, call: &ModelCall, tool: BuiltinTool) -> Result<Called, AgentError> {
        let (outcome, untrusted) = match tool {
            BuiltinTool::AskUser => return self.ask_user(call).await,
            BuiltinTool::ReadResult => self.read_result(&call.arguments),
            BuiltinTool::ToolSearch => (self.search_tools(&call.arguments).await, false),
        };
        self.begin_builtin(call).await?;
        Ok(Called { untrusted, ..call_result(call, tool.name(), outcome) })
    }

    async fn begin_builtin(&self, call: &ModelCall) -> Result<(), AgentError> {
        let calling = Calling {
            call_id: call.id.clone(),
            skill: SkillRevision { skill_id: call.name.clone(), ..SkillRevision::default() },
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            is_idempotent: true,
            ..Calling::default()
        };
        // Limits don't apply to built-in tools.
        let _ = self.begin(calling).await?;
        Ok(())
    }

    async fn ask_user(&self, call: &ModelCall) -> Result<Called, AgentError> {
        let name = BuiltinTool::AskUser.name();
        if self.delegated.is_some() {
            let message =
                "a sub-agent has no user to ask: continue without an answer, or say in your answer what is missing";
            return Ok(call_result(call, name, Outcome::failure(ErrorCode::AskUserUnavailable, message)));
        }
        let questions = match questions(&call.arguments) {
            Ok(questions) => questions,
            Err(reason) => return Ok(call_result(call, name, Outcome::failure(ErrorCode::InvalidArgument, reason))),
        };
        self.begin_builtin(call).await?;
        let answers = self.question(&call.id, "", questions).await?;
        let outcome = match answers {
            None => Outcome::failure(
                ErrorCode::Cancelled,
                "the user declined to answer: continue without an answer, or say what is missing",
            ),
            Some(answers) => {
                let text = format!("the user answered {} questions", answers.len());
                let answers: Vec<_> =
                    answers.iter().map(|(id, answer)| json!({"id": id, "answer": value(answer)})).collect();
                Outcome::success(json!({ "answers": answers }).to_string(), text)
            }
        };
        Ok(call_result(call, name, outcome))
    }

    /// Asks the user questions on behalf of a call, and waits for the answers. Returns `None` if there is no user,
    /// the user declines, or the time runs out. After a crash, continues to wait for a question that was already
    /// asked.
    pub(super) async fn question(
        &self,
        call_id: &str,
        message: &str,
        mut questions: Vec<UserQuestion>,
    ) -> Result<Option<Vec<(String, String)>>, AgentError> {
        if self.delegated.is_some() {
            return Ok(None);
        }
        let message = &self.secrets.conceal(message);
        questions.iter_mut().for_each(|it| conceal_question(it, &self.secrets));
        let standing = self.standing_question(call_id, message, &questions);
        let (request_id, at) = match standing {
            Some(standing) => standing,
            None => {
                let request_id = request_id("q");
                let asked = QuestionsAsked {
                    request_id: request_id.clone(),
                    call_id: call_id.to_owned(),
                    message: message.to_owned(),
                    questions,
                };
                self.questions.lock().insert(request_id.clone());
                self.write(vec![Entry::Asked(asked)]).await?;
                (request_id, Timestamp::now().0)
            }
        };
        let lifetime = u64::try_from(self.shared.config.question_lifetime.as_micros()).unwrap_or(u64::MAX);
        let expired = || decline_entry(request_id.clone());
        let answered =
            self.wait_for(at.saturating_add(lifetime), expired, |state| state.answer(&request_id).cloned()).await?;
        let answers = answered.answers.into_iter().map(|it| (it.id, it.answer)).collect();
        Ok((!answered.declined).then_some(answers))
    }

    /// Returns the same question as asked by a previous process, and when it was asked. Each such question is used
    /// only once, and not at all if its answer contains secrets that were lost.
    fn standing_question(&self, call_id: &str, message: &str, questions: &[UserQuestion]) -> Option<(String, u64)> {
        let state = self.state.lock();
        let mut asked_here = self.questions.lock();
        let is_whole = |it: &Answered| it.answers.iter().all(|it| self.secrets.reveal(&it.answer).is_ok());
        let found = state.questions_of(call_id).find(|(asked, _)| {
            asked.message == message
                && asked.questions == questions
                && !asked_here.contains(&asked.request_id)
                && state.answer(&asked.request_id).is_none_or(is_whole)
        });
        let (asked, asked_us) = found?;
        asked_here.insert(asked.request_id.clone());
        // A question that has been answered can't expire.
        let since = if state.answer(&asked.request_id).is_some() { Timestamp::now().0 } else { asked_us };
        Some((asked.request_id.clone(), since))
    }

    /// Returns part of a result, and whether the result is untrusted.
    fn read_result(&self, arguments: &str) -> (Outcome, bool) {
        let read: ReadArguments = match openskill_proto::json::read(arguments.as_bytes()) {
            Ok(read) => read,
            Err(error) => {
                let message = format!("invalid arguments of read_result: {error}");
                return (Outcome::failure(ErrorCode::InvalidArgument, message), false);
            }
        };
        let state = self.state.lock();
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
                let message =
                    format!("tool_search expects {{\"query\": \"...\"}}, where query has 1 to {MAX_QUERY_BYTES} bytes");
                return Outcome::failure(ErrorCode::InvalidArgument, message);
            }
        };
        match self.search(&query).await {
            Ok(tools) => {
                let text = format!("{} tools match and can be called now", tools.len());
                Outcome::success(json!({ "tools": tools }).to_string(), text)
            }
            Err(error) => Outcome::failure(ErrorCode::Unavailable, error),
        }
    }
}

/// Converts an answer to JSON: a reference to a secret stays a reference, any other answer becomes a string.
fn value(answer: &str) -> serde_json::Value {
    match serde_json::from_str(answer) {
        Ok(serde_json::Value::Object(fields)) if fields.len() == 1 && fields.contains_key("$secret") => fields.into(),
        _ => answer.into(),
    }
}

/// Returns an unguessable random id for a request to the user.
pub(super) fn request_id(prefix: &str) -> String {
    format!("{prefix}{:024x}", rand::random::<u128>() >> 32)
}
