//! The calls of a reply, each brought to exactly one result.

use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, TryStreamExt as _};
use openskill_proto::v1::ErrorCode;

use super::Turn;
use super::approval::{Need, Standing, need};
use super::toolbox::{Target, Toolbox};
use crate::entry::{Called, Calling, Definition, Entry, Outcome, ReplyCall};
use crate::error::{AgentError, Bound};

/// How often skills that may still come are asked for.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// How many calls of a reply run at once.
const MAX_PARALLEL: usize = 8;

impl Turn {
    /// Brings these calls to their results: harmless ones in parallel, all others one by one, in order.
    pub(super) async fn settle(&self, calls: Vec<ReplyCall>) -> Result<(), AgentError> {
        let toolbox = self.toolbox_with(&calls).await?;
        let mut rest = calls.as_slice();
        while let Some(first) = rest.first() {
            let together = if self.is_harmless(first, &toolbox) {
                let more = rest.iter().skip(1).take(MAX_PARALLEL - 1);
                1 + more
                    .enumerate()
                    .take_while(|(i, call)| self.is_harmless(call, &toolbox) && !repeats(call, &rest[..=*i]))
                    .count()
            } else {
                1
            };
            let (batch, later) = rest.split_at(together);
            self.settle_together(batch, &toolbox).await?;
            rest = later;
        }
        Ok(())
    }

    /// The tools, once there are some and they have what these calls name, or nothing more will come.
    pub(super) async fn toolbox_with(&self, calls: &[ReplyCall]) -> Result<Toolbox, AgentError> {
        loop {
            let toolbox = self.toolbox().await?;
            let is_missing = |it: &ReplyCall| matches!(toolbox.target(&it.name), Target::Unknown(_));
            let may_come = self.skills_come_until.is_some_and(|until| Instant::now() < until);
            if !may_come || !toolbox.is_empty() && !calls.iter().any(is_missing) {
                return Ok(toolbox);
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    async fn settle_together(&self, calls: &[ReplyCall], toolbox: &Toolbox) -> Result<(), AgentError> {
        self.hands().calls = calls.len();
        let _batch = Batch(self);
        // Nothing is awaited beside the calls: one that is not polled might hold what the others wait for.
        let settling: FuturesUnordered<_> = calls.iter().map(|call| self.settle_one(call, toolbox)).collect();
        settling.try_collect().await
    }

    async fn settle_one(&self, call: &ReplyCall, toolbox: &Toolbox) -> Result<(), AgentError> {
        let begun = Instant::now();
        let called = match toolbox.target(&call.name) {
            Target::Own(tool) => self.call_own(call, tool).await?,
            Target::Skill(skill) => self.call_skill(call, skill).await?,
            Target::Unknown(_) if self.state().is_lost(&call.id) => lost(call),
            Target::Unknown(message) => failed(call, "", Outcome::failure(ErrorCode::NotFound, message)),
        };
        let latency_ms = if called.latency_ms > 0.0 { called.latency_ms } else { begun.elapsed().as_secs_f64() * 1e3 };
        let (skill_id, called) = (called.skill_id.clone(), Called { latency_ms, ..called });
        let written = self.write(vec![Entry::Called(called)]).await;
        if written == Err(AgentError::Full(Bound::Event)) {
            let message = "the call ran, but its result is too large for a conversation: ask for less";
            let outcome = Outcome::failure(ErrorCode::OutputTooLarge, message);
            self.write(vec![Entry::Called(Called { latency_ms, ..failed(call, &skill_id, outcome) })]).await?;
        } else {
            written?;
        }
        self.hands().calls -= 1;
        // Those that are left may all wait for the user.
        self.note_waiting().await
    }

    /// Whether a call runs beside others: nobody is asked, and nothing is destroyed.
    fn is_harmless(&self, call: &ReplyCall, toolbox: &Toolbox) -> bool {
        let Target::Skill(skill) = toolbox.target(&call.name) else { return false };
        // A sub-agent uses what is left of the turn: two at once could use it twice.
        skill.agent.is_none()
            && !skill.destructive
            // What a session keeps, such as a page, is changed in the order of the calls.
            && (skill.read_only || !skill.session_affinity)
            && need(skill, self.standing(&skill.into())) == Need::Nothing
    }

    /// What the conversation allows for a skill.
    pub(super) fn standing(&self, definition: &Definition) -> Standing {
        let state = self.state();
        Standing {
            mode: state.started().map(|it| it.mode).unwrap_or_default(),
            is_tainted: state.is_tainted() && !self.delegated.as_ref().is_some_and(|it| it.acts_on_untrusted),
            is_granted: state.is_granted(definition),
        }
    }

    /// Writes that a call begins, unless a limit forbids it. A call that began before, as it is, is not written again.
    ///
    /// # Errors
    /// The limit, or the log can't be written.
    pub(super) async fn begin(&self, calling: Calling) -> Result<Result<(), &'static str>, AgentError> {
        // The check and the entry are one step: calls that run in parallel share the turn's bounds.
        let writing = self.lock().await;
        let limit = {
            let state = self.state();
            match state.begun(&calling.call_id) {
                Some(begun) if begun.arguments == calling.arguments && is_same(begun, &calling) => return Ok(Ok(())),
                Some(_) => None,
                None if calling.version.is_empty() => None,
                None => state.call_limit(),
            }
        };
        match limit {
            Some(limit) => Ok(Err(limit)),
            None => self.append(writing, vec![Entry::Calling(calling)]).await.map(Ok),
        }
    }
}

fn is_same(one: &Calling, other: &Calling) -> bool {
    Definition::from(one) == other.into()
}

/// The outcome of a call that may not run.
pub(super) fn forbidden(message: &str) -> Outcome {
    Outcome::failure(ErrorCode::PermissionDenied, message)
}

/// A call that has its result without running.
pub(super) fn failed(call: &ReplyCall, skill_id: &str, outcome: Outcome) -> Called {
    Called {
        call_id: call.id.clone(),
        skill_id: skill_id.to_owned(),
        name: call.name.clone(),
        outcome,
        ..Called::default()
    }
}

/// The result of a call that ran when the agent stopped.
pub(super) fn lost(call: &ReplyCall) -> Called {
    let message = "the agent restarted while this call ran: it may have had its effect, or not. \
                   Do not call it again before you know; tell the user.";
    let outcome = Outcome::failure(ErrorCode::Unavailable, message);
    Called { unknown: true, ..failed(call, "", outcome) }
}

/// A call that a limit forbids.
pub(super) fn over_limit(call: &ReplyCall, skill_id: &str, limit: &str) -> Called {
    let message = format!("not called: the turn reached its limit {limit}. Answer with what you know.");
    failed(call, skill_id, Outcome::failure(ErrorCode::Overloaded, message))
}

/// Whether a call repeats one before it: then it waits for that one's result.
fn repeats(call: &ReplyCall, before: &[ReplyCall]) -> bool {
    before.iter().any(|it| it.name == call.name && it.arguments.trim() == call.arguments.trim())
}

/// The calls that are settled together. However that ends, nobody works on them afterwards.
struct Batch<'a>(&'a Turn);

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.0.hands().calls = 0;
    }
}
