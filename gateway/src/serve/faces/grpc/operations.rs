//! `OperationService` and `google.longrunning.Operations`: calls that outlive their requests.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use openskill_proto::longrunning::operations_server::Operations;
use openskill_proto::longrunning::{
    CancelOperationRequest, DeleteOperationRequest, GetOperationRequest, ListOperationsRequest, ListOperationsResponse,
    Operation, WaitOperationRequest,
};
use openskill_proto::v1::operation_service_server::OperationService;
use openskill_proto::v1::{
    OperationEvent, ReadArtifactRequest, ReadArtifactResponse, ReadOperationArtifactRequest, RetryOperationRequest,
    SkillError, SubmitRequest, WatchOperationRequest,
};
use tonic::{Request, Response, Status};

use super::super::operation_message::{operation, page};
use super::status;
use crate::gateway::Shard;
use crate::long_running::LongRunning;
use crate::long_running::watch::watch;
use crate::serve::layers::request_context;

/// How long before the deadline of a request `WaitOperation` answers.
const ANSWER_TIME: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(crate) struct GrpcOperations {
    pub(crate) shard: Shard,
}

impl GrpcOperations {
    fn own(&self) -> &LongRunning {
        &self.shard.gateway.long_running
    }
}

#[tonic::async_trait]
impl OperationService for GrpcOperations {
    type ReadArtifactStream = BoxStream<'static, Result<ReadArtifactResponse, Status>>;
    type WatchOperationStream = BoxStream<'static, Result<OperationEvent, Status>>;

    async fn submit(&self, request: Request<SubmitRequest>) -> Result<Response<Operation>, Status> {
        let context = request_context(request.extensions());
        answer(self.own().submit(&self.shard, request.into_inner(), context).await.map(operation))
    }

    async fn watch_operation(
        &self,
        request: Request<WatchOperationRequest>,
    ) -> Result<Response<Self::WatchOperationStream>, Status> {
        let principal = request_context(request.extensions()).principal;
        let WatchOperationRequest { name, after } = request.into_inner();
        let events = watch(&self.shard.gateway, principal, &name, after);
        Ok(Response::new(events.map(|event| event.map_err(|error| status::from_error(&error))).boxed()))
    }

    async fn retry_operation(&self, request: Request<RetryOperationRequest>) -> Result<Response<Operation>, Status> {
        let context = request_context(request.extensions());
        answer(self.own().retry(&self.shard, &request.into_inner().name, context).await.map(operation))
    }

    async fn read_artifact(
        &self,
        request: Request<ReadOperationArtifactRequest>,
    ) -> Result<Response<Self::ReadArtifactStream>, Status> {
        let principal = request_context(request.extensions()).principal;
        let ReadOperationArtifactRequest { name, number, offset, length } = request.into_inner();
        let id = name.strip_prefix("operations/").unwrap_or(&name);
        let range = ReadArtifactRequest { handle: format!("operations/{id}/artifacts/{number}"), offset, length };
        let gateway = Arc::clone(&self.shard.gateway);
        let pieces = stream::try_unfold(Some(range), move |range| {
            let (gateway, principal) = (Arc::clone(&gateway), principal.clone());
            async move {
                let Some(range) = range else { return Ok(None) };
                let piece = gateway.long_running.read_artifact(&principal, &range).await;
                let piece = piece.map_err(|error| status::from_error(&error))?;
                let next = next_range(range, &piece);
                Ok(Some((piece, next)))
            }
        });
        Ok(Response::new(pieces.boxed()))
    }
}

#[tonic::async_trait]
impl Operations for GrpcOperations {
    async fn list_operations(
        &self,
        request: Request<ListOperationsRequest>,
    ) -> Result<Response<ListOperationsResponse>, Status> {
        let principal = request_context(request.extensions()).principal;
        answer(self.own().list(&principal, request.get_ref()).await.map(|it| page(&it)))
    }

    async fn get_operation(&self, request: Request<GetOperationRequest>) -> Result<Response<Operation>, Status> {
        let principal = request_context(request.extensions()).principal;
        answer(self.own().get(&principal, &request.get_ref().name).await.map(operation))
    }

    async fn delete_operation(&self, request: Request<DeleteOperationRequest>) -> Result<Response<()>, Status> {
        let principal = request_context(request.extensions()).principal;
        answer(self.own().delete(&principal, &request.get_ref().name).await)
    }

    async fn cancel_operation(&self, request: Request<CancelOperationRequest>) -> Result<Response<()>, Status> {
        let principal = request_context(request.extensions()).principal;
        answer(self.own().cancel(&principal, &request.get_ref().name).await)
    }

    async fn wait_operation(&self, request: Request<WaitOperationRequest>) -> Result<Response<Operation>, Status> {
        let context = request_context(request.extensions());
        let WaitOperationRequest { name, timeout } = request.into_inner();
        let asked = timeout.map(|it| Duration::try_from(it).unwrap_or_default());
        let deadline = context.timeout.map(|it| it.saturating_sub(ANSWER_TIME));
        let timeout = [asked, deadline].into_iter().flatten().min().unwrap_or(Duration::MAX);
        answer(self.own().wait(&context.principal, &name, timeout).await.map(operation))
    }
}

/// The range after a piece. None if nothing is left.
fn next_range(range: ReadArtifactRequest, piece: &ReadArtifactResponse) -> Option<ReadArtifactRequest> {
    let (read, ReadArtifactRequest { handle, offset, length }) = (piece.data.len() as u64, range);
    let is_last = read == 0 || read == length || offset + read >= piece.size_bytes;
    // 0 means all.
    (!is_last).then(|| ReadArtifactRequest { handle, offset: offset + read, length: length.saturating_sub(read) })
}

fn answer<T>(outcome: Result<T, SkillError>) -> Result<Response<T>, Status> {
    outcome.map(Response::new).map_err(|error| status::from_error(&error))
}
