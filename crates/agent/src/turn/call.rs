//! One call of a skill: arguments made ready, the user's approval, the call, its questions, its result.

use std::time::Instant;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use openskill_proto::v1::{
    self, ArgumentPolicy, ErrorCode, InputAction, InputRequired, InvokeRequest, chat_event::Event, invoke_event,
    invoke_request::Arguments,
};
use tokio::sync::mpsc;

use super::Turn;
use super::approval::{Need, need};
use super::own::request_id;
use super::settle::{failed, lost, over_limit};
use super::user::denied;
use crate::clock::now_us;
use crate::context::elicitation::{from_schema, to_content};
use crate::context::result::resolve;
use crate::entry::{ApprovalAsked, Called, Calling, Decided, Entry, Outcome, Question, QuestionKind, ReplyCall, Used};
use crate::error::AgentError;
use crate::secrets::Missing;

/// Questions of one call that may wait. The gateway lets a call ask no more at once.
const MAX_QUESTIONS: usize = 16;

/// Arguments as the skill gets them.
struct Ready {
    version: String,
    /// With secrets.
    arguments: String,
    /// With references to them.
    shown: String,
    repairs: Vec<v1::Repair>,
}

/// What became of a request for approval.
enum Verdict {
    Allowed,
    /// Call with these arguments instead.
    Edited(String),
    Denied(String),
}

impl Turn {
    /// Brings a call of a skill to its result.
    pub(super) async fn call_skill(&self, call: &ReplyCall, skill: &v1::Skill) -> Result<Called, AgentError> {
        let begun = self.state().begun(&call.id).cloned();
        if begun.as_ref().is_some_and(|it| !it.is_idempotent) {
            let used = skill.agent.is_some().then(|| Used::whole(self.state().delegation()));
            return Ok(Called { skill_id: skill.id.clone(), used, ..lost(call) });
        }
        let fail = |outcome: Outcome| Ok(failed(call, &skill.id, outcome));
        let (mut arguments, mut is_edited) = (call.arguments.clone(), false);
        let ready = loop {
            let ready = match self.ready(call, skill, &arguments, is_edited).await? {
                Ok(ready) => ready,
                Err(outcome) => return fail(outcome),
            };
            if begun.is_some() {
                break ready;
            }
            if let Some(called) = self.replay(call, skill, &ready) {
                return Ok(called);
            }
            match need(skill, self.standing(&skill.id, &ready.version)) {
                Need::Nothing => break ready,
                Need::OtherMode => {
                    return fail(forbidden("the turn is read-only, and this tool is not marked read-only"));
                }
                Need::Approval(_) if is_edited => break ready,
                Need::Approval(reason) if self.delegated.is_some() => return fail(forbidden(&nobody_to_ask(reason))),
                Need::Approval(reason) => match self.approval(call, skill, &ready, reason).await? {
                    Verdict::Denied(reason) => return fail(forbidden(&denial(&reason))),
                    Verdict::Edited(edited) => (arguments, is_edited) = (edited, true),
                    // The wait may have been long: what was allowed must be what runs.
                    Verdict::Allowed => match self.ready(call, skill, &arguments, false).await? {
                        Ok(now) if now.version == ready.version && now.shown == ready.shown => break now,
                        Ok(_) => {}
                        Err(outcome) => return fail(outcome),
                    },
                },
            }
        };
        self.run_skill(call, skill, ready).await
    }

    /// Makes arguments ready, or says why the call is refused.
    async fn ready(
        &self,
        call: &ReplyCall,
        skill: &v1::Skill,
        arguments: &str,
        is_edited: bool,
    ) -> Result<Result<Ready, Outcome>, AgentError> {
        let written = if arguments.trim().is_empty() { "{}" } else { arguments };
        let resolved = {
            let state = self.state();
            resolve(written, &|id| state.result(id))
        };
        let resolved = match resolved {
            Ok(resolved) => resolved,
            Err(reason) => return Ok(Err(Outcome::failure(ErrorCode::InvalidArgument, reason))),
        };
        if skill.agent.is_some() && self.secrets.are_in(&resolved) {
            return Ok(Err(forbidden(
                "a secret can't be given to an agent, whose model would read it: call the tool that needs it yourself",
            )));
        }
        let revealed = match self.secrets.reveal(&resolved) {
            Ok(revealed) => revealed,
            Err(missing) => match self.ask_again(call, missing, &resolved).await? {
                Some(revealed) => revealed,
                None => return Ok(Err(forbidden("the user did not give the secret again"))),
            },
        };
        let policy = if is_edited { ArgumentPolicy::Strict } else { ArgumentPolicy::Unspecified };
        let request = self.request(&skill.id, &call.id, revealed, policy);
        let prepared = match self.shared.skills.prepare(&self.caller, request).await {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(Outcome::failure(ErrorCode::Unavailable, error.to_string()))),
        };
        if let Some(error) = prepared.error {
            return Ok(Err(error.into()));
        }
        let shown = self.secrets.refer(&prepared.arguments_json);
        Ok(Ok(Ready {
            version: prepared.version,
            arguments: prepared.arguments_json,
            shown,
            repairs: prepared.repairs,
        }))
    }

    /// Asks the user for secrets that were lost with the process.
    async fn ask_again(&self, call: &ReplyCall, missing: Missing, json: &str) -> Result<Option<String>, AgentError> {
        let questions = missing.0.into_iter().map(|name| Question {
            text: format!("the secret {name}, again: the agent restarted, and keeps secrets in memory only"),
            id: name,
            kind: QuestionKind::Secret,
            required: true,
            ..Question::default()
        });
        let questions: Vec<_> = questions.filter(|it| it.id.contains('/')).collect();
        if questions.is_empty() {
            return Ok(None);
        }
        let answered = self.question(&call.id, "a secret is needed again", questions).await?;
        Ok(answered.and_then(|_| self.secrets.reveal(json).ok()))
    }

    /// The first result again, if this call is identical to the last one.
    fn replay(&self, call: &ReplyCall, skill: &v1::Skill, ready: &Ready) -> Option<Called> {
        if skill.repeatable {
            return None;
        }
        let state = self.state();
        let first = state.same_as_last(&skill.id, &ready.shown)?;
        let mut outcome = first.outcome.clone();
        outcome.warnings.push(format!(
            "not called again: this call is identical to {}, and this is its result. Another identical call ends the calls.",
            first.call_id
        ));
        Some(Called { replays: first.call_id.clone(), untrusted: first.untrusted, ..failed(call, &skill.id, outcome) })
    }

    /// Asks for approval, unless the user was asked about this very call, and waits for the decision.
    async fn approval(
        &self,
        call: &ReplyCall,
        skill: &v1::Skill,
        ready: &Ready,
        reason: &str,
    ) -> Result<Verdict, AgentError> {
        let standing = {
            let state = self.state();
            let asked = state.approval_of(&call.id);
            let is_same = |it: &&ApprovalAsked| it.version == ready.version && it.arguments == ready.shown;
            asked.filter(is_same).map(|it| (it.request_id.clone(), it.expires_us))
        };
        let (request_id, expires_us) = match standing {
            Some(standing) => standing,
            None => {
                let lifetime = u64::try_from(self.shared.config.question_lifetime.as_micros()).unwrap_or(u64::MAX);
                let asked = ApprovalAsked {
                    request_id: request_id("a"),
                    call_id: call.id.clone(),
                    skill_id: skill.id.clone(),
                    version: ready.version.clone(),
                    arguments: ready.shown.clone(),
                    repairs: ready.repairs.iter().cloned().map(Into::into).collect(),
                    reason: reason.to_owned(),
                    expires_us: now_us().saturating_add(lifetime),
                    tainted: self.state().is_tainted(),
                };
                let standing = (asked.request_id.clone(), asked.expires_us);
                self.write(vec![Entry::ApprovalAsked(asked)]).await?;
                standing
            }
        };
        let expired = || denied(request_id.clone(), "nobody decided in time");
        let decided = self.wait_for(expires_us, expired, |state| state.decision(&request_id).cloned()).await?;
        Ok(match decided.decision {
            Decided::Allow | Decided::AllowConversation => Verdict::Allowed,
            Decided::Edit => Verdict::Edited(decided.arguments),
            Decided::Deny => Verdict::Denied(decided.reason),
        })
    }

    /// Writes that the call begins, runs it, and relays its questions to the user.
    async fn run_skill(&self, call: &ReplyCall, skill: &v1::Skill, ready: Ready) -> Result<Called, AgentError> {
        let calling = Calling {
            call_id: call.id.clone(),
            skill_id: skill.id.clone(),
            version: ready.version,
            name: call.name.clone(),
            arguments: ready.shown,
            repairs: ready.repairs.into_iter().map(Into::into).collect(),
            is_idempotent: skill.idempotent,
        };
        if skill.agent.is_some() && self.state().delegation().max_iterations == Some(0) {
            return Ok(over_limit(call, &skill.id, "max_iterations"));
        }
        if let Err(limit) = self.begin(calling).await? {
            return Ok(over_limit(call, &skill.id, limit));
        }
        let mut request = self.request(&skill.id, &call.id, ready.arguments, ArgumentPolicy::Unspecified);
        request.interactive = self.delegated.is_none();
        // Nothing else runs meanwhile: what is left is left when it ends.
        let granted = skill.agent.is_some().then(|| self.state().delegation());
        request.delegation = granted;
        let left = self.state().time_left().as_millis().max(1);
        request.timeout_ms = u32::try_from(left).unwrap_or(u32::MAX);
        let begun = Instant::now();
        let result = self.invoke(&call.id, request).await?;
        let latency_ms = begun.elapsed().as_secs_f64() * 1e3;
        self.keep_pictures(&call.id, &result.artifacts).await;
        let error = result.error.as_ref();
        let unknown =
            error.is_some_and(|it| it.may_have_run && it.code() == ErrorCode::Unavailable && !skill.idempotent);
        let said = result.meta.as_ref().and_then(|meta| meta.agent);
        let untrusted = skill.untrusted || said.is_some_and(|it| it.untrusted);
        // A sub-agent that was lost may have used all that it was granted: only then does the budget hold for certain.
        let lost = granted.filter(|_| error.is_some_and(|it| it.may_have_run)).map(Used::whole);
        let used = said.map(Into::into).or(lost);
        Ok(Called { latency_ms, untrusted, unknown, used, ..failed(call, &skill.id, result.into()) })
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
        self.hands().running += 1;
        let _running = Running(self);
        loop {
            tokio::select! {
                result = &mut invoked => return Ok(result),
                Some(required) = asked.recv() => relayed.push(self.relay(call_id, required)),
                Some(done) = relayed.next() => { let done: Result<(), AgentError> = done; done? }
            }
        }
    }

    /// Asks the user what a running call asks, and answers the call.
    async fn relay(&self, call_id: &str, required: InputRequired) -> Result<(), AgentError> {
        let questions = from_schema(&required.schema_json);
        let answers = self.question(call_id, &required.message, questions).await?;
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
        // A call that ended meanwhile does not wait any more.
        if let Err(error) = self.shared.skills.answer(&self.caller, response).await {
            tracing::warn!(conversation = self.conversation, %error, "an answer did not reach its call");
        }
        Ok(())
    }

    /// Answers as the content that a skill expects, with secrets.
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
        let message = self.secrets.conceal(&progress.message);
        let shown = v1::ToolProgress { call_id: call_id.to_owned(), fraction: progress.fraction, message };
        self.shared.journal.show(&self.conversation, Event::Progress(shown));
    }

    /// A request for a call of this conversation.
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

/// A call at the gateway.
struct Running<'a>(&'a Turn);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.hands().running -= 1;
    }
}

fn forbidden(message: &str) -> Outcome {
    Outcome::failure(ErrorCode::PermissionDenied, message)
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
