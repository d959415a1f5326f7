//! Serves `AgentService` over gRPC.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::stream::{BoxStream, StreamExt as _, TryStreamExt as _};
use openskill_proto::limits::MAX_REQUEST_BYTES;
use openskill_proto::metadata::ERROR_DOMAIN;
use openskill_proto::v1::agent_service_server::{AgentService, AgentServiceServer};
use openskill_proto::v1::{
    ChatEvent, ChatRequest, Conversation, DeleteConversationRequest, DeleteConversationResponse,
    GetConversationRequest, ListConversationsRequest, ListConversationsResponse, SkillError, WatchConversationRequest,
};
use tonic::{Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::stream::{Inputs, exchange};
use super::{Served, refusal};
use crate::agent::Input;
use crate::error::AgentError;

/// The service name, for health checks and reflection.
pub use openskill_proto::v1::agent_service_server::SERVICE_NAME;

/// The gRPC service implementation.
#[derive(Debug, Clone)]
pub struct Service(Served);

/// Returns the service, ready to be mounted on a server.
pub fn service(served: Served) -> AgentServiceServer<Service> {
    AgentServiceServer::new(Service(served)).max_decoding_message_size(MAX_REQUEST_BYTES)
}

#[tonic::async_trait]
impl AgentService for Service {
    type ChatStream = BoxStream<'static, Result<ChatEvent, Status>>;
    type WatchConversationStream = BoxStream<'static, Result<ChatEvent, Status>>;

    async fn chat(&self, request: Request<Streaming<ChatRequest>>) -> Result<Response<Self::ChatStream>, Status> {
        let caller = self.0.caller(request.extensions());
        let mut requests = request.into_inner();
        let Some(first) = requests.message().await? else {
            return Err(status(&refusal::invalid("the stream has no request: send a message first")));
        };
        let conversation = first.conversation_id.clone();
        let agent = self.0.hosted.clone();
        let accepted = agent.send(&caller, &conversation, input(first)?).await?;
        let inputs: Inputs<Status> = requests.map(|request| request.and_then(input)).boxed();
        Ok(Response::new(exchange(agent, caller, accepted, Some(inputs)).boxed()))
    }

    async fn watch_conversation(
        &self,
        request: Request<WatchConversationRequest>,
    ) -> Result<Response<Self::WatchConversationStream>, Status> {
        let principal = self.0.principal(request.extensions());
        let WatchConversationRequest { conversation_id, after, no_follow } = request.into_inner();
        let events = self.0.hosted.agent.events(&principal, &conversation_id, after, !no_follow).await?;
        Ok(Response::new(events.map_err(Status::from).boxed()))
    }

    async fn list_conversations(
        &self,
        request: Request<ListConversationsRequest>,
    ) -> Result<Response<ListConversationsResponse>, Status> {
        let principal = self.0.principal(request.extensions());
        let ListConversationsRequest { limit, cursor } = request.into_inner();
        Ok(Response::new(self.0.hosted.agent.journal().list(&principal, limit, &cursor).await?))
    }

    async fn get_conversation(
        &self,
        request: Request<GetConversationRequest>,
    ) -> Result<Response<Conversation>, Status> {
        let principal = self.0.principal(request.extensions());
        Ok(Response::new(self.0.hosted.agent.journal().get(&principal, &request.into_inner().conversation_id).await?))
    }

    async fn delete_conversation(
        &self,
        request: Request<DeleteConversationRequest>,
    ) -> Result<Response<DeleteConversationResponse>, Status> {
        let principal = self.0.principal(request.extensions());
        self.0.hosted.delete(&principal, &request.into_inner().conversation_id).await?;
        Ok(Response::new(DeleteConversationResponse {}))
    }
}

fn input(request: ChatRequest) -> Result<Input, Status> {
    let missing = || status(&refusal::invalid("set one of message, answers, decision and cancel"));
    request.request.ok_or_else(missing)
}

impl From<AgentError> for Status {
    fn from(error: AgentError) -> Self {
        status(&error.into())
    }
}

/// Converts an error into a gRPC status with `google.rpc` details.
fn status(error: &SkillError) -> Status {
    let code = error.code();
    let mut details = ErrorDetails::new();
    details.set_error_info(code.as_str_name(), ERROR_DOMAIN, HashMap::new());
    if error.retryable {
        details.set_retry_info(Some(Duration::from_millis(error.retry_after_ms)));
    }
    Status::with_error_details(code.meaning().grpc.into(), error.message.clone(), details)
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn a_status_says_which_code_and_when_to_retry() {
        let full = Status::from(AgentError::TooManyTurns(7));
        assert_eq!(full.code(), Code::ResourceExhausted);
        let details = full.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "OVERLOADED");
        assert!(details.retry_info().is_some());
        let missing = Status::from(AgentError::NoConversation);
        assert_eq!(missing.code(), Code::NotFound);
        assert!(missing.get_error_details().retry_info().is_none());
    }

    #[test]
    fn a_request_without_content_is_refused_with_what_to_send() {
        let refused = input(ChatRequest::default()).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("decision"), "{}", refused.message());
    }
}
