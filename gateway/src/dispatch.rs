//! Brings a call to a worker, and to another one where that is safe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::v1::{Blame, ErrorCode, ExecuteResult, SkillError};

use crate::catalog::Entry;
use crate::gateway::Gateway;
use crate::outcome::Outcome;
use crate::relay::Listener;
use crate::workers::affinity::SessionKey;
use crate::workers::attempt::{Attempt, AttemptError, Refusal};
use crate::workers::pick::{Candidate, Nobody, Wanted, pick};
use crate::workers::{Presence, Worker};

/// How many workers a call may be brought to.
const MAX_ATTEMPTS: u32 = 3;

/// Before a skill runs again: at first, then twice as long each time, and as much again by chance.
const BACK_OFF: Duration = Duration::from_millis(10);

/// So much of its time a skill must have had for a time-out to be its own.
const ALL_OF_ITS_TIME: f64 = 0.9;

/// A call on its way to a worker.
pub(crate) struct Run<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) entry: &'a Entry,
    pub(crate) attempt: Attempt<'a>,
    pub(crate) shard: usize,
    pub(crate) listener: Option<&'a Listener>,
    /// The time that the skill is granted.
    pub(crate) granted: Duration,
    /// The caller gave it less.
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
    run.to_end().await
}

/// Why there is no worker for the next attempt.
enum NoWorker {
    /// What the session had is lost. The caller has to hear of it.
    SessionGone(SkillError),
    Other(SkillError),
}

/// A worker for an attempt.
struct Chosen {
    candidate: Candidate,
    /// It holds the call's session, or does if the call begins there.
    holds: bool,
}

impl Run<'_> {
    async fn to_end(&self) -> Outcome {
        let mut tried: Vec<Arc<Worker>> = Vec::new();
        let mut outcome = Outcome::failed(unavailable());
        while outcome.attempts < MAX_ATTEMPTS {
            let Chosen { candidate, holds } = match self.choose(&tried) {
                Ok(chosen) => chosen,
                Err(NoWorker::SessionGone(error)) if !outcome.may_have_run => {
                    return Outcome { attempts: outcome.attempts, ..Outcome::failed(error) };
                }
                Err(NoWorker::Other(error)) if outcome.attempts == 0 => return Outcome::failed(error),
                // What happened at the workers that were asked says more.
                Err(_) => break,
            };
            outcome.attempts += 1;
            let worker = &candidate.worker;
            let step = self.at(&candidate).await;
            if holds {
                let began = !matches!(step, Step::Elsewhere(_));
                self.gateway.affinity.settle(&self.session_key(), &worker.instance(), began);
            }
            match step {
                Step::Over(result) => {
                    return Outcome { result, may_have_run: true, ..outcome };
                }
                Step::Elsewhere(error) => {
                    // What a skill that ran said counts for more.
                    if !outcome.may_have_run {
                        outcome.result = ExecuteResult { worker_id: worker.id(), ..failed(error) };
                    }
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
    fn choose(&self, tried: &[Arc<Worker>]) -> Result<Chosen, NoWorker> {
        let now = Instant::now();
        let left = self.attempt.deadline.saturating_duration_since(now);
        if left.is_zero() {
            let error = SkillError::new(ErrorCode::Timeout, "the deadline passed before a worker took the call");
            let blame = if self.shortened { Blame::Caller } else { Blame::Gateway };
            return Err(NoWorker::Other(error.with_blame(blame)));
        }
        // Workers may have come since the call began.
        let again = if tried.is_empty() { None } else { self.gateway.catalog.get(&self.entry.skill.id) };
        let candidates = again.as_ref().map_or(&self.entry.candidates, |entry| &entry.candidates);
        let wanted = Wanted { tried, left, adaptive: self.gateway.config.adaptive_limit, now };
        if self.entry.skill.session_affinity && !self.attempt.call.session_id.is_empty() {
            return self.holder(candidates, wanted);
        }
        let picked = pick(candidates, wanted).cloned();
        picked.map(|candidate| Chosen { candidate, holds: false }).map_err(|nobody| NoWorker::Other(nobody.into()))
    }

    /// The worker that holds the session; one that is to hold it, if it is new.
    fn holder(&self, candidates: &[Candidate], wanted: Wanted<'_>) -> Result<Chosen, NoWorker> {
        let (key, affinity) = (self.session_key(), &self.gateway.affinity);
        let Some(instance) = affinity.holder(&key) else {
            let candidate = affinity.hold(&key, candidates, wanted).map_err(|nobody| NoWorker::Other(nobody.into()))?;
            return Ok(Chosen { candidate, holds: true });
        };
        let of_holder: Vec<_> = candidates.iter().filter(|it| it.worker.instance() == instance).cloned().collect();
        match self.gateway.workers.presence(&instance) {
            Presence::Serving if !of_holder.is_empty() => match pick(&of_holder, wanted) {
                Ok(candidate) => Ok(Chosen { candidate: candidate.clone(), holds: true }),
                Err(Nobody::HasRoom) => Err(NoWorker::Other(Nobody::HasRoom.into())),
                Err(Nobody::IsUp) => Err(NoWorker::Other(away())),
            },
            Presence::Away => Err(NoWorker::Other(away())),
            // It is no more, or offers the skill no more.
            Presence::Serving | Presence::Gone => {
                affinity.release(&key);
                let message =
                    "the worker that held this session is gone, and what the session had there with it: begin anew";
                let error = SkillError { retryable: false, ..SkillError::new(ErrorCode::Unavailable, message) };
                Err(NoWorker::SessionGone(error))
            }
        }
    }

    /// What the session's state belongs to: skills of one toolset share it.
    fn session_key(&self) -> SessionKey {
        let skill = &self.entry.skill;
        let group = if skill.toolset.is_empty() { &skill.id } else { &skill.toolset };
        SessionKey::new(&self.attempt.call.session_id, group)
    }

    /// One attempt.
    async fn at(&self, candidate: &Candidate) -> Step {
        let (worker, begun) = (&candidate.worker, Instant::now());
        let mut ended = self.attempt.run(candidate, self.gateway, self.shard, self.listener).await;
        if let Ok(result) = &mut ended {
            self.excuse(result, begun);
        }
        match ended {
            Ok(result) if is_worth_another_run(&result) => Step::Again(result),
            Ok(result) => Step::Over(result),
            Err(AttemptError::Overdue) => {
                Step::Over(ExecuteResult { worker_id: worker.id(), ..failed(self.overdue()) })
            }
            Err(AttemptError::NotStarted { reason, refusal }) => {
                tracing::info!(endpoint = %worker.endpoint, reason, "not started, trying another worker");
                Step::Elsewhere(match refusal {
                    Refusal::Full => SkillError::overloaded("the workers are full"),
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

    /// A skill that was ended before it had the time it is granted is not to blame: its caller was in a hurry, or the time
    /// went by in queues and at other workers.
    fn excuse(&self, result: &mut ExecuteResult, begun: Instant) {
        let had = begun.elapsed().saturating_sub(Duration::from_micros(result.queued_us));
        let Some(error) = &mut result.error else { return };
        let timed_out = matches!(error.code(), ErrorCode::Timeout | ErrorCode::McpTimeout);
        if timed_out && error.blame() == Blame::Skill && had < self.granted.mul_f64(ALL_OF_ITS_TIME) {
            error.set_blame(if self.shortened { Blame::Caller } else { Blame::Gateway });
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

/// Whether the same call may do better. After a time-out there is no time for it.
fn is_worth_another_run(result: &ExecuteResult) -> bool {
    result.error.as_ref().is_some_and(|error| error.retryable && error.code() != ErrorCode::Timeout)
}

impl From<Nobody> for SkillError {
    fn from(nobody: Nobody) -> Self {
        match nobody {
            Nobody::IsUp => unavailable(),
            Nobody::HasRoom => SkillError::overloaded("the workers are full"),
        }
    }
}

/// The worker that holds a session can't be asked now.
fn away() -> SkillError {
    let message = "the worker that holds this session does not take calls now: try again";
    SkillError::unavailable(message)
}

fn unavailable() -> SkillError {
    SkillError::unavailable("no worker takes this call now")
}

fn failed(error: SkillError) -> ExecuteResult {
    ExecuteResult { error: Some(error), ..ExecuteResult::default() }
}
