//! `TraceService`: lists and cancels running calls, and reads recorded ones.

use futures_util::stream::{self, BoxStream, StreamExt as _};
use openskill_proto::v1::trace_service_server::TraceService;
use openskill_proto::v1::{
    CancelCallRequest, CancelCallResponse, FollowTracesRequest, FollowTracesResponse, GetTraceRequest,
    GetTraceResponse, ListCallsRequest, ListCallsResponse, ListTracesRequest, ListTracesResponse,
};
use tonic::{Request, Response, Status};

use crate::serve::layers::request_context;
use crate::serve::traces::{NoTraces, Traces};

#[tonic::async_trait]
impl TraceService for Traces {
    type FollowTracesStream = BoxStream<'static, Result<FollowTracesResponse, Status>>;

    async fn list_calls(&self, request: Request<ListCallsRequest>) -> Result<Response<ListCallsResponse>, Status> {
        let reader = self.reader(request.extensions());
        Traces::list_calls(self, request.get_ref(), &reader).map(Response::new).map_err(status)
    }

    async fn cancel_call(&self, request: Request<CancelCallRequest>) -> Result<Response<CancelCallResponse>, Status> {
        let reader = self.reader(request.extensions());
        let by = request_context(request.extensions()).principal;
        let cancelled = Traces::cancel_call(self, request.get_ref(), &reader, by.name());
        cancelled.map(Response::new).map_err(status)
    }

    async fn list_traces(&self, request: Request<ListTracesRequest>) -> Result<Response<ListTracesResponse>, Status> {
        let reader = self.reader(request.extensions());
        self.list(request.into_inner(), reader).await.map(Response::new).map_err(status)
    }

    async fn get_trace(&self, request: Request<GetTraceRequest>) -> Result<Response<GetTraceResponse>, Status> {
        let reader = self.reader(request.extensions());
        self.get(request.into_inner().id, reader).await.map(Response::new).map_err(status)
    }

    async fn follow_traces(
        &self,
        request: Request<FollowTracesRequest>,
    ) -> Result<Response<Self::FollowTracesStream>, Status> {
        let reader = self.reader(request.extensions());
        let following = self.follow(request.into_inner().filter, &reader).map_err(status)?;
        let shutdown = self.shard.gateway.shutdown.clone();
        let batches = stream::unfold((following, shutdown), async |(mut following, shutdown)| {
            let calls = shutdown.run_until_cancelled(following.next()).await??;
            Some((stream::iter(calls.into_iter().map(Ok)), (following, shutdown)))
        });
        Ok(Response::new(batches.flatten().boxed()))
    }
}

fn status(error: NoTraces) -> Status {
    let message = error.to_string();
    match error {
        NoTraces::Elsewhere => Status::permission_denied(message),
        NoTraces::Off | NoTraces::SeveralPrincipals => Status::failed_precondition(message),
        NoTraces::UnknownId | NoTraces::NotRunning => Status::not_found(message),
        NoTraces::UnknownCursor => Status::invalid_argument(message),
    }
}
