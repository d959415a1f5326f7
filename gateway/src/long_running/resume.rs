//! Continues the run of an operation that another gateway began, or this one before it restarted.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use openskill_proto::limits::MAX_TIMEOUT_MS;
use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::{InputRequired, InvokeEvent, SkillError, invoke_event};
use prost::Message as _;
use tokio::time::Instant;

use super::end::lost_error;
use crate::call::events::invoke_event;
use crate::call::outcome::Outcome;
use crate::call::request::Call;
use crate::call::result::result_with_pool;
use crate::dispatch::attempt::{MAX_QUESTIONS, blame_silence};
use crate::dispatch::kept_run::ResumedRun;
use crate::dispatch::questions::{OpenQuestion, WaitingCall};
use crate::gateway::{Gateway, Shard};
use crate::observe::call_event::CallEvent;
use crate::observe::call_record::CallRecord;
use crate::protect::admission::Permit;

/// The rest of a run.
struct Rest {
    gateway: Arc<Gateway>,
    call: Arc<Call>,
    record: Arc<CallRecord>,
    is_idempotent: bool,
    resumed: ResumedRun,
    /// The worker asks again what nobody has answered.
    questions: Vec<OpenQuestion>,
    /// No run takes longer.
    until: Instant,
    _permit: Permit,
}

/// What a run does next.
enum Step {
    Event(Box<Event>),
    Lost,
    Cancelled,
}

/// Streams the rest of a run's events and then the result, as [`crate::streams::one`] does for a new run.
pub(super) fn events(
    shard: &Shard,
    call: Arc<Call>,
    permit: Permit,
    resumed: ResumedRun,
    is_idempotent: bool,
) -> impl Stream<Item = Result<InvokeEvent, SkillError>> + Send {
    let gateway = Arc::clone(&shard.gateway);
    let record = CallRecord::begin(&gateway.observer, &call);
    gateway.note_skill(&call, &record);
    call.stage.begin_attempt(1, Some(&resumed.run.worker().address));
    let until = Instant::now() + Duration::from_millis(MAX_TIMEOUT_MS.into());
    let rest = Rest { gateway, call, record, is_idempotent, resumed, questions: Vec::new(), until, _permit: permit };
    stream::unfold(Some(rest), |rest| async move { Some(rest?.next().await) })
}

impl Rest {
    /// Returns the next event, and what follows unless it is the last one.
    async fn next(mut self) -> (Result<InvokeEvent, SkillError>, Option<Self>) {
        loop {
            let event = match self.step().await {
                Step::Event(event) => *event,
                Step::Lost => {
                    let outcome = Outcome { attempts: 1, may_have_run: true, ..Outcome::from_error(lost_error()) };
                    return (Ok(self.end(outcome, false).await), None);
                }
                Step::Cancelled => {
                    let outcome = Outcome::cancelled(&self.call, true);
                    return (Ok(self.end(outcome, false).await), None);
                }
            };
            if let Event::Result(result) = event {
                let result = blame_silence(result, &self.questions);
                let may_have_run = result.success || !result.not_started;
                let outcome = Outcome { attempts: 1, may_have_run, ..Outcome::from_result(result) };
                let outcome = outcome.with_retry_advice(self.is_idempotent, false);
                return (Ok(self.end(outcome, true).await), None);
            }
            match &event {
                Event::InputRequired(question) => self.open(question),
                event => self.record.note_relayed(event),
            }
            if let Some(event) = invoke_event(event) {
                return (Ok(self.event(event)), Some(self));
            }
        }
    }

    /// Lets a question be answered here.
    fn open(&mut self, question: &InputRequired) {
        self.questions.retain(OpenQuestion::is_open);
        if self.questions.len() >= MAX_QUESTIONS {
            return;
        }
        let skill = self.gateway.find_route(&self.call).map(|it| (&it.entry.skill).into()).unwrap_or_default();
        let (call, worker) = (Arc::clone(&self.call), Arc::clone(self.resumed.run.worker()));
        let waiting = WaitingCall { call, skill, worker, record: Arc::downgrade(&self.record) };
        self.questions.push(self.gateway.questions.open(&question.request_id, waiting));
        self.record.note_content(question.encoded_len(), || CallEvent::Asked(question.clone()));
    }

    async fn step(&mut self) -> Step {
        tokio::select! {
            biased;
            event = self.resumed.events.next() => match event {
                Ok(Some(event)) => Step::Event(Box::new(event)),
                Ok(None) | Err(_) => Step::Lost,
            },
            () = self.call.cancellation.notified() => Step::Cancelled,
            () = tokio::time::sleep_until(self.until) => Step::Lost,
        }
    }

    /// Records the outcome. If the run has not ended, it is cancelled.
    async fn end(self, outcome: Outcome, has_ended: bool) -> InvokeEvent {
        self.call.stage.end_attempt();
        self.record.end(&outcome);
        let call_id = self.call.call_id.clone();
        if has_ended {
            self.resumed.run.end();
        }
        let result = result_with_pool(&self.gateway.blocking_pool, self.call, outcome).await;
        InvokeEvent { call_id, event: Some(invoke_event::Event::Result(result)) }
    }

    fn event(&self, event: invoke_event::Event) -> InvokeEvent {
        InvokeEvent { call_id: self.call.call_id.clone(), event: Some(event) }
    }
}
