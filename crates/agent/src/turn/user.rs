//! What the user sends to a running turn, and how a call waits for it.

use std::time::Duration;

use openskill_proto::v1::{self, ArgumentPolicy, ErrorCode};

use super::{Next, State, Turn};
use crate::clock::now_us;
use crate::context::own_tools;
use crate::entry::{Answer, Answered, ApprovalDecided, Asked, Called, Decided, End, Ended, Entry, Outcome, ReplyCall};
use crate::error::{AgentError, Bound};
use crate::skills::{Caller, Owner, Validity};

impl Turn {
    /// Whether an input of this sender is taken. `permits`: the request of a call that it lets go on. The turn must not call, on
    /// the word of a credential, what that one may not. An answer to the agent's own question can make it call anything: it
    /// takes the credential that began the turn.
    ///
    /// # Errors
    /// [`AgentError::Revoked`]; [`AgentError::Forbidden`]; [`AgentError::NotWaiting`]; [`AgentError::Invalid`]: the gateway
    /// can't be reached.
    pub(crate) async fn check_sender(&self, sender: &Owner, permits: Option<&str>) -> Result<(), AgentError> {
        let skills = &self.shared.skills;
        if let Some(request_id) = permits.filter(|_| *sender != self.caller.owner) {
            let skill_id = {
                let state = self.state();
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

    /// Answers a question.
    ///
    /// # Errors
    /// [`AgentError::NotWaiting`]; [`AgentError::Invalid`]: an answer is missing or does not fit, and the question stands.
    pub(crate) async fn answer(&self, given: v1::UserAnswers) -> Result<(), AgentError> {
        let writing = self.lock().await;
        let asked = {
            let state = self.state();
            let open = state.question(&given.request_id).filter(|it| state.answer(&it.request_id).is_none());
            open.cloned().ok_or(AgentError::NotWaiting)?
        };
        let answers = if given.declined {
            Vec::new()
        } else {
            let fitting = own_tools::answers(&asked.questions, &given).map_err(AgentError::Invalid)?;
            fitting.into_iter().map(|it| self.kept(&asked, it)).collect::<Result<_, _>>()?
        };
        let answered = Answered { request_id: asked.request_id, answers, declined: given.declined };
        self.append(writing, vec![Entry::Answered(answered)]).await
    }

    /// An answer as it may be written: a secret stays in memory.
    fn kept(&self, asked: &Asked, (id, answer, is_secret): (String, String, bool)) -> Result<Answer, AgentError> {
        // A text that repeats a secret is one.
        if !is_secret && self.secrets.conceal(&answer) == answer {
            return Ok(Answer { id, answer });
        }
        // A question for a secret that was lost is named by its reference. A skill's question may have a slash, too.
        let is_again = self.state().is_secret_name(&id);
        let name = if is_again { id.clone() } else { format!("{}/{id}", asked.request_id) };
        Ok(Answer { answer: self.secrets.keep(&name, answer).ok_or(AgentError::Full(Bound::Secrets))?, id })
    }

    /// Decides about a call.
    ///
    /// # Errors
    /// [`AgentError::NotWaiting`]; [`AgentError::Invalid`]: edited arguments do not fit the skill, and the request stands.
    pub(crate) async fn decide(&self, given: v1::UserDecision) -> Result<(), AgentError> {
        let asked = {
            let state = self.state();
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
            self.check_edit(&asked.skill_id, &given.arguments_json).await?;
        }
        let writing = self.lock().await;
        if self.state().decision(&given.request_id).is_some() {
            return Err(AgentError::NotWaiting);
        }
        let arguments = if decision == Decided::Edit { given.arguments_json } else { String::new() };
        let reason = if decision == Decided::Deny { given.reason } else { String::new() };
        let decided = ApprovalDecided { request_id: given.request_id, decision, arguments, reason };
        self.append(writing, vec![Entry::ApprovalDecided(decided)]).await
    }

    /// Ends the turn before it is done: every call gets its result, every request its end, and nothing starts. `error`: why, if
    /// the user did not cancel it.
    pub(super) async fn stop(&self, end: End, error: &str) -> Result<(), AgentError> {
        let stopped = self.write_end(end, error, true).await;
        // There may be no room to repeat what the model said.
        if matches!(stopped, Err(AgentError::Full(_))) { self.write_end(end, error, false).await } else { stopped }
    }

    async fn write_end(&self, end: End, error: &str, with_text: bool) -> Result<(), AgentError> {
        let writing = self.lock().await;
        let mut entries = Vec::new();
        {
            let state = self.state();
            if state.is_over() {
                return Ok(());
            }
            let why = if error.is_empty() { "the user cancelled" } else { "the turn failed" };
            entries.extend(withdrawn(&state, why));
            if let Next::Settle(calls) = state.next() {
                entries.extend(calls.iter().map(|call| Entry::Called(stopped(&state, call, why))));
            }
            let text = if with_text { state.reply_text().to_owned() } else { String::new() };
            entries.push(Entry::Ended(Ended {
                end,
                error: error.to_owned(),
                text,
                used: state.used(),
                ..Ended::default()
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

    /// Waits until `found` finds in the state what the user sent. At `expires_us`, writes `expired` and waits for that.
    pub(super) async fn wait_for<T>(
        &self,
        expires_us: u64,
        expired: impl Fn() -> Entry + Send,
        found: impl Fn(&State) -> Option<T> + Send,
    ) -> Result<T, AgentError> {
        let mut changed = self.changed.subscribe();
        if let Some(found) = found(&self.state()) {
            return Ok(found);
        }
        self.hands().waiting += 1;
        let waiting = Waiting(self);
        self.note_waiting().await?;
        loop {
            if let Some(found) = found(&self.state()) {
                drop(waiting);
                return Ok(found);
            }
            let left = Duration::from_micros(expires_us.saturating_sub(now_us()));
            tokio::select! {
                _ = changed.changed() => {}
                () = tokio::time::sleep(left) => {
                    let writing = self.lock().await;
                    // The user may have been faster.
                    let is_open = found(&self.state()).is_none();
                    if is_open {
                        self.append(writing, vec![expired()]).await?;
                    }
                }
            }
        }
    }

    /// Writes that only the user can continue, if that is so and is not written yet.
    pub(super) async fn note_waiting(&self) -> Result<(), AgentError> {
        let writing = self.lock().await;
        let hands = *self.hands();
        let request_ids = {
            let state = self.state();
            let is_noted = state.entries().last().is_some_and(|it| matches!(it.entry, Entry::Waiting { .. }));
            if is_noted || hands.calls == 0 || hands.waiting < hands.calls { Vec::new() } else { state.open_requests() }
        };
        if request_ids.is_empty() { Ok(()) } else { self.append(writing, vec![Entry::Waiting { request_ids }]).await }
    }
}

/// A call that waits for the user.
struct Waiting<'a>(&'a Turn);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.hands().waiting -= 1;
    }
}

/// The ends of all open requests of a turn that is stopped.
fn withdrawn(state: &State, why: &str) -> Vec<Entry> {
    let end = |request_id: String| match state.approval(&request_id) {
        Some(_) => denied(request_id, why),
        None => declined(request_id),
    };
    state.open_requests().into_iter().map(end).collect()
}

/// A denial.
pub(super) fn denied(request_id: String, reason: &str) -> Entry {
    Entry::ApprovalDecided(ApprovalDecided { request_id, reason: reason.to_owned(), ..ApprovalDecided::default() })
}

/// A question that nobody answers.
pub(super) fn declined(request_id: String) -> Entry {
    Entry::Answered(Answered { request_id, answers: Vec::new(), declined: true })
}

/// The longest name of a tool in the end of a turn, in characters: the model wrote it, and the end has little room.
const MAX_NAME: usize = 64;

/// The result of a call of a turn that is stopped.
fn stopped(state: &State, call: &ReplyCall, why: &str) -> Called {
    let begun = state.begun(&call.id);
    let unknown = begun.is_some_and(|it| !it.is_idempotent && !it.version.is_empty());
    let message = match (begun, unknown) {
        (None, _) => format!("{why}: the call did not start"),
        (Some(_), false) => format!("{why} while the call ran"),
        (Some(_), true) => format!("{why} while the call ran: it may have had an effect"),
    };
    Called {
        call_id: call.id.clone(),
        skill_id: begun.map(|it| it.skill_id.clone()).unwrap_or_default(),
        name: call.name.chars().take(MAX_NAME).collect(),
        outcome: Outcome::failure(ErrorCode::Cancelled, message),
        unknown,
        ..Called::default()
    }
}
