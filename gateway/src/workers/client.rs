//! A worker's service over a link, with errors that say what became of the request.

use std::error::Error as _;
use std::time::Duration;

use openskill_proto::error::grpc_name;
use openskill_proto::limits::MAX_RESULT_BYTES;
use openskill_proto::metadata::{NOT_STARTED, PUSHBACK};
use openskill_proto::v1::worker_service_client::WorkerServiceClient;
use openskill_proto::v1::{
    ConsultRequest, DeliverInputRequest, ErrorCode, ExecuteEvent, ExecuteRequest, ExecuteResult, FetchArtifactRequest,
    ReadArtifactResponse, SkillError, execute_event::Event,
};
use tonic::{Code, Request, Status, Streaming};

use super::link::{LinkError, Via};

/// Why there is no answer to a call.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The skill cannot have started: the call may go to another worker.
    NotStarted {
        /// For the log.
        reason: String,
        refusal: Refusal,
        /// The gRPC status that ended the request.
        status: &'static str,
    },
    /// The skill may have started.
    Lost {
        /// For the log.
        reason: String,
        /// The gRPC status that ended the request.
        status: &'static str,
    },
}

/// Who refused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The worker: it is overloaded.
    Full,
    /// The worker: the call would miss its deadline there, by so much. It may take calls of others.
    Late { by: Duration },
    /// The worker, for another reason: it drains, say.
    Declined,
    /// Nobody: the worker could not be reached.
    Unreachable,
}

impl Refusal {
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

/// The service of one worker.
pub(crate) struct Client(WorkerServiceClient<Via>);

/// The events of a call that runs.
pub(crate) struct Events {
    stream: Streaming<ExecuteEvent>,
    is_first: bool,
}

/// The trace context of a call: header names and values.
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
        match self.0.execute(with_headers(request, headers)).await {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(before_start(&status)),
        }
    }

    /// Runs a skill, and returns its events as they come.
    pub(crate) async fn execute_stream(
        &mut self,
        request: ExecuteRequest,
        headers: TraceHeaders<'_>,
    ) -> Result<Events, CallError> {
        match self.0.execute_stream(with_headers(request, headers)).await {
            Ok(response) => Ok(Events { stream: response.into_inner(), is_first: true }),
            Err(status) => Err(before_start(&status)),
        }
    }

    /// Hands an answer to the skill that waits for it.
    ///
    /// # Errors
    /// `NOT_FOUND`, `INVALID_ARGUMENT`, or that the worker can't be reached.
    pub(crate) async fn deliver_input(&mut self, request: DeliverInputRequest) -> Result<(), SkillError> {
        self.0.deliver_input(request).await.map(drop).map_err(|status| as_error(&status))
    }

    /// Asks for the content of a prompt or a resource: a JSON object.
    ///
    /// # Errors
    /// `NOT_FOUND`, `INVALID_ARGUMENT`, `INTERNAL`, or that the worker can't be reached.
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
    /// `NOT_FOUND`, or that the worker can't be reached.
    pub(crate) async fn fetch_artifact(
        &mut self,
        request: FetchArtifactRequest,
    ) -> Result<ReadArtifactResponse, SkillError> {
        let response = self.0.fetch_artifact(request).await;
        response.map(tonic::Response::into_inner).map_err(|status| as_error(&status))
    }
}

impl Events {
    /// The next event; none when the stream has ended.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, CallError> {
        loop {
            match self.stream.message().await {
                Ok(Some(ExecuteEvent { event: Some(event) })) => {
                    self.is_first = false;
                    return Ok(Some(event));
                }
                // An event of a later version.
                Ok(Some(ExecuteEvent { event: None })) => self.is_first = false,
                Ok(None) => return Ok(None),
                // The first answer of a stream may be a refusal.
                Err(status) if self.is_first => return Err(before_start(&status)),
                Err(status) => {
                    return Err(CallError::Lost {
                        reason: status.message().to_owned(),
                        status: grpc_name(status.code()),
                    });
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

/// What a status in place of a first answer means. Only the worker's own refusals, and a request that was not sent, are safe.
fn before_start(status: &Status) -> CallError {
    let (reason, link) = (status.message().to_owned(), status.source().and_then(|it| it.downcast_ref::<LinkError>()));
    let ended = grpc_name(link.map_or(status.code(), |_| Code::Unavailable));
    match link {
        Some(LinkError::NotSent(_)) => CallError::NotStarted { reason, refusal: Refusal::Unreachable, status: ended },
        Some(LinkError::Refused(_)) => CallError::NotStarted { reason, refusal: Refusal::Declined, status: ended },
        Some(LinkError::Lost(_)) => CallError::Lost { reason, status: ended },
        None if status.metadata().contains_key(NOT_STARTED) => {
            CallError::NotStarted { reason, refusal: refusal(status), status: ended }
        }
        None => CallError::Lost { reason, status: ended },
    }
}

/// Why the worker refused a call.
fn refusal(status: &Status) -> Refusal {
    let pushback = status.metadata().get(PUSHBACK).and_then(|value| value.to_str().ok()?.parse().ok());
    match (status.code(), pushback) {
        (Code::ResourceExhausted, Some(late_by_ms)) => Refusal::Late { by: Duration::from_millis(late_by_ms) },
        (Code::ResourceExhausted, None) => Refusal::Full,
        _ => Refusal::Declined,
    }
}

fn as_error(status: &Status) -> SkillError {
    match status.code() {
        Code::NotFound => SkillError::new(ErrorCode::NotFound, status.message()),
        Code::InvalidArgument => SkillError::new(ErrorCode::InvalidArgument, status.message()),
        _ => SkillError::unavailable("the worker can't be reached now: try again"),
    }
}
