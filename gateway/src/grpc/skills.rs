//! `SkillService`.

use std::sync::Arc;

use futures_util::stream::{BoxStream, StreamExt as _};
use openskill_proto::limits::MAX_ID_BYTES;
use openskill_proto::v1::skill_service_server::SkillService;
use openskill_proto::v1::{
    AnswerInputResponse, CatalogChange, ErrorCode, ExportToolsRequest, ExportToolsResponse, GetSkillRequest, InputResponse,
    InvokeEvent, InvokeRequest, ListSkillsRequest, ListSkillsResponse, ReadArtifactRequest, ReadArtifactResponse, Skill,
    SkillResult, WatchSkillsRequest,
};
use tonic::{Request, Response, Status, Streaming};

use super::{status, watch};
use crate::admission::Permit;
use crate::call::Call;
use crate::gateway::Gateway;
use crate::invoke::{invoke, turn_away};
use crate::recorder::Record;
use crate::{layers, stream as calls, tools};

/// The service on one shard.
pub(crate) struct Skills {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) shard: usize,
}

#[tonic::async_trait]
impl SkillService for Skills {
    type InvokeStreamStream = BoxStream<'static, Result<InvokeEvent, Status>>;
    type InvokeManyStream = BoxStream<'static, Result<InvokeEvent, Status>>;
    type WatchSkillsStream = BoxStream<'static, Result<CatalogChange, Status>>;

    async fn invoke(&self, request: Request<InvokeRequest>) -> Result<Response<SkillResult>, Status> {
        let (call, permit) = self.let_in(request)?;
        let result = invoke(&self.gateway, self.shard, &call, None, permit, Record::begin(&call)).await;
        match &result.error {
            Some(error) if error.code() == ErrorCode::Overloaded => Err(status::of(error)),
            _ => Ok(Response::new(result)),
        }
    }

    async fn invoke_stream(
        &self,
        request: Request<InvokeRequest>,
    ) -> Result<Response<Self::InvokeStreamStream>, Status> {
        let (call, permit) = self.let_in(request)?;
        Ok(Response::new(calls::one(Arc::clone(&self.gateway), self.shard, call, permit).boxed()))
    }

    async fn invoke_many(
        &self,
        request: Request<Streaming<InvokeRequest>>,
    ) -> Result<Response<Self::InvokeManyStream>, Status> {
        let (trace, allowed) = layers::context(request.extensions());
        let requests = request.into_inner();
        let calls = requests.map(move |request| request.map(|request| Call::new(request, trace.clone(), allowed)));
        Ok(Response::new(calls::many(Arc::clone(&self.gateway), self.shard, calls.boxed()).boxed()))
    }

    async fn list_skills(&self, request: Request<ListSkillsRequest>) -> Result<Response<ListSkillsResponse>, Status> {
        let toolset = request.into_inner().toolset;
        let snapshot = self.gateway.catalog.snapshot();
        let wanted = snapshot.values().filter(|entry| toolset.is_empty() || entry.skill.toolset == toolset);
        Ok(Response::new(ListSkillsResponse { skills: wanted.map(|entry| entry.skill.clone()).collect() }))
    }

    async fn get_skill(&self, request: Request<GetSkillRequest>) -> Result<Response<Skill>, Status> {
        let entry = self.gateway.catalog.get(&request.into_inner().skill_id).ok_or_else(status::not_found)?;
        Ok(Response::new(entry.skill.clone()))
    }

    async fn watch_skills(
        &self,
        request: Request<WatchSkillsRequest>,
    ) -> Result<Response<Self::WatchSkillsStream>, Status> {
        let session = request.into_inner().session_id;
        if session.len() > MAX_ID_BYTES {
            return Err(Status::invalid_argument(format!("session_id must be at most {MAX_ID_BYTES} bytes")));
        }
        Ok(Response::new(watch::changes(Arc::clone(&self.gateway), session).boxed()))
    }

    async fn export_tools(
        &self,
        request: Request<ExportToolsRequest>,
    ) -> Result<Response<ExportToolsResponse>, Status> {
        tools::export(&self.gateway, &request.into_inner()).map(Response::new).map_err(|error| status::of(&error))
    }

    async fn answer_input(&self, _: Request<InputResponse>) -> Result<Response<AnswerInputResponse>, Status> {
        Err(Status::not_found("no call waits for this answer"))
    }

    async fn read_artifact(&self, _: Request<ReadArtifactRequest>) -> Result<Response<ReadArtifactResponse>, Status> {
        Err(Status::not_found("there is no such artifact"))
    }
}

impl Skills {
    /// A place for one call, or the status that there is none.
    fn let_in(&self, request: Request<InvokeRequest>) -> Result<(Arc<Call>, Permit), Status> {
        let (trace, allowed) = layers::context(request.extensions());
        let call = Arc::new(Call::new(request.into_inner(), trace, allowed));
        match self.gateway.enter(&call) {
            Ok(permit) => Ok((call, permit)),
            Err(error) => {
                let status = status::of(&error);
                turn_away(&self.gateway, &call, error);
                Err(status)
            }
        }
    }
}
