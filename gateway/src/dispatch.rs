//! Brings a call to a worker, and to another one where that is safe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::v1::{Blame, ErrorCode, ExecuteResult, SkillError};

use crate::catalog::Entry;
use crate::gateway::Gateway;
use crate::outcome::Outcome;
use crate::relay::Listener;
use crate::workers::Worker;
use crate::workers::attempt::{Attempt, AttemptError, Refusal};
use crate::workers::pick::{Candidate, Nobody, Wanted, pick};

/// How many workers a call may be brought to.
const MAX_ATTEMPTS: u32 = 3;

/// Before a skill runs again: at first, then twice as long each time, and as much again by chance.
const BACK_OFF: Duration = Duration::from_millis(10);

/// A call on its way to a worker.
pub(crate) struct Run<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) entry: &'a Entry,
    pub(crate) attempt: Attempt<'a>,
    pub(crate) shard: usize,
    pub(crate) listener: Option<&'a Listener>,
    /// The caller gave it less time than the skill is granted.
    pub(crate) shortened: bool,
}

/// What became of one attempt.
enum Step {
    /// The call is over.
    Over(ExecuteResult),
    /// The skill did not start, so the call may go to another worker.
    Elsewhere(SkillError),
    /// The skill ran, or may have. It may run again only if that does no harm.
    Again(ExecuteResult),
}

/// Runs the call on one of the skill's workers, hardly past its deadline.
pub(crate) async fn dispatch(run: Run<'_>) -> Outcome {
    run.gateway.retries.pay_in();
    let mut outcome = run.to_end().await;
    if let Some(error) = &mut outcome.result.error
        && run.shortened
        && error.code() == ErrorCode::Timeout
        && error.blame() == Blame::Skill
    {
        // Nobody knows whether the skill would have made it in the time that it is granted.
        error.set_blame(Blame::Caller);
    }
    outcome
}

impl Run<'_> {
    async fn to_end(&self) -> Outcome {
        let mut tried: Vec<Arc<Worker>> = Vec::new();
        let mut outcome = Outcome::failed(SkillError::new(ErrorCode::Unavailable, "no worker takes this call now"));
        while outcome.attempts < MAX_ATTEMPTS {
            let candidate = match self.choose(&tried) {
                Ok(candidate) => candidate,
                // What happened at the workers that were asked says more.
                Err(_) if outcome.attempts > 0 => break,
                Err(error) => return Outcome::failed(error),
            };
            outcome.attempts += 1;
            let worker = &candidate.worker;
            match self.at(&candidate).await {
                Step::Over(result) => {
                    return Outcome { result, may_have_run: true, ..outcome };
                }
                Step::Elsewhere(error) => {
                    outcome.result = ExecuteResult { worker_id: worker.id(), ..failed(error) };
                    tried.push(Arc::clone(worker));
                }
                Step::Again(result) => {
                    let is_workers = result.error.as_ref().is_some_and(|error| error.blame() == Blame::Worker);
                    outcome.result = result;
                    outcome.may_have_run = true;
                    if !self.may_run_again() {
                        break;
                    }
                    if is_workers {
                        tried.push(Arc::clone(worker));
                    }
                    self.pause(outcome.attempts).await;
                }
            }
        }
        outcome
    }

    /// The worker for the next attempt.
    fn choose(&self, tried: &[Arc<Worker>]) -> Result<Candidate, SkillError> {
        let now = Instant::now();
        let left = self.attempt.deadline.saturating_duration_since(now);
        if left.is_zero() {
            let error = SkillError::new(ErrorCode::Timeout, "the deadline passed before a worker took the call");
            return Err(error.with_blame(if self.shortened { Blame::Caller } else { Blame::Gateway }));
        }
        let session = &self.attempt.request.session_id;
        if self.entry.skill.session_affinity && !session.is_empty() {
            return self.holder(session, tried);
        }
        let wanted = Wanted { tried, left, adaptive: self.gateway.config.adaptive_limit, now };
        // Workers may have come since the call began.
        let again = if tried.is_empty() { None } else { self.gateway.catalog.get(&self.entry.skill.id) };
        let candidates = again.as_ref().map_or(&self.entry.candidates, |entry| &entry.candidates);
        pick(candidates, wanted).cloned().map_err(|nobody| match nobody {
            Nobody::IsUp => unavailable(),
            Nobody::HasRoom => full("the workers are full"),
        })
    }

    /// The worker that holds the session.
    fn holder(&self, session: &str, tried: &[Arc<Worker>]) -> Result<Candidate, SkillError> {
        let skill = &self.entry.skill;
        let group = if skill.toolset.is_empty() { &skill.id } else { &skill.toolset };
        let candidates = &self.entry.candidates;
        let workers = candidates.iter().map(|it| Arc::clone(&it.worker));
        let holder = self.gateway.affinity.choose(session, group, workers).map_err(|_| {
            let message =
                "the worker that held this session is gone, and what the session had there with it: begin anew";
            SkillError { retryable: false, ..SkillError::new(ErrorCode::Unavailable, message) }
        })?;
        let is_holder = |it: &&Candidate| holder.as_ref().is_some_and(|holder| Arc::ptr_eq(holder, &it.worker));
        let was_tried = |it: &Candidate| tried.iter().any(|tried| Arc::ptr_eq(tried, &it.worker));
        candidates.iter().find(is_holder).filter(|it| !was_tried(it)).cloned().ok_or_else(unavailable)
    }

    /// One attempt.
    async fn at(&self, candidate: &Candidate) -> Step {
        let worker = &candidate.worker;
        match self.attempt.run(candidate, self.gateway, self.shard, self.listener).await {
            Ok(result)
                if result.error.as_ref().is_some_and(|error| error.retryable && error.code() != ErrorCode::Timeout) =>
            {
                Step::Again(result)
            }
            Ok(result) => Step::Over(result),
            Err(AttemptError::Overdue) => {
                Step::Over(ExecuteResult { worker_id: worker.id(), ..failed(self.overdue()) })
            }
            Err(AttemptError::NotStarted { reason, refusal }) => {
                tracing::info!(endpoint = %worker.endpoint, reason, "not started, trying another worker");
                Step::Elsewhere(match refusal {
                    Refusal::Full => full("the workers are full"),
                    Refusal::Declined | Refusal::Unreachable => unavailable(),
                })
            }
            Err(AttemptError::Lost { reason }) => {
                tracing::warn!(endpoint = %worker.endpoint, reason, "a worker was lost during a call");
                let message = "the worker was lost while the skill may have been running";
                let error = SkillError::new(ErrorCode::Unavailable, message);
                Step::Again(ExecuteResult { worker_id: worker.id(), ..failed(error) })
            }
        }
    }

    /// Whether a skill that ran may run once more.
    fn may_run_again(&self) -> bool {
        // Events of a first run can't be taken back.
        let unheard = !self.listener.is_some_and(Listener::has_relayed);
        let may = self.entry.skill.idempotent && unheard && self.gateway.retries.take();
        if may {
            self.gateway.metrics.rerun();
        }
        may
    }

    async fn pause(&self, attempts: u32) {
        let least = BACK_OFF * 2_u32.pow(attempts.min(8) - 1);
        let pause = least + rand::random_range(Duration::ZERO..least);
        let until = (Instant::now() + pause).min(self.attempt.deadline);
        tokio::time::sleep_until(until.into()).await;
    }

    /// Who is to blame that there is still no result.
    fn overdue(&self) -> SkillError {
        if self.listener.is_some_and(Listener::is_held_up) {
            let message = "the deadline passed while the client did not read the call's events";
            SkillError::new(ErrorCode::Timeout, message).with_blame(Blame::Caller)
        } else {
            SkillError::new(ErrorCode::Timeout, "the worker did not answer in time").with_blame(Blame::Worker)
        }
    }
}

fn unavailable() -> SkillError {
    SkillError::new(ErrorCode::Unavailable, "no worker takes this call now").with_retry_after_ms(500)
}

/// There is no place for a call.
pub(crate) fn full(message: &str) -> SkillError {
    SkillError::new(ErrorCode::Overloaded, message).with_retry_after_ms(1000)
}

fn failed(error: SkillError) -> ExecuteResult {
    ExecuteResult { error: Some(error), ..ExecuteResult::default() }
}
