//! The tower layer that asks the circuits before a call and tells them how it ended.
//!
//! It is always ready: a refusal is the answer to a call, not a reason for others to wait.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::TryFutureExt as _;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use tower::{Layer, Service};

use super::breaker::Verdict;
use super::{Circuits, Passes, Refused, millis};
use crate::dispatch::Run;
use crate::metrics::Metrics;
use crate::outcome::Outcome;

/// Puts circuits before a service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CircuitLayer<'a> {
    pub(crate) circuits: &'a Circuits,
    pub(crate) metrics: &'a Metrics,
}

/// A service behind circuits.
#[derive(Debug, Clone)]
pub(crate) struct Guarded<'a, S> {
    layer: CircuitLayer<'a>,
    inner: S,
}

impl<'a, S> Layer<S> for CircuitLayer<'a> {
    type Service = Guarded<'a, S>;

    fn layer(&self, inner: S) -> Self::Service {
        Guarded { layer: *self, inner }
    }
}

impl<'a, S> Service<Run<'a>> for Guarded<'a, S>
where
    S: Service<Run<'a>, Response = Outcome, Error = Infallible>,
    S::Future: Send + 'a,
{
    type Response = Outcome;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Outcome, Infallible>> + Send + 'a>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, run: Run<'a>) -> Self::Future {
        let CircuitLayer { circuits, metrics } = self.layer;
        let entry = run.entry;
        let skill = &entry.skill;
        let passes = match circuits.admit(skill, &run.attempt.call.session_id, Instant::now(), metrics) {
            Ok(passes) => passes,
            Err(refused) => return Box::pin(std::future::ready(Ok(Outcome::failed(refusal(&skill.id, refused))))),
        };
        let mut held = Held { layer: self.layer, skill_id: &skill.id, passes: Some(passes) };
        Box::pin(self.inner.call(run).map_ok(move |outcome| {
            held.give_back(verdict(&outcome));
            outcome
        }))
    }
}

/// Passes on their way back. A call that is dropped says nothing about its skill.
struct Held<'a> {
    layer: CircuitLayer<'a>,
    skill_id: &'a str,
    passes: Option<Passes>,
}

impl Held<'_> {
    fn give_back(&mut self, verdict: Verdict) {
        if let Some(passes) = self.passes.take() {
            self.layer.circuits.report(self.skill_id, passes, verdict, Instant::now(), self.layer.metrics);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.give_back(Verdict::Ignored);
    }
}

/// Only what is the skill's own doing counts.
fn verdict(outcome: &Outcome) -> Verdict {
    match &outcome.result.error {
        None => Verdict::Success,
        Some(error) if error.blame() == Blame::Skill => Verdict::Failure,
        Some(_) => Verdict::Ignored,
    }
}

fn refusal(skill_id: &str, refused: Refused) -> SkillError {
    let wait = millis(refused.retry_after);
    let (whose, seconds) =
        (if refused.of_session { "in this session" } else { "for all callers" }, wait.div_ceil(1000));
    let message =
        format!("{skill_id} failed too often {whose} and is paused: use something else, or try again in {seconds} s");
    SkillError::new(ErrorCode::CircuitOpen, message).with_retry_after_ms(wait)
}
