//! `SkillService`: runs skills and lists the catalog.

use std::sync::Arc;

use futures_util::stream::{BoxStream, StreamExt as _};
use openskill_proto::limits::MAX_ID_BYTES;
use openskill_proto::v1::skill_service_server::SkillService;
use openskill_proto::v1::{
    AnswerInputResponse, CatalogChange, ErrorCode, ExportToolsRequest, ExportToolsResponse, GetSkillRequest,
    InputResponse, InvokeEvent, InvokeRequest, ListSkillsRequest, ListSkillsResponse, PreparedCall,
    ReadArtifactRequest, ReadArtifactResponse, Skill, SkillError, SkillResult, WatchSkillsRequest,
};
use tonic::{Request, Response, Status, Streaming};

use super::{status, watch};
use crate::call::reading;
use crate::call::request::{Call, RequestContext};
use crate::gateway::Shard;
use crate::invoke::{invoke, refuse};
use crate::long_running::answers::answer;
use crate::observe::call_record::CallRecord;
use crate::prepare::prepare;
use crate::protect::admission::Permit;
use crate::serve::artifacts;
use crate::serve::layers::request_context;
use crate::serve::tools;
use crate::streams::{self, Message};

/// The service on one shard.
pub(crate) struct GrpcSkills {
    pub(crate) shard: Shard,
}

#[tonic::async_trait]
impl SkillService for GrpcSkills {
    type InvokeStreamStream = BoxStream<'static, Result<InvokeEvent, Status>>;
    type InvokeManyStream = BoxStream<'static, Result<InvokeEvent, Status>>;
    type WatchSkillsStream = BoxStream<'static, Result<CatalogChange, Status>>;

    async fn invoke(&self, request: Request<InvokeRequest>) -> Result<Response<SkillResult>, Status> {
        let (call, permit) = self.admit(request).await?;
        let record = CallRecord::begin(&self.shard.gateway.observer, &call);
        let result = invoke(&self.shard, call, permit, None, record).await;
        match &result.error {
            Some(error) if error.is_status() => Err(status::from_error(error)),
            _ => Ok(Response::new(result)),
        }
    }

    async fn invoke_stream(
        &self,
        request: Request<InvokeRequest>,
    ) -> Result<Response<Self::InvokeStreamStream>, Status> {
        let (call, permit) = self.admit(request).await?;
        let events = streams::one(self.shard.clone(), call, permit);
        let events = events.map(|event| event.map_err(|error| status::from_error(&error)));
        Ok(Response::new(events.boxed()))
    }

    async fn invoke_many(
        &self,
        request: Request<Streaming<InvokeRequest>>,
    ) -> Result<Response<Self::InvokeManyStream>, Status> {
        let context = request_context(request.extensions());
        let requests = request.into_inner();
        let shard = self.shard.clone();
        let messages = requests.then(move |request| {
            let (shard, context) = (shard.clone(), context.clone());
            async move { Ok(message(&shard, request?, context).await) }
        });
        let events = streams::many(self.shard.clone(), messages.boxed(), |error| status::from_error(&error));
        Ok(Response::new(events.boxed()))
    }

    async fn list_skills(&self, request: Request<ListSkillsRequest>) -> Result<Response<ListSkillsResponse>, Status> {
        let principal = request_context(request.extensions()).principal;
        let toolset = request.into_inner().toolset;
        let snapshot = self.shard.gateway.catalog.snapshot_for(&principal);
        let wanted = snapshot.values().filter(|entry| toolset.is_empty() || entry.skill.toolset == toolset);
        Ok(Response::new(ListSkillsResponse { skills: wanted.map(|entry| entry.skill.clone()).collect() }))
    }

    async fn get_skill(&self, request: Request<GetSkillRequest>) -> Result<Response<Skill>, Status> {
        let principal = request_context(request.extensions()).principal;
        let entry = self.shard.gateway.catalog.shown_to(&request.into_inner().skill_id, &principal);
        let entry = entry.ok_or_else(status::not_found)?;
        Ok(Response::new(entry.skill.clone()))
    }

    async fn watch_skills(
        &self,
        request: Request<WatchSkillsRequest>,
    ) -> Result<Response<Self::WatchSkillsStream>, Status> {
        let principal = request_context(request.extensions()).principal;
        let session = request.into_inner().session_id;
        if session.len() > MAX_ID_BYTES {
            return Err(Status::invalid_argument(format!("session_id must be at most {MAX_ID_BYTES} bytes")));
        }
        Ok(Response::new(watch::changes(Arc::clone(&self.shard.gateway), principal, session).boxed()))
    }

    async fn export_tools(
        &self,
        request: Request<ExportToolsRequest>,
    ) -> Result<Response<ExportToolsResponse>, Status> {
        let principal = request_context(request.extensions()).principal;
        let exported = tools::export(&self.shard.gateway, &principal, &request.into_inner());
        exported.map(Response::new).map_err(|error| status::from_error(&error))
    }

    async fn prepare_call(&self, request: Request<InvokeRequest>) -> Result<Response<PreparedCall>, Status> {
        let context = request_context(request.extensions());
        let call = Arc::new(read(&self.shard, request.into_inner(), context).await);
        Ok(Response::new(prepare(&self.shard, &call).await))
    }

    async fn answer_input(&self, request: Request<InputResponse>) -> Result<Response<AnswerInputResponse>, Status> {
        let principal = request_context(request.extensions()).principal;
        let answered = answer(&self.shard, &principal, request.into_inner()).await;
        answered.map(|()| Response::new(AnswerInputResponse {})).map_err(|error| status::from_error(&error))
    }

    async fn read_artifact(
        &self,
        request: Request<ReadArtifactRequest>,
    ) -> Result<Response<ReadArtifactResponse>, Status> {
        let principal = request_context(request.extensions()).principal;
        let read = artifacts::read(&self.shard, &principal, request.into_inner()).await;
        read.map(Response::new).map_err(|error| status::from_error(&error))
    }
}

impl GrpcSkills {
    /// Admits one call, or returns the status that refuses it.
    async fn admit(&self, request: Request<InvokeRequest>) -> Result<(Arc<Call>, Permit), Status> {
        let context = request_context(request.extensions());
        let call = Arc::new(read(&self.shard, request.into_inner(), context).await);
        match self.shard.gateway.admit(&call) {
            Ok(permit) => Ok((call, permit)),
            Err(refusal) => {
                let error = refusal.into();
                let status = status::from_error(&error);
                refuse(&self.shard, &call, error);
                Err(status)
            }
        }
    }
}

/// Turns a message of `InvokeMany` into a call, or into the answer to a call's question.
async fn message(shard: &Shard, mut request: InvokeRequest, context: RequestContext) -> Message {
    let is_call = request.arguments.is_some() || !request.skill_id.is_empty();
    match request.input_response.take() {
        Some(_) if is_call => {
            let mut call = read(shard, request, context).await;
            let message = "send input_response in a separate message: this one is also a call";
            call.fault = Some(SkillError::new(ErrorCode::InvalidArgument, message));
            Message::Call(Arc::new(call))
        }
        Some(response) => Message::Answer { call_id: request.call_id, principal: context.principal, response },
        None => Message::Call(Arc::new(read(shard, request, context).await)),
    }
}

async fn read(shard: &Shard, request: InvokeRequest, context: RequestContext) -> Call {
    let gateway = &shard.gateway;
    reading::read(&gateway.blocking_pool, gateway.config.default_timeout, request, context).await
}
