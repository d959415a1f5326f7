//! Chooses the worker for the next attempt.

use std::sync::Arc;
use std::time::Instant;

use openskill_proto::v1::{ErrorCode, SkillError};

use super::affinity::AffinityKey;
use super::attempt_end::AttemptEnd;
use super::pick::{Criteria, no_candidate, pick};
use crate::dispatch::context::CallContext;
use crate::workers::candidate::Candidate;
use crate::workers::worker::{Presence, Worker};

/// The worker that was chosen for an attempt.
pub(super) struct Chosen {
    pub(super) candidate: Candidate,
    /// Set if the call's session is assigned to the worker, or will be once the call starts there.
    holds: Option<AffinityKey>,
}

/// Why no worker is available for the next attempt.
pub(super) enum NoWorker {
    /// The session's state is lost, or is at a worker that can't run the call. The caller must learn this.
    Session(SkillError),
    /// No worker currently accepts the call.
    Now(SkillError),
}

/// Chooses a worker that the call has not tried yet.
pub(super) fn choose(context: &CallContext, tried: &[Arc<Worker>]) -> Result<Chosen, NoWorker> {
    let now = Instant::now();
    let left = context.deadline.saturating_duration_since(now);
    if left.is_zero() {
        let error = SkillError::new(ErrorCode::Timeout, "the deadline passed before a worker took the call");
        return Err(NoWorker::Now(error.with_blame(context.blame_for_short_time())));
    }
    let (gateway, skill) = (&context.shard.gateway, &context.entry.skill);
    // Workers may have joined since the call began.
    let latest = if tried.is_empty() { None } else { gateway.catalog.get(&skill.id) };
    let latest = latest.and_then(|it| it.restrict(&context.version, &context.call.definition_hash));
    let candidates = latest.as_ref().map_or(&context.entry.candidates, |entry| &entry.candidates);
    let criteria = Criteria { tried, now };
    if let Some(key) = AffinityKey::for_call(&context.call, skill) {
        return choose_holder(context, key, candidates, criteria);
    }
    let candidate = pick(candidates, criteria).ok_or_else(none_now)?.clone();
    Ok(Chosen { candidate, holds: None })
}

/// Chooses the worker that the session is assigned to, or assigns a new session.
fn choose_holder(
    context: &CallContext,
    key: AffinityKey,
    candidates: &[Candidate],
    criteria: Criteria<'_>,
) -> Result<Chosen, NoWorker> {
    let affinity = &context.shard.gateway.affinity;
    let Some(instance) = affinity.holder(&key) else {
        let candidate = affinity.assign(&key, candidates, criteria).ok_or_else(none_now)?;
        return Ok(Chosen { candidate, holds: Some(key) });
    };
    let of_holder: Vec<_> = candidates.iter().filter(|it| it.worker.instance() == instance).cloned().collect();
    match context.shard.gateway.fleet.presence(&instance) {
        Presence::Serving if !of_holder.is_empty() => {
            let candidate = pick(&of_holder, criteria).ok_or_else(holder_away)?.clone();
            Ok(Chosen { candidate, holds: Some(key) })
        }
        Presence::Away => Err(holder_away()),
        Presence::Serving if let Some(error) = other_version(context, &instance) => Err(NoWorker::Session(error)),
        // The worker is gone, or no longer offers the skill.
        Presence::Serving | Presence::Gone => {
            affinity.release(&key);
            let message = "the worker of this session was lost, and the session's state with it: start a new session";
            let error = SkillError { retryable: false, ..SkillError::new(ErrorCode::Unavailable, message) };
            Err(NoWorker::Session(error))
        }
    }
}

/// Explains that the worker of the session serves the skill, but not as the call needs it: the session continues in
/// calls that the worker can run. None if it does not serve the skill.
fn other_version(context: &CallContext, instance: &str) -> Option<SkillError> {
    let listed = context.shard.gateway.catalog.get(&context.call.skill_id)?;
    let served = Vec::from_iter(listed.versions_at(instance)).join(", ");
    let message = format!(
        "this session is on a worker that serves {served}, and the call goes to {}: call without a version or use \
         another session",
        context.entry.skill.version
    );
    (!served.is_empty()).then(|| SkillError::new(ErrorCode::InvalidArgument, message))
}

fn none_now() -> NoWorker {
    NoWorker::Now(no_candidate())
}

fn holder_away() -> NoWorker {
    NoWorker::Now(SkillError::unavailable("the worker of this session accepts no calls now: try again"))
}

impl Chosen {
    /// Keeps the session's assignment if the attempt started at the worker.
    pub(super) fn settle(&self, context: &CallContext, end: &AttemptEnd) {
        if let Some(key) = &self.holds {
            let instance = self.candidate.worker.instance();
            context.shard.gateway.affinity.settle(key, &instance, end.may_have_run());
        }
    }
}
