//! Lets the in-process agent call the skills of this gateway. Its calls take the same path as a client's:
//! admission, circuit breakers, idempotency keys, records.

use std::sync::Arc;

use futures_util::StreamExt as _;
use openskill_agent::skills::{Caller, SkillGateway, Unreachable, UserIdentity, Validity};
use openskill_proto::trace::Trace;
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{
    Blame, ErrorCode, ExportToolsRequest, ExportToolsResponse, InputResponse, InvokeEvent, InvokeRequest, PreparedCall,
    ReadArtifactRequest, ReadArtifactResponse, Skill, SkillError, SkillResult,
};

use crate::call::outcome::Outcome;
use crate::call::principal::Principal;
use crate::call::reading;
use crate::call::request::{Call, RequestContext};
use crate::call::result::result;
use crate::gateway::Shard;
use crate::invoke::refuse;
use crate::prepare::prepare;
use crate::serve::{artifacts, tools};
use crate::streams;

struct InProcess(Shard);

/// Makes the skills of `shard`'s gateway available to the agent.
pub(super) fn in_process(shard: Shard) -> Arc<dyn SkillGateway> {
    Arc::new(InProcess(shard))
}

#[tonic::async_trait]
impl SkillGateway for InProcess {
    fn validity(&self, owner: &UserIdentity) -> Validity {
        let is_known = || self.0.gateway.registry.as_ref().is_none_or(|it| it.knows(&owner.credential));
        match () {
            () if self.principal(owner).is_valid() => Validity::Valid,
            () if is_known() => Validity::Ended,
            () => Validity::Unknown,
        }
    }

    async fn list(&self, caller: &Caller) -> Result<Vec<Skill>, Unreachable> {
        let principal = self.principal(&caller.owner);
        let snapshot = self.0.gateway.catalog.snapshot_for(&principal);
        Ok(snapshot.values().map(|entry| entry.skill.clone()).collect())
    }

    async fn export(&self, caller: &Caller, request: ExportToolsRequest) -> Result<ExportToolsResponse, Unreachable> {
        let exported = tools::export(&self.0.gateway, &self.principal(&caller.owner), &request);
        exported.map_err(|error| Unreachable(error.message))
    }

    async fn prepare(&self, caller: &Caller, request: InvokeRequest) -> Result<PreparedCall, Unreachable> {
        Ok(prepare(&self.0, &self.read(caller, request).await).await)
    }

    async fn invoke(
        &self,
        caller: &Caller,
        request: InvokeRequest,
        events: &mut (dyn FnMut(InvokeEvent) + Send),
    ) -> SkillResult {
        let call = self.read(caller, request).await;
        let permit = match self.0.gateway.admit(&call) {
            Ok(permit) => permit,
            Err(refusal) => return refuse(&self.0, &call, refusal.into()),
        };
        let mut happened = streams::one(self.0.clone(), Arc::clone(&call), permit).boxed();
        let error = loop {
            match happened.next().await {
                Some(Ok(InvokeEvent { event: Some(Event::Result(result)), .. })) => return result,
                Some(Ok(event)) => events(event),
                Some(Err(error)) => break error,
                None => {
                    let error = SkillError::new(ErrorCode::Internal, "the call ended without a result");
                    break error.with_blame(Blame::Gateway);
                }
            }
        };
        // The call was admitted, so the skill may have run.
        result(&call, Outcome { may_have_run: true, ..Outcome::from_error(error) }.with_retry_advice(false, false))
    }

    async fn read_artifact(
        &self,
        caller: &Caller,
        request: ReadArtifactRequest,
    ) -> Result<ReadArtifactResponse, Unreachable> {
        let principal = self.principal(&caller.owner);
        artifacts::read(&self.0, &principal, request).await.map_err(|error| Unreachable(error.message))
    }

    async fn answer(&self, caller: &Caller, response: InputResponse) -> Result<bool, Unreachable> {
        let (questions, principal) = (&self.0.gateway.questions, self.principal(&caller.owner));
        match questions.answer(&principal, response, self.0.number).await {
            Ok(()) => Ok(true),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(false),
            Err(error) => Err(Unreachable(error.message)),
        }
    }
}

impl InProcess {
    /// Looks up the rights that the credential currently has.
    fn principal(&self, owner: &UserIdentity) -> Principal {
        self.0.gateway.principal(&owner.principal, &owner.credential)
    }

    async fn read(&self, caller: &Caller, request: InvokeRequest) -> Arc<Call> {
        let parent = caller.parent.map(|it| it.to_traceparent());
        let parent = parent.as_deref().map(str::as_bytes);
        let trace = Trace::from_headers(Some(caller.trace_id.as_bytes()), parent, None);
        let principal = self.principal(&caller.owner);
        let context = RequestContext { trace, principal, ..RequestContext::unknown() };
        let gateway = &self.0.gateway;
        Arc::new(reading::read(&gateway.blocking_pool, gateway.config.default_timeout, request, context).await)
    }
}
