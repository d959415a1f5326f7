//! Settles the calls of a reply, so that each gets exactly one result.

use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, TryStreamExt as _};
use openskill_model::ModelCall;
use openskill_proto::v1::ErrorCode;

use super::approval::{ApprovalContext, Need, need};
use super::toolbox::{Target, Toolbox};
use super::{LeaveOnDrop, Turn};
use crate::entry::{Called, Calling, Entry, Outcome, SkillRevision};
use crate::error::{AgentError, Bound};

/// How often a turn checks for skills that may not have appeared yet.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The maximum number of a reply's calls that run in parallel.
const MAX_PARALLEL: usize = 8;

impl Turn {
    /// Runs these calls: harmless calls in parallel, all others sequentially in order.
    pub(super) async fn settle(&self, calls: Vec<ModelCall>) -> Result<(), AgentError> {
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

    /// Returns the tools of this step. After a restart, waits until skills are available that include those of the
    /// calls, or until the time limit.
    pub(super) async fn toolbox_with(&self, calls: &[ModelCall]) -> Result<Toolbox, AgentError> {
        loop {
            let toolbox = self.toolbox().await?;
            let is_missing = |it: &ModelCall| matches!(toolbox.target(&it.name), Target::Unknown(_));
            let may_come = self.skills_come_until.is_some_and(|until| Instant::now() < until);
            if !may_come || !toolbox.is_empty() && !calls.iter().any(is_missing) {
                return Ok(toolbox);
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    async fn settle_together(&self, calls: &[ModelCall], toolbox: &Toolbox) -> Result<(), AgentError> {
        self.pending_calls.lock().calls = calls.len();
        // Reset the count even if settling fails or is cancelled.
        let _batch = LeaveOnDrop { turn: self, leave: |pending| pending.calls = 0 };
        // Poll only the calls until all are done. Awaiting anything else here would leave calls unpolled that may
        // hold a lock others wait for.
        let settling: FuturesUnordered<_> = calls.iter().map(|call| self.settle_one(call, toolbox)).collect();
        settling.try_collect().await
    }

    async fn settle_one(&self, call: &ModelCall, toolbox: &Toolbox) -> Result<(), AgentError> {
        let begun = Instant::now();
        let called = match toolbox.target(&call.name) {
            Target::Builtin(tool) => self.call_builtin(call, tool).await?,
            Target::Skill(skill) => self.call_skill(call, skill).await?,
            Target::Unknown(_) if self.state.lock().is_lost(&call.id) => lost_result(call),
            Target::Unknown(message) => call_result(call, "", Outcome::failure(ErrorCode::NotFound, message)),
        };
        let latency_ms = if called.latency_ms > 0.0 { called.latency_ms } else { begun.elapsed().as_secs_f64() * 1e3 };
        let (skill_id, called) = (called.skill_id.clone(), Called { latency_ms, ..called });
        let written = self.write(vec![Entry::Called(called)]).await;
        if written == Err(AgentError::Full(Bound::Event)) {
            let message = "the call ran, but its result is too large for a conversation: ask for less";
            let outcome = Outcome::failure(ErrorCode::OutputTooLarge, message);
            self.write(vec![Entry::Called(Called { latency_ms, ..call_result(call, &skill_id, outcome) })]).await?;
        } else {
            written?;
        }
        self.pending_calls.lock().calls -= 1;
        // All remaining calls may be waiting for the user.
        self.note_waiting().await
    }

    /// Returns whether a call may run in parallel with others: it needs no approval, is not destructive, and uses
    /// no shared budget or session.
    fn is_harmless(&self, call: &ModelCall, toolbox: &Toolbox) -> bool {
        let Target::Skill(skill) = toolbox.target(&call.name) else { return false };
        // A sub-agent may use all that remains of the turn's limits. Two sub-agents at once could use it twice.
        skill.agent.is_none()
            && !skill.destructive
            // Changes to a session, such as to a page, must happen in the order of the calls.
            && (skill.read_only || !skill.session_affinity)
            && need(skill, self.approval_context(&skill.into())) == Need::Nothing
    }

    /// Returns the inputs of the decision whether a skill needs approval.
    pub(super) fn approval_context(&self, revision: &SkillRevision) -> ApprovalContext {
        let state = self.state.lock();
        ApprovalContext {
            mode: state.turn_start().map(|it| it.mode).unwrap_or_default(),
            is_tainted: state.is_tainted && !self.delegated.as_ref().is_some_and(|it| it.acts_on_untrusted),
            is_granted: state.is_granted(revision),
        }
    }

    /// Writes the beginning of a call to the log, unless a limit forbids the call. Does not write it again if the
    /// call has already begun with the same arguments and revision. The inner error is the name of the limit.
    ///
    /// # Errors
    /// The log can't be written.
    pub(super) async fn begin(&self, calling: Calling) -> Result<Result<(), &'static str>, AgentError> {
        // Check the limit and write the entry in one step, because parallel calls share the turn's limits.
        let writing = self.lock().await;
        let limit = {
            let state = self.state.lock();
            match state.begun_call(&calling.call_id) {
                Some(begun) if begun.arguments == calling.arguments && begun.skill == calling.skill => {
                    return Ok(Ok(()));
                }
                Some(_) => None,
                None if calling.skill.version.is_empty() => None,
                None => state.call_limit(),
            }
        };
        match limit {
            Some(limit) => Ok(Err(limit)),
            None => self.append(writing, vec![Entry::Calling(calling)]).await.map(Ok),
        }
    }
}

/// Returns the outcome of a call that is not permitted.
pub(super) fn forbidden(message: &str) -> Outcome {
    Outcome::failure(ErrorCode::PermissionDenied, message)
}

/// Returns the result of a call with this outcome.
pub(super) fn call_result(call: &ModelCall, skill_id: &str, outcome: Outcome) -> Called {
    Called {
        call_id: call.id.clone(),
        skill_id: skill_id.to_owned(),
        name: call.name.clone(),
        outcome,
        ..Called::default()
    }
}

/// Returns the result of a call that was running when the agent stopped.
pub(super) fn lost_result(call: &ModelCall) -> Called {
    let message = "the agent restarted while this call ran: it may have had its effect, or not. \
                   Do not call it again before you know; tell the user.";
    let outcome = Outcome::failure(ErrorCode::Unavailable, message);
    Called { unknown: true, ..call_result(call, "", outcome) }
}

/// Returns the result of a call that a limit forbids.
pub(super) fn over_limit(call: &ModelCall, skill_id: &str, limit: &str) -> Called {
    let message = format!("not called: the turn reached its limit {limit}. Answer with what you know.");
    call_result(call, skill_id, Outcome::failure(ErrorCode::Overloaded, message))
}

/// Returns whether a call repeats one of the calls before it. Such a call runs after them, so that it can get the
/// same result.
fn repeats(call: &ModelCall, before: &[ModelCall]) -> bool {
    before.iter().any(|it| it.name == call.name && it.arguments.trim() == call.arguments.trim())
}
