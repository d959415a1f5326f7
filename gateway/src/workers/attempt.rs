//! One call at one worker.

use std::error::Error as _;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use http::Uri;
use openskill_proto::limits::MAX_RESULT_BYTES;
use openskill_proto::metadata::{NOT_STARTED, TRACEPARENT, TRACESTATE};
use openskill_proto::v1::worker_service_client::WorkerServiceClient;
use openskill_proto::v1::{ExecuteRequest, ExecuteResult, execute_event};
use tonic::{Code, Request, Status};

use super::Worker;
use super::link::{LinkError, Via};
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
        /// The worker was full.
        full: bool,
    },
    /// The skill may have started.
    Lost {
        /// For the log.
        reason: String,
    },
}

/// What goes to a worker, but for the time left.
pub(crate) struct Attempt<'a> {
    pub(crate) request: ExecuteRequest,
    pub(crate) traceparent: &'a str,
    pub(crate) tracestate: &'a str,
    pub(crate) deadline: Instant,
}

impl Attempt<'_> {
    /// Runs the skill on `worker`. Dropping the future ends it there.
    pub(crate) async fn run(
        &self,
        worker: &Arc<Worker>,
        shard: usize,
        listener: Option<&Listener>,
    ) -> Result<ExecuteResult, AttemptError> {
        let _counted = worker.begin();
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
        let mut request = Request::new(ExecuteRequest { timeout_ms, ..self.request.clone() });
        let headers = [(TRACEPARENT, self.traceparent), (TRACESTATE, self.tracestate)];
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
        Some(LinkError::NotSent(_)) => AttemptError::NotStarted { reason, full: false },
        Some(LinkError::Lost(_)) => AttemptError::Lost { reason },
        None if status.metadata().contains_key(NOT_STARTED) => {
            AttemptError::NotStarted { reason, full: status.code() == Code::ResourceExhausted }
        }
        None => AttemptError::Lost { reason },
    }
}
