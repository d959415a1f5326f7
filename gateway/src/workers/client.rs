//! Calls a worker's service over a link. Errors tell whether the request may have reached the worker.

use std::error::Error as _;
use std::time::Duration;

use openskill_proto::error::grpc_name;
use openskill_proto::limits::MAX_RESULT_BYTES;
use openskill_proto::metadata::{NOT_STARTED, PUSHBACK};
use openskill_proto::v1::worker_service_client::WorkerServiceClient;
use openskill_proto::v1::{
    CancelRunRequest, ConsultRequest, DeliverInputRequest, ErrorCode, ExecuteEvent, ExecuteRequest, ExecuteResult,
    FetchArtifactRequest, ReadArtifactResponse, ResumeRunRequest, SkillError, execute_event::Event,
};
use tonic::{Code, Request, Response, Status, Streaming};

use super::link::{LinkError, Via};

/// Why a call got no response.
#[derive(Debug)]
pub(crate) struct CallError {
    /// The reason for the log.
    pub(crate) reason: String,
    /// Why the skill can't have started, so that the call may go to another worker. None if it may have started.
    pub(crate) refusal: Option<WorkerRefusal>,
    /// The gRPC status that ended the request.
    pub(crate) status: &'static str,
}

/// Why a call did not start at a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerRefusal {
    /// The worker is overloaded.
    Full,
    /// The call would miss its deadline by `by`. The worker may accept calls of other callers.
    Late { by: Duration },
    /// The worker refused it for another reason, for example because it is draining.
    Declined,
    /// The worker could not be reached.
    Unreachable,
}

impl CallError {
    /// Whether the worker has a run for a later claim of the call's operation.
    pub(crate) fn is_superseded(&self) -> bool {
        self.status == grpc_name(Code::Aborted)
    }
}

impl WorkerRefusal {
    /// The name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Late { .. } => "late",
            Self::Declined => "declined",
            Self::Unreachable => "unreachable",
        }
    }
}

/// A client for one worker's service.
pub(crate) struct Client(WorkerServiceClient<Via>);

/// The event stream of a running call.
pub(crate) struct Events {
    stream: Streaming<ExecuteEvent>,
    is_first: bool,
}

/// The trace context of a call, as header names and values.
pub(crate) type TraceHeaders<'a> = [(&'static str, &'a str); 2];

impl Client {
    pub(super) fn new(inner: WorkerServiceClient<Via>) -> Self {
        let inner = inner.max_decoding_message_size(2 * MAX_RESULT_BYTES);
        Self(inner.max_encoding_message_size(2 * MAX_RESULT_BYTES))
    }

    /// Runs a skill.
    pub(crate) async fn execute(
        &mut self,
        request: ExecuteRequest,
        headers: TraceHeaders<'_>,
    ) -> Result<ExecuteResult, CallError> {
        let response = self.0.execute(with_headers(request, headers)).await;
        response.map(Response::into_inner).map_err(|status| before_start(&status))
    }

    /// Runs a skill, and streams its events.
    pub(crate) async fn execute_stream(
        &mut self,
        request: ExecuteRequest,
        headers: TraceHeaders<'_>,
    ) -> Result<Events, CallError> {
        let response = self.0.execute_stream(with_headers(request, headers)).await;
        let events = |response: Response<_>| Events { stream: response.into_inner(), is_first: true };
        response.map(events).map_err(|status| before_start(&status))
    }

    /// Takes over the run of an operation, and streams its events. None if the worker does not have it.
    ///
    /// # Errors
    /// The worker can't be reached.
    pub(crate) async fn resume_run(&mut self, request: ResumeRunRequest) -> Result<Option<Events>, SkillError> {
        match self.0.resume_run(request).await {
            Ok(response) => Ok(Some(Events { stream: response.into_inner(), is_first: false })),
            // Older workers know of no runs.
            Err(status) if [Code::NotFound, Code::Aborted, Code::Unimplemented].contains(&status.code()) => Ok(None),
            Err(status) => Err(as_error(&status)),
        }
    }

    /// Cancels the run of an operation, if this worker has it.
    ///
    /// # Errors
    /// The worker can't be reached.
    pub(crate) async fn cancel_run(&mut self, request: CancelRunRequest) -> Result<(), SkillError> {
        self.0.cancel_run(request).await.map(drop).map_err(|status| as_error(&status))
    }

    /// Delivers an answer to the skill that is waiting for it.
    ///
    /// # Errors
    /// `NOT_FOUND`, `INVALID_ARGUMENT`, or the worker can't be reached.
    pub(crate) async fn deliver_input(&mut self, request: DeliverInputRequest) -> Result<(), SkillError> {
        self.0.deliver_input(request).await.map(drop).map_err(|status| as_error(&status))
    }

    /// Requests the content of a prompt or a resource. Returns a JSON object.
    ///
    /// # Errors
    /// `NOT_FOUND`, `INVALID_ARGUMENT`, `INTERNAL`, or the worker can't be reached.
    pub(crate) async fn consult(&mut self, request: ConsultRequest) -> Result<String, SkillError> {
        let answer = self.0.consult(request).await.map_err(|status| match status.code() {
            Code::Internal => SkillError::new(ErrorCode::Internal, status.message()),
            _ => as_error(&status),
        })?;
        let text = String::from_utf8(answer.into_inner().result_json.into());
        text.map_err(|_| SkillError::new(ErrorCode::Internal, "the answer is not text"))
    }

    /// Reads a range of an artifact.
    ///
    /// # Errors
    /// `NOT_FOUND`, or the worker can't be reached.
    pub(crate) async fn fetch_artifact(
        &mut self,
        request: FetchArtifactRequest,
    ) -> Result<ReadArtifactResponse, SkillError> {
        let response = self.0.fetch_artifact(request).await;
        response.map(Response::into_inner).map_err(|status| as_error(&status))
    }
}

impl Events {
    /// Returns the next event. None at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, CallError> {
        loop {
            match self.stream.message().await {
                Ok(Some(ExecuteEvent { event: Some(event) })) => {
                    self.is_first = false;
                    return Ok(Some(event));
                }
                // Skip an unknown event from a later version.
                Ok(Some(ExecuteEvent { event: None })) => self.is_first = false,
                Ok(None) => return Ok(None),
                // A status instead of the first event may be a refusal.
                Err(status) if self.is_first => return Err(before_start(&status)),
                Err(status) => {
                    let (reason, status) = (status.message().to_owned(), grpc_name(status.code()));
                    return Err(CallError { reason, refusal: None, status });
                }
            }
        }
    }
}

fn with_headers(request: ExecuteRequest, headers: TraceHeaders<'_>) -> Request<ExecuteRequest> {
    let mut request = Request::new(request);
    for (name, value) in headers.into_iter().filter(|(_, value)| !value.is_empty()) {
        if let Ok(value) = value.parse() {
            request.metadata_mut().insert(name, value);
        }
    }
    request
}

/// Interprets a status that arrives instead of the first event. A retry is safe only if the worker refused the
/// call, or the request was not sent.
fn before_start(status: &Status) -> CallError {
    let link = status.source().and_then(|it| it.downcast_ref::<LinkError>());
    let refusal = match link {
        Some(LinkError::NotSent(_)) => Some(WorkerRefusal::Unreachable),
        Some(LinkError::Refused(_)) => Some(WorkerRefusal::Declined),
        Some(LinkError::Lost(_)) => None,
        None => status.metadata().contains_key(NOT_STARTED).then(|| refusal(status)),
    };
    let code = link.map_or(status.code(), |_| Code::Unavailable);
    CallError { reason: status.message().to_owned(), refusal, status: grpc_name(code) }
}

/// Returns why the worker refused a call.
fn refusal(status: &Status) -> WorkerRefusal {
    let pushback = status.metadata().get(PUSHBACK).and_then(|value| value.to_str().ok()?.parse().ok());
    match (status.code(), pushback) {
        (Code::ResourceExhausted, Some(late_by_ms)) => WorkerRefusal::Late { by: Duration::from_millis(late_by_ms) },
        (Code::ResourceExhausted, None) => WorkerRefusal::Full,
        _ => WorkerRefusal::Declined,
    }
}

fn as_error(status: &Status) -> SkillError {
    match status.code() {
        Code::NotFound => SkillError::new(ErrorCode::NotFound, status.message()),
        Code::InvalidArgument => SkillError::new(ErrorCode::InvalidArgument, status.message()),
        _ => SkillError::unavailable("the worker can't be reached now: try again"),
    }
}
