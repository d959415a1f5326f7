//! A skill call: prepares its arguments, gets the user's approval, runs it, relays its questions, and returns its
//! result.

use std::time::Instant;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use openskill_model::ModelCall;
use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::{
    self, ArgumentPolicy, ErrorCode, InputAction, InputRequired, InvokeRequest, chat_event::Event, invoke_event,
    invoke_request::Arguments,
};
use tokio::sync::mpsc;

use super::approval::{Need, need};
use super::builtin::request_id;
use super::ready::{ProposedCall, Ready};
use super::settle::{call_result, forbidden, lost_result, over_limit};
use super::user::denial_entry;
use super::{CallStage, LeaveOnDrop, Turn};
use crate::context::elicitation::{from_schema, to_content};
use crate::entry::{ApprovalAsked, Called, Calling, Decided, Entry, Outcome, SkillRevision, TurnUsage, UserQuestion};
use crate::error::AgentError;

/// The maximum number of pending questions per call. The gateway's limit is not higher.
const MAX_QUESTIONS: usize = 16;

/// The maximum length of a displayed progress message, in bytes.
const MAX_PROGRESS_BYTES: usize = 1 << 10;

/// The maximum number of attempts for a call whose skill changes just before it runs.
const DECISIONS: u32 = 3;

impl Turn {
    /// Runs a skill call and returns its result.
    pub(super) async fn call_skill(&self, call: &ModelCall, skill: &v1::Skill) -> Result<Called, AgentError> {
        let (is_resumed, is_lost) = match self.state.lock().stage(&call.id) {
            CallStage::Began(it) => (true, !it.is_idempotent || it.skill.skill_id != skill.id),
            _ => (false, false),
        };
        if is_lost {
            return Ok(self.lost_skill_result(call, skill));
        }
        for _ in 0..DECISIONS {
            let ready = match self.prepare_with_permission(call, skill, is_resumed).await? {
                Ok(ready) => ready,
                Err(called) => return Ok(called),
            };
            if let Some(called) = self.run_skill(call, ready).await? {
                return Ok(called);
            }
        }
        let message = "not called: the skill keeps changing. Try again later";
        Ok(call_result(call, &skill.id, Outcome::failure(ErrorCode::Unavailable, message)))
    }

    /// Prepares a call and waits for permission to run it. The inner error is the result of a call that may not
    /// run. A decision applies to specific arguments and one revision of the skill, so it is repeated if they
    /// changed. `is_resumed` tells whether the call began in a previous process.
    async fn prepare_with_permission(
        &self,
        call: &ModelCall,
        skill: &v1::Skill,
        is_resumed: bool,
    ) -> Result<Result<Ready, Called>, AgentError> {
        let end = |outcome: Outcome| Ok(Err(call_result(call, &skill.id, outcome)));
        loop {
            let proposed = match self.propose(call) {
                Ok(proposed) => proposed,
                Err(denied) => return end(forbidden(&denied)),
            };
            let ready = match self.ready(call, skill, &proposed).await? {
                Ok(ready) => ready,
                Err(outcome) => return end(outcome),
            };
            if is_resumed && !ready.skill.idempotent {
                return Ok(Err(self.lost_skill_result(call, skill)));
            }
            if proposed.approved.as_ref() == Some(&ready.revision()) {
                return Ok(Ok(ready));
            }
            if let Some(called) = self.replay(call, &ready) {
                return Ok(Err(called));
            }
            match need(&ready.skill, self.approval_context(&ready.revision())) {
                Need::Nothing => return Ok(Ok(ready)),
                Need::OtherMode => {
                    return end(forbidden("the turn is read-only, and this tool is not marked read-only"));
                }
                Need::Approval(reason) if self.delegated.is_some() => return end(forbidden(&nobody_to_ask(reason))),
                Need::Approval(reason) => self.approval(call, ready, reason).await?,
            }
        }
    }

    /// Returns the arguments of a call, and the revision of its skill that was approved.
    ///
    /// # Errors
    /// The user denied the call. The message says why.
    fn propose(&self, call: &ModelCall) -> Result<ProposedCall, String> {
        let state = self.state.lock();
        let approved = |arguments: &String, revision: &SkillRevision| {
            Ok(ProposedCall { arguments: arguments.clone(), is_final: true, approved: Some(revision.clone()) })
        };
        match state.stage(&call.id) {
            CallStage::New => Ok(ProposedCall { arguments: call.arguments.clone(), is_final: false, approved: None }),
            CallStage::Began(it) => approved(&it.arguments, &it.skill),
            CallStage::Asked(asked, None) => {
                Ok(ProposedCall { arguments: asked.arguments.clone(), is_final: true, approved: None })
            }
            CallStage::Asked(asked, Some(decided)) => match decided.decision {
                Decided::Allow | Decided::AllowConversation => approved(&asked.arguments, &asked.skill),
                Decided::Edit => approved(&decided.arguments, &asked.skill),
                Decided::Deny => Err(denial(&decided.reason)),
            },
        }
    }

    /// Returns the result of a call that may have run before and must not run again.
    fn lost_skill_result(&self, call: &ModelCall, skill: &v1::Skill) -> Called {
        let used = skill.agent.is_some().then(|| TurnUsage::from_granted(self.state.lock().delegation()));
        Called { skill_id: skill.id.clone(), used, ..lost_result(call) }
    }

    /// Returns the earlier result if this call is identical to the last one.
    fn replay(&self, call: &ModelCall, ready: &Ready) -> Option<Called> {
        if ready.skill.repeatable {
            return None;
        }
        let state = self.state.lock();
        let first = state.same_as_last(&ready.skill.id, &ready.shown)?;
        let mut outcome = first.outcome.clone();
        outcome.warnings.push(format!(
            "not called again: this call is identical to {}, and this is its result. If you repeat it once more, you can't call any more tools in this turn.",
            first.call_id
        ));
        Some(Called {
            replays: first.call_id.clone(),
            untrusted: first.untrusted,
            ..call_result(call, &ready.skill.id, outcome)
        })
    }

    /// Requests approval and waits for the decision. If a request for exactly this call is already open, waits for
    /// that one.
    async fn approval(&self, call: &ModelCall, ready: Ready, reason: &str) -> Result<(), AgentError> {
        let standing = match self.state.lock().stage(&call.id) {
            CallStage::Asked(asked, None) if asked.skill == ready.revision() => {
                (asked.arguments == ready.shown).then(|| (asked.request_id.clone(), asked.expires_us))
            }
            _ => None,
        };
        let (request_id, expires_us) = match standing {
            Some(standing) => standing,
            None => {
                let lifetime = u64::try_from(self.shared.config.question_lifetime.as_micros()).unwrap_or(u64::MAX);
                let (request_id, expires_us) = (request_id("a"), Timestamp::now().0.saturating_add(lifetime));
                let asked = ApprovalAsked {
                    request_id: request_id.clone(),
                    call_id: call.id.clone(),
                    skill: ready.revision(),
                    arguments: ready.shown,
                    repairs: ready.repairs,
                    reason: reason.to_owned(),
                    expires_us,
                    tainted: self.state.lock().is_tainted,
                };
                // An open request for an earlier version of the call is obsolete.
                let stale = self.state.lock().open_approval_of(&call.id);
                let stale = stale.map(|id| denial_entry(id, "the call changed: the user is asked again"));
                self.write(stale.into_iter().chain([Entry::ApprovalAsked(asked)]).collect()).await?;
                (request_id, expires_us)
            }
        };
        let expired = || denial_entry(request_id.clone(), "no decision was made in time");
        self.wait_for(expires_us, expired, |state| state.decision(&request_id).map(drop)).await
    }

    /// Writes the beginning of a call to the log, runs the call, and relays its questions to the user. Returns
    /// `None` if the call did not run, because the skill changed in the meantime.
    async fn run_skill(&self, call: &ModelCall, ready: Ready) -> Result<Option<Called>, AgentError> {
        let skill = ready.skill;
        let calling = Calling {
            call_id: call.id.clone(),
            skill: (&skill).into(),
            name: call.name.clone(),
            arguments: ready.shown,
            masked: ready.masked,
            repairs: ready.repairs,
            is_idempotent: skill.idempotent,
        };
        if skill.agent.is_some() && self.state.lock().delegation().max_iterations == Some(0) {
            return Ok(Some(over_limit(call, &skill.id, "max_iterations")));
        }
        if let Err(limit) = self.begin(calling).await? {
            return Ok(Some(over_limit(call, &skill.id, limit)));
        }
        let mut request = self.request(&skill.id, &call.id, ready.arguments, ArgumentPolicy::Unspecified);
        request.definition_hash.clone_from(&skill.definition_hash);
        request.interactive = self.delegated.is_none();
        // No other call runs at the same time, so the turn's remaining limits don't change.
        let granted = skill.agent.is_some().then(|| self.state.lock().delegation());
        request.delegation = granted;
        let left = self.state.lock().time_left().as_millis().max(1);
        request.timeout_ms = u32::try_from(left).unwrap_or(u32::MAX);
        let begun = Instant::now();
        let again = request.clone();
        let result = self.invoke(&call.id, request).await?;
        if self.has_changed(&skill, again, result.error.as_ref()).await {
            return Ok(None);
        }
        let latency_ms = begun.elapsed().as_secs_f64() * 1e3;
        self.keep_pictures(&call.id, &result.artifacts).await;
        let error = result.error.as_ref();
        let unknown =
            error.is_some_and(|it| it.may_have_run && it.code() == ErrorCode::Unavailable && !skill.idempotent);
        let said = result.meta.as_ref().and_then(|meta| meta.agent);
        let untrusted = skill.untrusted || said.is_some_and(|it| it.untrusted);
        // A sub-agent without a result may have used its whole grant. Counting all of it makes sure that the
        // limits are not exceeded.
        let lost = granted.filter(|_| error.is_some_and(|it| it.may_have_run)).map(TurnUsage::from_granted);
        let used = said.map(Into::into).or(lost);
        Ok(Some(Called { latency_ms, untrusted, unknown, used, ..call_result(call, &skill.id, result.into()) }))
    }

    /// Returns whether a call was rejected before it ran because its skill has a new revision.
    async fn has_changed(&self, skill: &v1::Skill, request: InvokeRequest, error: Option<&v1::SkillError>) -> bool {
        if error.is_none_or(|it| it.code() != ErrorCode::Unavailable || it.may_have_run) {
            return false;
        }
        let request = InvokeRequest { definition_hash: String::new(), ..request };
        let prepared = self.shared.skills.prepare(&self.caller, request).await;
        prepared.ok().and_then(|it| it.skill).is_some_and(|it| it.definition_hash != skill.definition_hash)
    }

    async fn invoke(&self, call_id: &str, request: InvokeRequest) -> Result<v1::SkillResult, AgentError> {
        let (ask, mut asked) = mpsc::channel(MAX_QUESTIONS);
        let mut relayed = FuturesUnordered::new();
        let mut on_event = |event: v1::InvokeEvent| match event.event {
            Some(invoke_event::Event::InputRequired(required)) => drop(ask.try_send(required)),
            Some(invoke_event::Event::Progress(progress)) => self.show_progress(call_id, progress),
            _ => {}
        };
        let invoked = self.shared.skills.invoke(&self.caller, request, &mut on_event);
        tokio::pin!(invoked);
        self.pending_calls.lock().running += 1;
        let _running = LeaveOnDrop { turn: self, leave: |pending| pending.running -= 1 };
        loop {
            tokio::select! {
                result = &mut invoked => return Ok(result),
                Some(required) = asked.recv() => relayed.push(self.relay(call_id, required)),
                Some(done) = relayed.next() => { let done: Result<(), AgentError> = done; done? }
            }
        }
    }

    /// Relays a question from a running call to the user, and the answer back to the call.
    async fn relay(&self, call_id: &str, required: InputRequired) -> Result<(), AgentError> {
        let questions = from_schema(&required.schema_json);
        let answers = self.question(call_id, &required.message, questions.clone()).await?;
        let answers = answers.map(|it| it.into_iter().map(|it| self.restore_option(&questions, it)).collect());
        let response = |action: InputAction, content_json: String| v1::InputResponse {
            request_id: required.request_id.clone(),
            action: action.into(),
            content_json,
        };
        let response = match answers.map(|it| self.content(&required.schema_json, it)) {
            None => response(InputAction::Decline, String::new()),
            Some(Ok(content)) => response(InputAction::Accept, content),
            Some(Err(_)) => response(InputAction::Cancel, String::new()),
        };
        // A call that has ended in the meantime no longer waits for an answer.
        if let Err(error) = self.shared.skills.answer(&self.caller, response).await {
            tracing::warn!(conversation = self.conversation, %error, "an answer did not reach its call");
        }
        Ok(())
    }

    /// If the chosen option contains a secret, restores the option's text as the skill wrote it.
    fn restore_option(&self, questions: &[UserQuestion], (id, answer): (String, String)) -> (String, String) {
        let asked = questions.iter().find(|it| it.id == id);
        let option = asked.and_then(|it| it.options.iter().find(|option| self.secrets.conceal(option) == answer));
        (id, option.cloned().unwrap_or(answer))
    }

    /// Converts answers into the content that a skill expects, with secrets filled in.
    fn content(&self, schema: &str, answers: Vec<(String, String)>) -> Result<String, String> {
        let revealed = answers.into_iter().map(|(id, answer)| {
            let name = serde_json::from_str::<serde_json::Value>(&answer).ok();
            let name = name.and_then(|it| it.get("$secret")?.as_str().map(str::to_owned));
            match name {
                Some(name) => self.secrets.get(&name).map(|text| (id, text)).ok_or("the secret was lost".to_owned()),
                None => Ok((id, answer)),
            }
        });
        to_content(schema, &revealed.collect::<Result<Vec<_>, _>>()?)
    }

    fn show_progress(&self, call_id: &str, progress: v1::Progress) {
        let mut message = self.secrets.conceal(&progress.message);
        message.truncate(message.floor_char_boundary(MAX_PROGRESS_BYTES));
        self.show(Event::Progress(v1::ToolProgress {
            call_id: call_id.to_owned(),
            fraction: progress.fraction,
            message,
        }));
    }

    /// Builds a request for a call in this conversation.
    pub(super) fn request(
        &self,
        skill_id: &str,
        call_id: &str,
        arguments: String,
        policy: ArgumentPolicy,
    ) -> InvokeRequest {
        let secret_values = self.secrets.within(&arguments);
        InvokeRequest {
            skill_id: skill_id.to_owned(),
            call_id: call_id.to_owned(),
            arguments: Some(Arguments::InputJson(arguments)),
            session_id: self.session().to_owned(),
            argument_policy: policy.into(),
            secret_values,
            ..InvokeRequest::default()
        }
    }
}

fn nobody_to_ask(reason: &str) -> String {
    format!(
        "not called: this call needs its user's approval ({reason}), and a sub-agent has no user. Say in your answer what is left to do."
    )
}

fn denial(reason: &str) -> String {
    if reason.is_empty() {
        "the user denied this call".to_owned()
    } else {
        format!("the user denied this call: {reason}")
    }
}
