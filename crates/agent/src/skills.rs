//! The interface to the skills that an agent calls, in the same process or remotely.

use openskill_proto::trace::TraceContext;
use openskill_proto::v1;

/// The identity of a user. It has only the rights of the credential, even if the principal has more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserIdentity {
    /// The principal. Empty if callers are not authenticated.
    pub principal: String,
    /// The credential's name (not a secret). Empty if callers are not authenticated.
    pub credential: String,
}

/// Whether a credential is still valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// The credential is valid.
    Valid,
    /// The credential was revoked or has expired.
    Ended,
    /// This process has not seen the credential since it started. It is rejected until its owner presents it
    /// again.
    Unknown,
}

/// The identity and trace context with which the agent calls skills.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// The user on whose behalf the turn runs.
    pub owner: UserIdentity,
    /// The trace id of the turn. It comes from the request that began the turn, or the call that started the
    /// sub-agent.
    pub trace_id: String,
    /// The parent span of the calls, if any.
    pub parent: Option<TraceContext>,
}

impl Caller {
    /// Returns the trace id, or the id of a new trace if it is empty.
    pub(crate) fn trace_id_or_new(&self) -> String {
        match self.trace_id.as_str() {
            "" => format!("{:032x}", rand::random::<u128>().max(1)),
            given => given.to_owned(),
        }
    }
}

/// The gateway could not be reached, for the given reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the request to the gateway failed: {0}")]
pub struct Unreachable(pub String);

/// A gateway, in the same process or over gRPC.
#[tonic::async_trait]
pub trait SkillGateway: Send + Sync + 'static {
    /// Returns whether the owner's credential is still valid. Checked for each user input and before each step of
    /// a turn.
    fn validity(&self, owner: &UserIdentity) -> Validity;

    /// Lists all skills, sorted by id.
    ///
    /// # Errors
    /// The gateway can't be reached.
    async fn list(&self, caller: &Caller) -> Result<Vec<v1::Skill>, Unreachable>;

    /// Returns tool definitions for a model.
    ///
    /// # Errors
    /// The gateway can't be reached or rejects the request.
    async fn export(
        &self,
        caller: &Caller,
        request: v1::ExportToolsRequest,
    ) -> Result<v1::ExportToolsResponse, Unreachable>;

    /// Prepares a call without running it. Returns the skill and the final arguments.
    ///
    /// # Errors
    /// The gateway can't be reached.
    async fn prepare(&self, caller: &Caller, request: v1::InvokeRequest) -> Result<v1::PreparedCall, Unreachable>;

    /// Runs a call. `events` receives all events except for the result. If the connection is lost, the result is
    /// an error with [`v1::SkillError::may_have_run`]. Dropping the future cancels the call.
    async fn invoke(
        &self,
        caller: &Caller,
        request: v1::InvokeRequest,
        events: &mut (dyn FnMut(v1::InvokeEvent) + Send),
    ) -> v1::SkillResult;

    /// Reads a range of an artifact that the result refers to, like
    /// [`v1::skill_service_server::SkillService::read_artifact`].
    ///
    /// # Errors
    /// The artifact no longer exists or belongs to another principal, or the gateway can't be reached.
    async fn read_artifact(
        &self,
        caller: &Caller,
        request: v1::ReadArtifactRequest,
    ) -> Result<v1::ReadArtifactResponse, Unreachable>;

    /// Answers a question of a running call. Returns whether a call was waiting for the answer.
    ///
    /// # Errors
    /// The gateway can't be reached.
    async fn answer(&self, caller: &Caller, response: v1::InputResponse) -> Result<bool, Unreachable>;
}
