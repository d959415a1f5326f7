//! One call at one worker.

use std::error::Error as _;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Uri;
use openskill_proto::limits::MAX_RESULT_BYTES;
use openskill_proto::metadata::{NOT_STARTED, TRACEPARENT, TRACESTATE};
use openskill_proto::v1::worker_service_client::WorkerServiceClient;
use openskill_proto::v1::{Blame, ErrorCode, ExecuteRequest, ExecuteResult, execute_event};
use tonic::{Code, Request, Status};

use super::ejection::{Conduct, Era};
use super::link::{LinkError, Via};
use super::pick::Candidate;
use super::record::Ended;
use super::{InFlight, Worker};
use crate::call::Call;
use crate::gateway::Gateway;
use crate::relay::Listener;

/// What stands in the requests' URI; the link decides where they go.
pub(crate) static ORIGIN: LazyLock<Uri> = LazyLock::new(|| Uri::from_static("http://worker"));

/// Why an attempt gave no result.
#[derive(Debug)]
pub(crate) enum AttemptError {
    /// The skill cannot have started; the call may go to another worker.
    NotStarted {
        /// For the log.
        reason: String,
        refusal: Refusal,
    },
    /// The skill may have started.
    Lost {
        /// For the log.
        reason: String,
    },
    /// The worker did not answer by the deadline, nor a little later.
    Overdue,
}

/// Who it was that refused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The worker is full.
    Full,
    /// The worker, for another reason: it drains, say.
    Declined,
    /// Nobody: it could not be reached.
    Unreachable,
}

/// A worker ends what is over its deadline by itself; one that does not is given up this much later.
const WORKER_SLACK: Duration = Duration::from_millis(150);

/// What goes to a worker, but for the time left.
pub(crate) struct Attempt<'a> {
    pub(crate) call: &'a Call,
    /// The arguments.
    pub(crate) json: &'a Bytes,
    pub(crate) traceparent: &'a str,
    pub(crate) deadline: Instant,
}

impl Attempt<'_> {
    /// Runs the skill on the worker, and keeps the worker's record. Dropping the future ends the run there.
    pub(crate) async fn run(
        &self,
        candidate: &Candidate,
        gateway: &Gateway,
        shard: usize,
        listener: Option<&Listener>,
    ) -> Result<ExecuteResult, AttemptError> {
        let mut visit = Visit::begin(candidate, gateway);
        let until = self.deadline + WORKER_SLACK;
        // Boxed: it is large, and would be moved about, and kept twice over, with what waits for it.
        let sent = Box::pin(self.send(&candidate.worker, shard, listener));
        let sent = tokio::time::timeout_at(until.into(), sent).await;
        let outcome = sent.unwrap_or(Err(AttemptError::Overdue));
        visit.conduct = conduct(&outcome, listener);
        visit.was_full = matches!(outcome, Err(AttemptError::NotStarted { refusal: Refusal::Full, .. }));
        visit.started = !matches!(outcome, Err(AttemptError::NotStarted { .. }));
        if let Ok(result) = &outcome {
            visit.note(result);
        }
        outcome
    }

    async fn send(
        &self,
        worker: &Worker,
        shard: usize,
        listener: Option<&Listener>,
    ) -> Result<ExecuteResult, AttemptError> {
        let via = Via(Arc::clone(worker.link(shard)));
        let mut client = WorkerServiceClient::with_origin(via, ORIGIN.clone())
            .max_decoding_message_size(2 * MAX_RESULT_BYTES)
            .max_encoding_message_size(2 * MAX_RESULT_BYTES);
        match listener {
            None => {
                client.execute(self.request()).await.map(tonic::Response::into_inner).map_err(|it| before_start(&it))
            }
            Some(listener) => {
                let stream = client.execute_stream(self.request()).await.map_err(|it| before_start(&it))?;
                follow(stream.into_inner(), listener).await
            }
        }
    }

    fn request(&self) -> Request<ExecuteRequest> {
        let left = self.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let timeout_ms = u32::try_from(left.as_millis()).unwrap_or(u32::MAX);
        let call = self.call;
        let mut request = Request::new(ExecuteRequest {
            skill_id: call.skill_id.clone(),
            call_id: call.call_id.clone(),
            session_id: call.session_id.clone(),
            input_json: self.json.clone(),
            trace_id: call.trace.id.clone(),
            timeout_ms,
            principal: String::new(),
            interactive: false,
        });
        let headers = [(TRACEPARENT, self.traceparent), (TRACESTATE, &call.trace.state)];
        for (name, value) in headers.into_iter().filter(|(_, value)| !value.is_empty()) {
            if let Ok(value) = value.parse() {
                request.metadata_mut().insert(name, value);
            }
        }
        request
    }
}

/// Relays events until the result.
async fn follow(
    mut events: tonic::Streaming<openskill_proto::v1::ExecuteEvent>,
    listener: &Listener,
) -> Result<ExecuteResult, AttemptError> {
    let mut heard_any = false;
    loop {
        match events.message().await {
            Ok(Some(event)) => match event.event {
                Some(execute_event::Event::Result(result)) => return Ok(result),
                Some(event) => listener.relay(event).await,
                None => {}
            },
            Ok(None) => return Err(AttemptError::Lost { reason: "the worker ended without a result".to_owned() }),
            // A stream's first answer may be the refusal.
            Err(status) if !heard_any => return Err(before_start(&status)),
            Err(status) => return Err(AttemptError::Lost { reason: status.message().to_owned() }),
        }
        heard_any = true;
    }
}

/// What a status in place of an answer means. The worker's own refusals, and a request that was not sent, are safe.
fn before_start(status: &Status) -> AttemptError {
    let reason = status.message().to_owned();
    match status.source().and_then(|source| source.downcast_ref::<LinkError>()) {
        Some(LinkError::NotSent(_)) => AttemptError::NotStarted { reason, refusal: Refusal::Unreachable },
        Some(LinkError::Refused(_)) => AttemptError::NotStarted { reason, refusal: Refusal::Declined },
        Some(LinkError::Lost(_)) => AttemptError::Lost { reason },
        None if status.metadata().contains_key(NOT_STARTED) => {
            let refusal = if status.code() == Code::ResourceExhausted { Refusal::Full } else { Refusal::Declined };
            AttemptError::NotStarted { reason, refusal }
        }
        None => AttemptError::Lost { reason },
    }
}

/// What an attempt says about its worker.
fn conduct(outcome: &Result<ExecuteResult, AttemptError>, listener: Option<&Listener>) -> Conduct {
    match outcome {
        Ok(result) if result.error.as_ref().is_some_and(|error| error.blame() == Blame::Worker) => Conduct::Bad,
        Ok(_) => Conduct::Good,
        Err(AttemptError::NotStarted { refusal: Refusal::Full | Refusal::Declined, .. }) => Conduct::Unknown,
        // The client did not read, so the worker had to wait.
        Err(AttemptError::Overdue) if listener.is_some_and(Listener::is_held_up) => Conduct::Unknown,
        Err(_) => Conduct::Bad,
    }
}

/// A call at a worker. What it says about the worker is noted at its end, also if that is a drop.
struct Visit<'a> {
    candidate: &'a Candidate,
    gateway: &'a Gateway,
    counted: InFlight<'a>,
    begun: Instant,
    era: Era,
    conduct: Conduct,
    waited: Option<Duration>,
    ran: Option<Duration>,
    succeeded: bool,
    was_full: bool,
    /// The worker has had it. So it is, for all that is known, if the visit is broken off.
    started: bool,
}

impl<'a> Visit<'a> {
    fn begin(candidate: &'a Candidate, gateway: &'a Gateway) -> Self {
        let (worker, begun) = (&*candidate.worker, Instant::now());
        let era = worker.record.begin(begun);
        Self {
            candidate,
            gateway,
            counted: worker.begin(),
            begun,
            era,
            conduct: Conduct::Unknown,
            waited: None,
            ran: None,
            succeeded: false,
            was_full: false,
            started: true,
        }
    }

    /// What a result tells.
    fn note(&mut self, result: &ExecuteResult) {
        let took = self.begun.elapsed();
        let waited = Duration::from_micros(result.queued_us).min(took);
        let error = result.error.as_ref();
        // A call whose time went by in the queue never ran.
        let never_ran = error.is_some_and(|it| it.code() == ErrorCode::Timeout && it.blame() == Blame::Gateway);
        let for_worker = result.worker_queued_us.map(Duration::from_micros);
        self.waited = for_worker.filter(|_| self.conduct == Conduct::Good);
        self.ran = (self.conduct == Conduct::Good && !never_ran).then_some(took - waited);
        self.succeeded = error.is_none();
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let (worker, now) = (&self.candidate.worker, Instant::now());
        match (self.succeeded, self.ran) {
            (true, Some(ran)) => self.candidate.latency.observe(now - self.begun, ran, now),
            _ if self.started => self.candidate.latency.observe_failure(now - self.begun, now),
            _ => {}
        }
        let ended = Ended {
            era: self.era,
            conduct: self.conduct,
            waited: self.waited,
            ran: self.ran,
            was_full: self.was_full,
            in_flight: self.counted.at_begin(),
        };
        if worker.record.end(ended, now, || self.gateway.workers.may_eject()) {
            self.gateway.metrics.ejected();
            tracing::warn!(endpoint = %worker.endpoint, "a worker that keeps failing is left out for a while");
        }
    }
}
