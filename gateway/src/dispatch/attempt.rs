//! Runs one call on one worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::error::GrpcCode;
use openskill_proto::limits::MAX_CALL_QUESTIONS;
use openskill_proto::metadata::{TRACEPARENT, TRACESTATE};
use openskill_proto::v1::{Blame, ErrorCode, ExecuteRequest, ExecuteResult, execute_event::Event};
use prost::Message as _;

use super::attempt_end::AttemptEnd;
use super::kept_run::KeptRun;
use super::questions::{OpenQuestion, WaitingCall};
use crate::call::events::EventRelay;
use crate::call::operation::Protocol;
use crate::dispatch::context::CallContext;
use crate::observe::call_event::{AttemptSummary, CallEvent};
use crate::workers::candidate::Candidate;
use crate::workers::client::{CallError, Events, WorkerRefusal};
use crate::workers::ejection::Verdict;
use crate::workers::record::CallReport;
use crate::workers::worker::{InFlight, Worker};

/// How long after the deadline the gateway gives up. Workers enforce deadlines themselves.
const WORKER_GRACE: Duration = Duration::from_millis(150);

/// The maximum number of open questions of one attempt. Higher than the worker's own limit: the worker frees a
/// question before the gateway learns that it was answered.
pub(crate) const MAX_QUESTIONS: usize = 2 * MAX_CALL_QUESTIONS;

/// Runs the skill on the worker, and updates the worker's record. Dropping the future cancels the run on the
/// worker, unless [`KeptRun`] leaves it to another gateway.
pub(crate) async fn attempt(context: &CallContext, candidate: &Candidate, number: u32) -> AttemptEnd {
    let tracker = Tracker::begin(context, candidate, number);
    let kept = KeptRun::begin(&context.shard, &candidate.worker, &context.call);
    let until = context.deadline + WORKER_GRACE;
    // Boxed, because the future is large and would be embedded in every future that awaits it.
    let sent = Box::pin(send(context, candidate, number));
    let mut end = tokio::time::timeout_at(until.into(), sent).await.unwrap_or(AttemptEnd::Overdue);
    if let Some(kept) = kept {
        kept.settle(&end);
    }
    let took = tracker.finish(&end);
    end.excuse_skill(context, took);
    context.record.note(|| CallEvent::AttemptEnded(end.summary(number, candidate.worker.id())));
    let (observer, endpoint) = (&context.shard.gateway.observer, &candidate.worker.endpoint);
    observer.metrics.attempts.inc(end.name());
    if let AttemptEnd::Unanswered(CallError { reason, refusal, .. }) = &end {
        match refusal {
            Some(refusal) => observer.attempt_not_started(endpoint, refusal.name(), reason),
            None => observer.attempt_lost(endpoint, reason),
        }
    }
    end
}

async fn send(context: &CallContext, candidate: &Candidate, number: u32) -> AttemptEnd {
    let mut client = candidate.worker.client(context.shard.number);
    let traceparent = context.record.context_of_attempt(number).to_traceparent();
    let headers = [(TRACEPARENT, traceparent.as_str()), (TRACESTATE, &context.call.trace.state)];
    let answered = match &context.events {
        None => client.execute(request(context), headers).await.map(|answer| record_logs(answer, context)),
        Some(relay) => match client.execute_stream(request(context), headers).await {
            Ok(events) => follow(events, relay, context, candidate).await,
            Err(error) => Err(error),
        },
    };
    answered.map_or_else(AttemptEnd::Unanswered, AttemptEnd::Answered)
}

fn request(context: &CallContext) -> ExecuteRequest {
    let left = context.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let call = &context.call;
    ExecuteRequest {
        skill_id: call.skill_id.clone(),
        version: context.version.clone(),
        call_id: call.call_id.clone(),
        session_id: call.session_id.clone(),
        input_json: context.arguments.clone(),
        trace_id: call.trace.id.clone(),
        timeout_ms: u32::try_from(left.as_millis()).unwrap_or(u32::MAX),
        principal: call.principal.name().to_owned(),
        interactive: context.is_interactive(),
        answers: call.answers.clone(),
        wants_content: call.operation.protocol == Protocol::Mcp,
        has_secrets: context.record.has_secrets(),
        operation: call.claim.as_ref().map(|it| it.run.clone()),
    }
}

/// Moves the skill's log lines from the response to the recorder. Without a stream, they arrive with the response,
/// but the caller does not get them.
fn record_logs(mut answer: ExecuteResult, context: &CallContext) -> ExecuteResult {
    std::mem::take(&mut answer.logs).into_iter().for_each(|line| context.record.note_relayed(&Event::Log(line)));
    answer
}

/// Relays events until the result arrives.
async fn follow(
    mut events: Events,
    relay: &EventRelay,
    context: &CallContext,
    candidate: &Candidate,
) -> Result<ExecuteResult, CallError> {
    // Dropping it closes the questions when the attempt ends.
    let mut questions = Vec::new();
    while let Some(event) = events.next().await? {
        match event {
            Event::Result(result) => return Ok(blame_silence(result, &questions)),
            Event::InputRequired(question) => {
                questions.retain(OpenQuestion::is_open);
                if context.is_interactive() && questions.len() < MAX_QUESTIONS {
                    let waiting = WaitingCall {
                        call: Arc::clone(&context.call),
                        skill: (&context.entry.skill).into(),
                        worker: Arc::clone(&candidate.worker),
                        record: Arc::downgrade(&context.record),
                    };
                    questions.push(context.shard.gateway.questions.open(&question.request_id, waiting));
                    context.record.note_content(question.encoded_len(), || CallEvent::Asked(question.clone()));
                    relay.relay(Event::InputRequired(question)).await;
                }
            }
            event => {
                context.record.note_relayed(&event);
                relay.relay(event).await;
            }
        }
    }
    // The status is OK, because any other status would arrive as an error.
    let reason = "the worker's stream ended without a result".to_owned();
    Err(CallError { reason, refusal: None, status: "OK" })
}

/// Shifts the blame for a timeout away from the skill if a question is open: the user did not answer.
pub(crate) fn blame_silence(mut result: ExecuteResult, questions: &[OpenQuestion]) -> ExecuteResult {
    if let Some(error) = &mut result.error
        && error.code() == ErrorCode::Timeout
        && questions.iter().any(OpenQuestion::is_open)
    {
        error.set_blame(Blame::Caller);
    }
    result
}

/// Tracks a call in flight at a worker, and updates the worker's record when the call ends or is dropped.
struct Tracker<'a> {
    context: &'a CallContext,
    candidate: &'a Candidate,
    number: u32,
    in_flight: InFlight<'a>,
    begun: Instant,
    epoch: u64,
    is_finished: bool,
}

impl<'a> Tracker<'a> {
    fn begin(context: &'a CallContext, candidate: &'a Candidate, number: u32) -> Self {
        let (worker, begun): (&Worker, _) = (&candidate.worker, Instant::now());
        let epoch = worker.record.begin(begun);
        context.call.stage.begin_attempt(number, Some(&worker.address));
        let streams = context.events.is_some();
        context.record.note(|| CallEvent::AttemptBegan { number, worker: Arc::clone(&worker.address), streams });
        Self { context, candidate, number, in_flight: worker.begin(), begun, epoch, is_finished: false }
    }

    /// Records how the call ended. Returns its duration.
    fn finish(mut self, end: &AttemptEnd) -> Duration {
        self.is_finished = true;
        let (now, took) = (Instant::now(), self.begun.elapsed());
        let verdict = end.verdict(self.context.events.as_ref());
        let mut report = self.report(verdict);
        report.was_full = end.refusal() == Some(WorkerRefusal::Full);
        if !self.has_asked() && end.refusal().is_none() {
            let answer = match end {
                AttemptEnd::Answered(result) if verdict == Verdict::Success => Some(result),
                _ => None,
            };
            report.queued = answer.and_then(|it| it.worker_queued_us).map(Duration::from_micros);
            let latency = &self.candidate.latency;
            match answer.filter(|it| it.error.is_none()) {
                Some(it) => latency.observe(took, took.saturating_sub(Duration::from_micros(it.queued_us)), now),
                None => latency.observe_failure(took, now),
            }
        }
        self.record(report, now);
        took
    }

    /// Whether the call asked its user a question. If so, its latency does not measure the worker.
    fn has_asked(&self) -> bool {
        self.context.events.as_ref().is_some_and(EventRelay::has_asked)
    }

    fn report(&self, verdict: Verdict) -> CallReport {
        let (epoch, in_flight) = (self.epoch, self.in_flight.at_begin);
        CallReport { epoch, verdict, queued: None, was_full: false, in_flight }
    }

    /// Builds the summary of an attempt whose call was dropped.
    fn cancelled_summary(&self) -> AttemptSummary {
        AttemptSummary {
            number: self.number,
            worker_id: self.candidate.worker.id(),
            status: GrpcCode::Cancelled.name(),
            failure: Some((ErrorCode::Cancelled, ErrorCode::Cancelled.meaning().blame)),
            reason: "the call was dropped before it ended".to_owned(),
            may_have_run: true,
            ..AttemptSummary::default()
        }
    }

    fn record(&self, report: CallReport, now: Instant) {
        let (gateway, worker) = (&self.context.shard.gateway, &self.candidate.worker);
        if worker.record.end(report, now, || gateway.fleet.may_eject()) {
            gateway.observer.worker_ejected(&worker.endpoint);
        }
    }
}

impl Drop for Tracker<'_> {
    /// Ends the attempt, and records a dropped call. Unless it waited for its user, the worker's latency is at least
    /// the time that it took.
    fn drop(&mut self) {
        self.context.call.stage.end_attempt();
        if !self.is_finished {
            let now = Instant::now();
            if !self.has_asked() {
                self.candidate.latency.observe_failure(now - self.begun, now);
            }
            self.record(self.report(Verdict::Ignored), now);
            self.context.record.note(|| CallEvent::AttemptEnded(self.cancelled_summary()));
            self.context.shard.gateway.observer.metrics.attempts.inc("dropped");
        }
    }
}
