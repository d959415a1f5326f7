//! User inputs to a running turn, and how calls wait for them.

use std::time::Duration;

use openskill_model::ModelCall;
use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::{self, ArgumentPolicy, ErrorCode};

use super::{LeaveOnDrop, Next, State, Turn};
use crate::context::builtin_tools;
use crate::entry::{
    Answered, ApprovalDecided, Called, Decided, EndReason, Entry, Outcome, QuestionAnswer, QuestionsAsked, TurnEnded,
};
use crate::error::{AgentError, Bound};
use crate::skills::{Caller, UserIdentity, Validity};

impl Turn {
    /// Checks whether this sender may send an input. `permits` is the request whose call may continue after the
    /// input. A credential must not let the turn make a call that the credential itself does not permit. An answer
    /// to a question that the agent itself asks can lead to any call, so it requires the credential that began the
    /// turn.
    ///
    /// # Errors
    /// [`AgentError::Revoked`]; [`AgentError::Forbidden`]; [`AgentError::NotWaiting`]; [`AgentError::Invalid`]: the gateway
    /// can't be reached.
    pub(crate) async fn check_sender(&self, sender: &UserIdentity, permits: Option<&str>) -> Result<(), AgentError> {
        let skills = &self.shared.skills;
        if let Some(request_id) = permits.filter(|_| *sender != self.caller.owner) {
            let skill_id = {
                let state = self.state.lock();
                match state.skill_of_request(request_id) {
                    Some(skill_id) => skill_id.to_owned(),
                    None if state.question(request_id).is_none() => return Err(AgentError::NotWaiting),
                    None => return Err(AgentError::Forbidden),
                }
            };
            let listed = skills.list(&Caller { owner: sender.clone(), ..Caller::default() }).await;
            let listed = listed.map_err(|error| AgentError::Invalid(error.to_string()))?;
            if !listed.iter().any(|it| it.id == skill_id) {
                return Err(AgentError::Forbidden);
            }
        }
        if skills.validity(sender) == Validity::Valid { Ok(()) } else { Err(AgentError::Revoked) }
    }

    /// Accepts answers to questions.
    ///
    /// # Errors
    /// [`AgentError::NotWaiting`]; [`AgentError::Invalid`]: an answer is missing or does not fit. The questions
    /// stay open.
    pub(crate) async fn answer(&self, given: v1::UserAnswers) -> Result<(), AgentError> {
        let writing = self.lock().await;
        let asked = {
            let state = self.state.lock();
            let open = state.question(&given.request_id).filter(|it| state.answer(&it.request_id).is_none());
            open.cloned().ok_or(AgentError::NotWaiting)?
        };
        let answers = if given.declined {
            Vec::new()
        } else {
            let fitting = builtin_tools::answers(&asked.questions, &given).map_err(AgentError::Invalid)?;
            fitting.into_iter().map(|it| self.conceal_answer(&asked, it)).collect::<Result<_, _>>()?
        };
        let answered = Answered { request_id: asked.request_id, answers, declined: given.declined };
        self.append(writing, vec![Entry::Answered(answered)]).await
    }

    /// Converts an answer to its form for the log. Keeps a secret in memory and replaces it with a reference.
    fn conceal_answer(
        &self,
        asked: &QuestionsAsked,
        (id, answer, is_secret): (String, String, bool),
    ) -> Result<QuestionAnswer, AgentError> {
        // A text that contains a known secret is a secret too.
        if !is_secret && self.secrets.conceal(&answer) == answer {
            return Ok(QuestionAnswer { id, answer });
        }
        // A question that asks for a lost secret again uses the name of its reference as id. Ids of skills'
        // questions may contain slashes too.
        let is_again = self.state.lock().is_secret_name(&id);
        let name = if is_again { id.clone() } else { format!("{}/{id}", asked.request_id) };
        Ok(QuestionAnswer { answer: self.secrets.keep(&name, answer).ok_or(AgentError::Full(Bound::Secrets))?, id })
    }

    /// Records the user's decision about a call.
    ///
    /// # Errors
    /// [`AgentError::NotWaiting`]; [`AgentError::Invalid`]: the edited arguments do not fit the skill. The request
    /// stays open.
    pub(crate) async fn decide(&self, given: v1::UserDecision) -> Result<(), AgentError> {
        let asked = {
            let state = self.state.lock();
            let open = state.approval(&given.request_id).filter(|it| state.decision(&it.request_id).is_none());
            open.cloned().ok_or(AgentError::NotWaiting)?
        };
        let decision = match given.decision() {
            v1::Decision::Allow => Decided::Allow,
            v1::Decision::AllowConversation => Decided::AllowConversation,
            v1::Decision::Edit => Decided::Edit,
            v1::Decision::Deny => Decided::Deny,
            v1::Decision::Unspecified => {
                return Err(AgentError::Invalid("decision must be allow, allow_conversation, edit or deny".to_owned()));
            }
        };
        if decision == Decided::Edit {
            self.check_edit(&asked.skill.skill_id, &given.arguments_json).await?;
        }
        let writing = self.lock().await;
        if self.state.lock().decision(&given.request_id).is_some() {
            return Err(AgentError::NotWaiting);
        }
        let arguments = if decision == Decided::Edit { given.arguments_json } else { String::new() };
        let reason = if decision == Decided::Deny { given.reason } else { String::new() };
        let decided = ApprovalDecided { request_id: given.request_id, decision, arguments, reason };
        self.append(writing, vec![Entry::ApprovalDecided(decided)]).await
    }

    /// Ends the turn early. Every open call gets a result, every open request is closed, and nothing new starts.
    /// `error` is the reason, or empty if the user cancelled.
    pub(super) async fn stop(&self, end: EndReason, error: &str) -> Result<(), AgentError> {
        let stopped = self.write_end(end, error, true).await;
        // There may not be enough space for the last reply's text.
        if matches!(stopped, Err(AgentError::Full(_))) { self.write_end(end, error, false).await } else { stopped }
    }

    async fn write_end(&self, end: EndReason, error: &str, with_text: bool) -> Result<(), AgentError> {
        let writing = self.lock().await;
        let mut entries = Vec::new();
        {
            let state = self.state.lock();
            if state.is_over() {
                return Ok(());
            }
            let why = if error.is_empty() { "the user cancelled" } else { "the turn failed" };
            entries.extend(withdrawn(&state, why));
            if let Next::Settle(calls) = state.next() {
                entries.extend(calls.iter().map(|call| Entry::Called(stopped_result(&state, call, why))));
            }
            let text = if with_text { state.reply_text().to_owned() } else { String::new() };
            entries.push(Entry::Ended(TurnEnded {
                end,
                error: error.to_owned(),
                text,
                used: state.used,
                ..TurnEnded::default()
            }));
        }
        self.append(writing, entries).await
    }

    async fn check_edit(&self, skill_id: &str, arguments: &str) -> Result<(), AgentError> {
        let Ok(revealed) = self.secrets.reveal(arguments) else {
            return Err(AgentError::Invalid("arguments_json names a secret that is not in memory".to_owned()));
        };
        let request = self.request(skill_id, "", revealed, ArgumentPolicy::Strict);
        let prepared = self.shared.skills.prepare(&self.caller, request).await;
        let prepared = prepared.map_err(|error| AgentError::Invalid(error.to_string()))?;
        match prepared.error {
            Some(error) => {
                Err(AgentError::Invalid(format!("arguments_json: {}", self.secrets.conceal(&error.message))))
            }
            None => Ok(()),
        }
    }

    /// Waits until `found` finds the user's input in the state. At `expires_us`, writes `expired` and waits until
    /// `found` finds that.
    pub(super) async fn wait_for<T>(
        &self,
        expires_us: u64,
        expired: impl Fn() -> Entry + Send,
        found: impl Fn(&State) -> Option<T> + Send,
    ) -> Result<T, AgentError> {
        let mut changed = self.changed.subscribe();
        if let Some(found) = found(&self.state.lock()) {
            return Ok(found);
        }
        self.pending_calls.lock().waiting += 1;
        let waiting = LeaveOnDrop { turn: self, leave: |pending| pending.waiting -= 1 };
        self.note_waiting().await?;
        loop {
            if let Some(found) = found(&self.state.lock()) {
                drop(waiting);
                return Ok(found);
            }
            let left = Duration::from_micros(expires_us.saturating_sub(Timestamp::now().0));
            tokio::select! {
                _ = changed.changed() => {}
                () = tokio::time::sleep(left) => {
                    let writing = self.lock().await;
                    // The user's input may have been written just before.
                    let is_open = found(&self.state.lock()).is_none();
                    if is_open {
                        self.append(writing, vec![expired()]).await?;
                    }
                }
            }
        }
    }

    /// Writes an entry if only the user can continue the turn, unless the last entry already says so.
    pub(super) async fn note_waiting(&self) -> Result<(), AgentError> {
        let writing = self.lock().await;
        let pending = *self.pending_calls.lock();
        let request_ids = {
            let state = self.state.lock();
            let is_noted = state.entries.last().is_some_and(|it| matches!(it.entry, Entry::Waiting { .. }));
            if is_noted || pending.calls == 0 || pending.waiting < pending.calls {
                Vec::new()
            } else {
                state.open_requests()
            }
        };
        if request_ids.is_empty() { Ok(()) } else { self.append(writing, vec![Entry::Waiting { request_ids }]).await }
    }
}

/// Returns entries that close all open requests of a stopped turn.
fn withdrawn(state: &State, why: &str) -> Vec<Entry> {
    let end = |request_id: String| match state.approval(&request_id) {
        Some(_) => denial_entry(request_id, why),
        None => decline_entry(request_id),
    };
    state.open_requests().into_iter().map(end).collect()
}

/// Returns the entry that denies an approval request.
pub(super) fn denial_entry(request_id: String, reason: &str) -> Entry {
    Entry::ApprovalDecided(ApprovalDecided { request_id, reason: reason.to_owned(), ..ApprovalDecided::default() })
}

/// Returns the entry that closes questions without answers.
pub(super) fn decline_entry(request_id: String) -> Entry {
    Entry::Answered(Answered { request_id, answers: Vec::new(), declined: true })
}

/// The maximum length of a tool name in the end of a turn, in characters. The model wrote the name, and space for
/// the end is limited.
const MAX_NAME: usize = 64;

/// Returns the result for an open call of a stopped turn.
fn stopped_result(state: &State, call: &ModelCall, why: &str) -> Called {
    let begun = state.begun_call(&call.id);
    let unknown = begun.is_some_and(|it| !it.is_idempotent && !it.skill.version.is_empty());
    let message = match (begun, unknown) {
        (None, _) => format!("{why}: the call did not start"),
        (Some(_), false) => format!("{why} while the call ran"),
        (Some(_), true) => format!("{why} while the call ran: it may have had an effect"),
    };
    Called {
        call_id: call.id.clone(),
        skill_id: begun.map(|it| it.skill.skill_id.clone()).unwrap_or_default(),
        name: call.name.chars().take(MAX_NAME).collect(),
        outcome: Outcome::failure(ErrorCode::Cancelled, message),
        unknown,
        ..Called::default()
    }
}
