//! Renders the result of a call as a message to its client.

use std::sync::Arc;

use openskill_proto::v1::skill_error::More;
use openskill_proto::v1::{ErrorCode, SkillError, SkillResult};
use serde::Deserialize;

use super::content;
use super::jsonrpc::{self, Code, Id, RpcError, invalid_params};
use crate::call::principal::{GovernedSkill, Principal};
use crate::catalog::entry::Entry;
use crate::gateway::Shard;
use crate::mcp::owner::Owner;
use crate::mcp::revision::Revision;
use crate::mcp::session::Abilities;
use crate::state::limits::{SMALL, SharedLimit};

/// Renders the response to a tool call.
pub(super) struct ToolReply {
    pub(super) shard: Shard,
    pub(super) id: Id,
    pub(super) revision: Revision,
    /// The skill. None if it does not exist.
    pub(super) entry: Option<Arc<Entry>>,
    pub(super) principal: Principal,
    /// The owner of the call's task, stream or long result.
    pub(super) owner: Owner,
    /// The kinds of questions that the client declared.
    pub(super) abilities: Abilities,
}

impl ToolReply {
    /// The properties of the skill that policies check.
    pub(super) fn skill(&self) -> GovernedSkill {
        self.entry.as_ref().map(|it| GovernedSkill::from(&it.skill)).unwrap_or_default()
    }

    /// Renders the message with the result. A nonexistent tool is a protocol error. All other errors become results
    /// for the model.
    pub(super) async fn message(&self, result: SkillResult) -> Result<String, RpcError> {
        Ok(jsonrpc::result(&self.id, &self.result(result).await?))
    }

    /// Renders only the result, as a JSON object.
    pub(super) async fn result(&self, result: SkillResult) -> Result<String, RpcError> {
        let is_unknown = |error: &SkillError| error.code() == ErrorCode::NotFound && self.entry.is_none();
        if let Some(error) = result.error.as_ref().filter(|it| is_unknown(it)) {
            return Err(invalid_params(error.message.clone()));
        }
        if self.revision.is_stateless()
            && let Some(capability) = result.error.as_ref().and_then(|it| missing_capability(it, self.abilities))
        {
            let message = "the tool requires a capability that the client does not declare";
            return Err(RpcError::new(Code::MissingCapability, message).with_data(required_capabilities(capability)));
        }
        let gateway = &self.shard.gateway;
        // Reserve memory before writing: nested escapes about double the size.
        let mut share = gateway.share(SharedLimit::Responses, &self.principal);
        let size = prost::Message::encoded_len(&result);
        if size > SMALL && !share.grow(3 * size) {
            return Err(Self::dropped_result());
        }
        let text = content::render_result(result, self.entry.clone(), gateway, &self.owner, self.revision).await;
        match text.len() <= SMALL || share.resize(text.len()) {
            true => Ok(text),
            false => Err(Self::dropped_result()),
        }
    }

    /// The error that replaces a result that does not fit into memory.
    pub(super) fn dropped_result() -> RpcError {
        let message = "the tool ran, but its result was dropped: this caller, or others, have too many responses that they \
                       do not read";
        RpcError::new(Code::Internal, message)
    }
}

/// Returns the client capability that a failed call lacked, if that is why it failed.
fn missing_capability(error: &SkillError, abilities: Abilities) -> Option<&'static str> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Details {
        capability: String,
    }
    if error.code() != ErrorCode::AskUserUnavailable {
        return None;
    }
    let Some(More::DetailsJson(details)) = &error.more else {
        return (!abilities.elicitation).then_some("elicitation");
    };
    let Details { capability } = serde_json::from_str(details).unwrap_or_default();
    match capability.as_str() {
        "sampling" => (!abilities.sampling).then_some("sampling"),
        "roots" => (!abilities.roots).then_some("roots"),
        _ => (!abilities.elicitation).then_some("elicitation"),
    }
}

/// Builds the error data that names the capability that a client must declare.
fn required_capabilities(capability: &str) -> String {
    format!("{{\"requiredCapabilities\":{{\"{capability}\":{{}}}}}}")
}
