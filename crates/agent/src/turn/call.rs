//! One call of a skill: arguments made ready, the user's approval, the call, its questions, its result.

use std::time::Instant;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use openskill_proto::v1::{
    self, ArgumentPolicy, ErrorCode, InputAction, InputRequired, InvokeRequest, chat_event::Event, invoke_event,
    invoke_request::Arguments,
};
use tokio::sync::mpsc;

use super::approval::{Need, need};
use super::own::request_id;
use super::ready::{Ready, Wanted};
use super::settle::{failed, forbidden, lost, over_limit};
use super::user::denied;
use super::{Course, Turn};
use crate::clock::now_us;
use crate::context::elicitation::{from_schema, to_content};
use crate::entry::{ApprovalAsked, Called, Calling, Decided, Definition, Entry, Outcome, Question, ReplyCall, Used};
use crate::error::AgentError;

/// Questions of one call that may wait. The gateway lets a call ask no more at once.
const MAX_QUESTIONS: usize = 16;

/// The longest message of progress that is shown, in bytes.
const MAX_PROGRESS_BYTES: usize = 1 << 10;

/// How often a call is decided on again because its skill changes just before it runs.
const DECISIONS: u32 = 3;

impl Turn {
    /// Brings a call of a skill to its result.
    pub(super) async fn call_skill(&self, call: &ReplyCall, skill: &v1::Skill) -> Result<Called, AgentError> {
        let (is_resumed, is_lost) = match self.state().course(&call.id) {
            Course::Began(it) => (true, !it.is_idempotent || it.skill_id != skill.id),
            _ => (false, false),
        };
        if is_lost {
            return Ok(self.lost(call, skill));
        }
        for _ in 0..DECISIONS {
            let ready = match self.decided(call, skill, is_resumed).await? {
                Ok(ready) => ready,
                Err(called) => return Ok(called),
            };
            if let Some(called) = self.run_skill(call, ready).await? {
                return Ok(called);
            }
        }
        let message = "not called: the skill changes all the time. Try again later";
        Ok(failed(call, &skill.id, Outcome::failure(ErrorCode::Unavailable, message)))
    }

    /// Makes a call ready, once it is decided that it may run; or ends it. What was decided holds for the arguments and the
    /// definition that it was decided about: whatever changed since is decided again. `is_resumed`: it began, in a process
    /// that ended.
    async fn decided(
        &self,
        call: &ReplyCall,
        skill: &v1::Skill,
        is_resumed: bool,
    ) -> Result<Result<Ready, Called>, AgentError> {
        let end = |outcome: Outcome| Ok(Err(failed(call, &skill.id, outcome)));
        loop {
            let wanted = match self.wanted(call) {
                Ok(wanted) => wanted,
                Err(denied) => return end(forbidden(&denied)),
            };
            let ready = match self.ready(call, skill, &wanted).await? {
                Ok(ready) => ready,
                Err(outcome) => return end(outcome),
            };
            if is_resumed && !ready.skill.idempotent {
                return Ok(Err(self.lost(call, skill)));
            }
            if wanted.approved.as_ref() == Some(&ready.definition()) {
                return Ok(Ok(ready));
            }
            if let Some(called) = self.replay(call, &ready) {
                return Ok(Err(called));
            }
            match need(&ready.skill, self.standing(&ready.definition())) {
                Need::Nothing => return Ok(Ok(ready)),
                Need::OtherMode => {
                    return end(forbidden("the turn is read-only, and this tool is not marked read-only"));
                }
                Need::Approval(reason) if self.delegated.is_some() => return end(forbidden(&nobody_to_ask(reason))),
                Need::Approval(reason) => self.approval(call, ready, reason).await?,
            }
        }
    }

    /// What a call is to run with, and for which definition that is approved; or why the user denied it.
    fn wanted(&self, call: &ReplyCall) -> Result<Wanted, String> {
        let state = self.state();
        let approved = |arguments: &String, definition: Definition| {
            Ok(Wanted { arguments: arguments.clone(), is_final: true, approved: Some(definition) })
        };
        match state.course(&call.id) {
            Course::New => Ok(Wanted { arguments: call.arguments.clone(), is_final: false, approved: None }),
            Course::Began(it) => approved(&it.arguments, it.into()),
            Course::Asked(asked, None) => {
                Ok(Wanted { arguments: asked.arguments.clone(), is_final: true, approved: None })
            }
            Course::Asked(asked, Some(decided)) => match decided.decision {
                Decided::Allow | Decided::AllowConversation => approved(&asked.arguments, asked.into()),
                Decided::Edit => approved(&decided.arguments, asked.into()),
                Decided::Deny => Err(denial(&decided.reason)),
            },
        }
    }

    /// The end of a call that may have run before, and must not run again.
    fn lost(&self, call: &ReplyCall, skill: &v1::Skill) -> Called {
        let used = skill.agent.is_some().then(|| Used::whole(self.state().delegation()));
        Called { skill_id: skill.id.clone(), used, ..lost(call) }
    }

    /// The first result again, if this call is identical to the last one.
    fn replay(&self, call: &ReplyCall, ready: &Ready) -> Option<Called> {
        if ready.skill.repeatable {
            return None;
        }
        let state = self.state();
        let first = state.same_as_last(&ready.skill.id, &ready.shown)?;
        let mut outcome = first.outcome.clone();
        outcome.warnings.push(format!(
            "not called again: this call is identical to {}, and this is its result. Another identical call ends the calls.",
            first.call_id
        ));
        Some(Called {
            replays: first.call_id.clone(),
            untrusted: first.untrusted,
            ..failed(call, &ready.skill.id, outcome)
        })
    }

    /// Asks for approval, unless the user is asked about this very call, and waits for the decision.
    async fn approval(&self, call: &ReplyCall, ready: Ready, reason: &str) -> Result<(), AgentError> {
        let standing = match self.state().course(&call.id) {
            Course::Asked(asked, None) if Definition::from(asked) == ready.definition() => {
                (asked.arguments == ready.shown).then(|| (asked.request_id.clone(), asked.expires_us))
            }
            _ => None,
        };
        let (request_id, expires_us) = match standing {
            Some(standing) => standing,
            None => {
                let lifetime = u64::try_from(self.shared.config.question_lifetime.as_micros()).unwrap_or(u64::MAX);
                let (request_id, expires_us) = (request_id("a"), now_us().saturating_add(lifetime));
                let asked = ApprovalAsked {
                    request_id: request_id.clone(),
                    call_id: call.id.clone(),
                    skill_id: ready.skill.id,
                    version: ready.skill.version,
                    definition_hash: ready.skill.definition_hash,
                    arguments: ready.shown,
                    repairs: ready.repairs,
                    reason: reason.to_owned(),
                    expires_us,
                    tainted: self.state().is_tainted(),
                };
                // A request about what the call was before asks for nothing any more.
                let stale = self.state().open_approval_of(&call.id);
                let stale = stale.map(|id| denied(id, "the call changed: the user is asked again"));
                self.write(stale.into_iter().chain([Entry::ApprovalAsked(asked)]).collect()).await?;
                (request_id, expires_us)
            }
        };
        let expired = || denied(request_id.clone(), "nobody decided in time");
        self.wait_for(expires_us, expired, |state| state.decision(&request_id).map(drop)).await
    }

    /// Writes that the call begins, runs it, and relays its questions to the user.
    /// None: nothing ran, because the skill changed meanwhile.
    async fn run_skill(&self, call: &ReplyCall, ready: Ready) -> Result<Option<Called>, AgentError> {
        let skill = ready.skill;
        let calling = Calling {
            call_id: call.id.clone(),
            skill_id: skill.id.clone(),
            version: skill.version.clone(),
            definition_hash: skill.definition_hash.clone(),
            name: call.name.clone(),
            arguments: ready.shown,
            masked: ready.masked,
            repairs: ready.repairs,
            is_idempotent: skill.idempotent,
        };
        if skill.agent.is_some() && self.state().delegation().max_iterations == Some(0) {
            return Ok(Some(over_limit(call, &skill.id, "max_iterations")));
        }
        if let Err(limit) = self.begin(calling).await? {
            return Ok(Some(over_limit(call, &skill.id, limit)));
        }
        let mut request = self.request(&skill.id, &call.id, ready.arguments, ArgumentPolicy::Unspecified);
        request.definition_hash.clone_from(&skill.definition_hash);
        request.interactive = self.delegated.is_none();
        // Nothing else runs meanwhile: what is left is left when it ends.
        let granted = skill.agent.is_some().then(|| self.state().delegation());
        request.delegation = granted;
        let left = self.state().time_left().as_millis().max(1);
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
        // A sub-agent that was lost may have used all that it was granted: only then does the budget hold for certain.
        let lost = granted.filter(|_| error.is_some_and(|it| it.may_have_run)).map(Used::whole);
        let used = said.map(Into::into).or(lost);
        Ok(Some(Called { latency_ms, untrusted, unknown, used, ..failed(call, &skill.id, result.into()) }))
    }

    /// Whether a call was refused, and so did not run, because its skill has another definition now.
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
        let answers = self.question(call_id, &required.message, questions.clone()).await?;
        let answers = answers.map(|it| it.into_iter().map(|it| self.chosen(&questions, it)).collect());
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

    /// An answer that is an option as the skill wrote it, if that holds a secret.
    fn chosen(&self, questions: &[Question], (id, answer): (String, String)) -> (String, String) {
        let asked = questions.iter().find(|it| it.id == id);
        let option = asked.and_then(|it| it.options.iter().find(|option| self.secrets.conceal(option) == answer));
        (id, option.cloned().unwrap_or(answer))
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
        let mut message = self.secrets.conceal(&progress.message);
        message.truncate(message.floor_char_boundary(MAX_PROGRESS_BYTES));
        self.show(Event::Progress(v1::ToolProgress {
            call_id: call_id.to_owned(),
            fraction: progress.fraction,
            message,
        }));
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
