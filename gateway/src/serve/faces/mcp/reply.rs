//! From the result of a call to the message that its client gets.

use std::sync::Arc;

use openskill_proto::v1::{ErrorCode, SkillError, SkillResult};

use super::content;
use super::jsonrpc::{self, Code, Fault, Id};
use crate::call::principal::Principal;
use crate::catalog::entry::Entry;
use crate::gateway::Shard;
use crate::mcp::revision::Revision;

/// Makes answers of one request.
pub(super) struct Reply {
    shard: Shard,
    pub(super) id: Id,
    revision: Revision,
    entry: Option<Arc<Entry>>,
    /// Whose call it is.
    principal: Principal,
    /// Whether the client said that it can ask its user.
    can_ask: bool,
}

impl Reply {
    /// `entry`: the tool. None if there is none.
    pub(super) fn new(
        shard: Shard,
        id: Id,
        revision: Revision,
        entry: Option<Arc<Entry>>,
        (principal, can_ask): (Principal, bool),
    ) -> Self {
        Self { shard, id, revision, entry, principal, can_ask }
    }

    /// The message with the result. A tool that does not exist is an error of the request; all else is for the model.
    pub(super) async fn message(&self, result: SkillResult) -> Result<String, Fault> {
        let is_unknown = |error: &SkillError| error.code() == ErrorCode::NotFound && self.entry.is_none();
        if let Some(error) = result.error.as_ref().filter(|it| is_unknown(it)) {
            return Err(Fault::new(Code::InvalidParams, error.message.clone()));
        }
        let has_asked = |error: &SkillError| error.code() == ErrorCode::AskUserUnavailable;
        if self.revision.is_stateless() && !self.can_ask && result.error.as_ref().is_some_and(has_asked) {
            let fault = Fault::new(Code::MissingCapability, "the tool asks its user, and the client can't");
            return Err(fault.with_data("{\"requiredCapabilities\":{\"elicitation\":{}}}".to_owned()));
        }
        let result = content::of(result, self.entry.clone(), &self.shard.gateway, &self.principal, self.revision).await;
        Ok(jsonrpc::result(&self.id, &result))
    }
}
