//! Calls the skills of a remote gateway over gRPC.

use std::time::Duration;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use openskill_proto::limits::MAX_RESULT_BYTES;
use openskill_proto::metadata::{TRACE_ID, TRACEPARENT};
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{
    ErrorCode, ExportToolsRequest, ExportToolsResponse, InputResponse, InvokeEvent, InvokeRequest, ListSkillsRequest,
    PreparedCall, ReadArtifactRequest, ReadArtifactResponse, Skill, SkillError, SkillResult, invoke_event,
};
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, ConnectError, Request, Status};

use crate::skills::{Caller, SkillGateway, Unreachable, UserIdentity, Validity};

/// The timeout for a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The interval of keepalive pings, and the timeout for their replies.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));

/// The timeout for requests that run no skill.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A remote gateway. Connects on the first request, and reconnects after a lost connection.
#[derive(Debug, Clone)]
pub struct RemoteGateway {
    client: SkillServiceClient<Channel>,
    /// The header with the agent's key, which is sent with all requests.
    authorization: Option<HeaderValue>,
}

impl RemoteGateway {
    /// Creates the client. `authorization` is the header with the agent's key, if the gateway requires one.
    /// `connect` creates a channel that connects lazily.
    pub fn new(
        endpoint: Endpoint,
        authorization: Option<HeaderValue>,
        connect: impl FnOnce(Endpoint) -> Channel,
    ) -> Self {
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE.0)
            .keep_alive_timeout(KEEP_ALIVE.1);
        let channel = connect(endpoint);
        let client = SkillServiceClient::new(channel).max_decoding_message_size(3 * MAX_RESULT_BYTES);
        Self { client, authorization }
    }

    async fn run(
        &self,
        caller: &Caller,
        request: InvokeRequest,
        events: &mut (dyn FnMut(InvokeEvent) + Send),
    ) -> Result<SkillResult, SkillError> {
        let mut client = self.client.clone();
        let opened = client.invoke_stream(self.request_with_trace(caller, request)).await;
        let mut stream = opened.map_err(|status| call_error(&status, may_have_started(&status)))?.into_inner();
        while let Some(event) = stream.message().await.map_err(|status| call_error(&status, true))? {
            match event.event {
                Some(invoke_event::Event::Result(result)) => return Ok(result),
                _ => events(event),
            }
        }
        Err(call_error(&Status::unavailable("the gateway ended the call without a result"), true))
    }

    /// Wraps a message in a request with the turn's trace and the agent's key.
    fn request_with_trace<T>(&self, caller: &Caller, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Ok(id) = MetadataValue::try_from(&caller.trace_id) {
            request.metadata_mut().insert(TRACE_ID, id);
        }
        if let Some(parent) = caller.parent
            && let Ok(parent) = MetadataValue::try_from(parent.to_traceparent())
        {
            request.metadata_mut().insert(TRACEPARENT, parent);
        }
        if let Some(authorization) = &self.authorization {
            // `as_mut` preserves the value's sensitive mark.
            request.metadata_mut().as_mut().insert(AUTHORIZATION, authorization.clone());
        }
        request
    }

    /// Like [`Self::request_with_trace`], with a short timeout, for requests that run no skill.
    fn brief_request<T>(&self, caller: &Caller, message: T) -> Request<T> {
        let mut request = self.request_with_trace(caller, message);
        request.set_timeout(ANSWER_TIMEOUT);
        request
    }
}

#[tonic::async_trait]
impl SkillGateway for RemoteGateway {
    /// The agent's server authenticates users. The gateway only sees the agent's key.
    fn validity(&self, _: &UserIdentity) -> Validity {
        Validity::Valid
    }

    async fn list(&self, caller: &Caller) -> Result<Vec<Skill>, Unreachable> {
        let request = self.brief_request(caller, ListSkillsRequest::default());
        let listed = self.client.clone().list_skills(request).await.map_err(unreachable)?;
        let mut skills = listed.into_inner().skills;
        skills.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(skills)
    }

    async fn export(&self, caller: &Caller, request: ExportToolsRequest) -> Result<ExportToolsResponse, Unreachable> {
        let exported = self.client.clone().export_tools(self.brief_request(caller, request)).await;
        exported.map(tonic::Response::into_inner).map_err(unreachable)
    }

    async fn prepare(&self, caller: &Caller, request: InvokeRequest) -> Result<PreparedCall, Unreachable> {
        let prepared = self.client.clone().prepare_call(self.brief_request(caller, request)).await;
        prepared.map(tonic::Response::into_inner).map_err(unreachable)
    }

    async fn invoke(
        &self,
        caller: &Caller,
        request: InvokeRequest,
        events: &mut (dyn FnMut(InvokeEvent) + Send),
    ) -> SkillResult {
        let skill_id = request.skill_id.clone();
        let result = self.run(caller, request, events).await;
        result.unwrap_or_else(|error| SkillResult {
            skill_id,
            trace_id: caller.trace_id.clone(),
            text: error.message.clone(),
            error: Some(error),
            ..SkillResult::default()
        })
    }

    async fn read_artifact(
        &self,
        caller: &Caller,
        request: ReadArtifactRequest,
    ) -> Result<ReadArtifactResponse, Unreachable> {
        let read = self.client.clone().read_artifact(self.brief_request(caller, request)).await;
        read.map(tonic::Response::into_inner).map_err(unreachable)
    }

    async fn answer(&self, caller: &Caller, response: InputResponse) -> Result<bool, Unreachable> {
        match self.client.clone().answer_input(self.brief_request(caller, response)).await {
            Ok(_) => Ok(true),
            Err(status) if status.code() == Code::NotFound => Ok(false),
            Err(status) => Err(unreachable(status)),
        }
    }
}

fn unreachable(status: Status) -> Unreachable {
    Unreachable(status.message().to_owned())
}

/// Returns whether a call that failed with this status may have started. A gateway that is full or unreachable
/// starts no call.
fn may_have_started(status: &Status) -> bool {
    let is_refusal = matches!(status.code(), Code::ResourceExhausted | Code::InvalidArgument | Code::Unimplemented);
    let mut causes = std::iter::successors(std::error::Error::source(status), |cause| (*cause).source());
    let never_connected = causes.any(|cause| cause.is::<ConnectError>());
    !is_refusal && !never_connected
}

fn call_error(status: &Status, may_have_run: bool) -> SkillError {
    let error = match status.code() {
        Code::ResourceExhausted => SkillError::overloaded(status.message()),
        Code::InvalidArgument => SkillError::new(ErrorCode::InvalidArgument, status.message()),
        Code::DeadlineExceeded => SkillError::new(ErrorCode::Timeout, status.message()),
        _ => SkillError::unavailable(format!("the request to the gateway failed: {}", status.message())),
    };
    let retryable = error.retryable && !may_have_run;
    SkillError { may_have_run, retryable, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_may_have_run_and_a_full_gateway_has_not() {
        let lost = Status::unavailable("connection reset");
        assert!(may_have_started(&lost));
        let lost = call_error(&lost, may_have_started(&lost));
        assert_eq!((lost.code(), lost.may_have_run, lost.retryable), (ErrorCode::Unavailable, true, false));
        let full = Status::resource_exhausted("full");
        let full = call_error(&full, may_have_started(&full));
        assert_eq!((full.code(), full.may_have_run, full.retryable), (ErrorCode::Overloaded, false, true));
    }

    #[tokio::test]
    async fn a_gateway_that_is_not_there_has_run_nothing() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        for host in [format!("127.0.0.1:{port}"), "gateway.invalid:1".to_owned()] {
            let remote = RemoteGateway::new(format!("http://{host}").parse().unwrap(), None, |it| it.connect_lazy());
            let caller = Caller::default();
            assert!(remote.list(&caller).await.is_err());
            let result = remote.invoke(&caller, InvokeRequest::default(), &mut |_| {}).await;
            let error = result.error.unwrap();
            assert_eq!(
                (error.code(), error.may_have_run),
                (ErrorCode::Unavailable, false),
                "{host}: {}",
                error.message
            );
        }
    }
}
