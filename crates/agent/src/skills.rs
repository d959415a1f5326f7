//! The skills that an agent calls, wherever they are.

use std::fmt;

use futures_util::future::BoxFuture;
use openskill_proto::trace::TraceContext;
use openskill_proto::v1;

/// Whose request something is. Its rights are those of the credential, whatever others the principal has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owner {
    /// The principal. Empty if callers are not identified.
    pub principal: String,
    /// The name of the credential that it showed. No secret. Empty if callers are not identified.
    pub credential: String,
}

/// Whether a credential still counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// It is valid.
    Valid,
    /// It was revoked, or has expired.
    Ended,
    /// This process has not seen it: it may be valid, and counts once its owner shows it again.
    Unknown,
}

/// On whose behalf the agent acts, and under which trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// Whose turn it is.
    pub owner: Owner,
    /// The trace id of the turn: 32 hexadecimal digits, or what the caller of a sub-agent sent.
    pub trace_id: String,
    /// The span that calls are children of, if there is one.
    pub parent: Option<TraceContext>,
}

/// The gateway could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the gateway could not be asked: {0}")]
pub struct Unreachable(pub String);

/// A gateway: in this process, or over gRPC.
pub trait Skills: fmt::Debug + Send + Sync + 'static {
    /// Whether the credential of this owner still counts. Asked for each input of a user, and before each step of a turn.
    fn validity(&self, owner: &Owner) -> Validity;

    /// All skills, sorted by id.
    ///
    /// # Errors
    /// The gateway can't be reached.
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Result<Vec<v1::Skill>, Unreachable>>;

    /// Tool definitions for a model.
    ///
    /// # Errors
    /// The gateway can't be reached, or refuses the request.
    fn export<'a>(
        &'a self,
        caller: &'a Caller,
        request: v1::ExportToolsRequest,
    ) -> BoxFuture<'a, Result<v1::ExportToolsResponse, Unreachable>>;

    /// What a call would run with. Starts nothing.
    ///
    /// # Errors
    /// The gateway can't be reached.
    fn prepare<'a>(
        &'a self,
        caller: &'a Caller,
        request: v1::InvokeRequest,
    ) -> BoxFuture<'a, Result<v1::PreparedCall, Unreachable>>;

    /// Runs a call. `events` gets all events but the result. A lost connection is a result too, with
    /// [`v1::SkillError::may_have_run`]. Dropping the future cancels the call.
    fn invoke<'a>(
        &'a self,
        caller: &'a Caller,
        request: v1::InvokeRequest,
        events: &'a mut (dyn FnMut(v1::InvokeEvent) + Send),
    ) -> BoxFuture<'a, v1::SkillResult>;

    /// Reads a range of an artifact that came as a handle, as [`v1::skill_service_server::SkillService::read_artifact`] does.
    ///
    /// # Errors
    /// It is gone, belongs to somebody else, or the gateway can't be reached.
    fn read_artifact<'a>(
        &'a self,
        caller: &'a Caller,
        request: v1::ReadArtifactRequest,
    ) -> BoxFuture<'a, Result<v1::ReadArtifactResponse, Unreachable>>;

    /// Answers a question of a running call. Whether a call waited for it.
    ///
    /// # Errors
    /// The gateway can't be reached.
    fn answer<'a>(
        &'a self,
        caller: &'a Caller,
        response: v1::InputResponse,
    ) -> BoxFuture<'a, Result<bool, Unreachable>>;
}
