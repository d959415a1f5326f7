//! From the result of a call to the message that its client gets.

use std::sync::Arc;

use openskill_proto::v1::skill_error::More;
use openskill_proto::v1::{ErrorCode, SkillError, SkillResult};
use serde::Deserialize;

use super::content;
use super::jsonrpc::{self, Code, Fault, Id};
use crate::call::principal::{GovernedSkill, Principal};
use crate::catalog::entry::Entry;
use crate::gateway::Shard;
use crate::mcp::owner::Owner;
use crate::mcp::revision::Revision;
use crate::mcp::session::Abilities;
use crate::state::limits::{SMALL, SharedLimit};

/// Makes answers of one request.
pub(super) struct Reply {
    pub(super) shard: Shard,
    pub(super) id: Id,
    revision: Revision,
    entry: Option<Arc<Entry>>,
    pub(super) principal: Principal,
    /// Whose is what the client comes back for.
    pub(super) owner: Owner,
    /// What the client said that it can be asked for.
    abilities: Abilities,
}

impl Reply {
    /// `entry`: the tool. None if there is none.
    pub(super) fn new(
        (shard, principal, owner): (Shard, Principal, Owner),
        id: Id,
        revision: Revision,
        entry: Option<Arc<Entry>>,
        abilities: Abilities,
    ) -> Self {
        Self { shard, id, revision, entry, principal, owner, abilities }
    }

    /// The skill that the result comes of, as policies see it.
    pub(super) fn skill(&self) -> GovernedSkill {
        self.entry.as_ref().map(|it| GovernedSkill::from(&it.skill)).unwrap_or_default()
    }

    /// The message with the result. A tool that does not exist is an error of the request; all else is for the model.
    pub(super) async fn message(&self, result: SkillResult) -> Result<String, Fault> {
        Ok(jsonrpc::result(&self.id, &self.result(result).await?))
    }

    /// The result alone, a JSON object.
    pub(super) async fn result(&self, result: SkillResult) -> Result<String, Fault> {
        let is_unknown = |error: &SkillError| error.code() == ErrorCode::NotFound && self.entry.is_none();
        if let Some(error) = result.error.as_ref().filter(|it| is_unknown(it)) {
            return Err(Fault::new(Code::InvalidParams, error.message.clone()));
        }
        if self.revision.is_stateless()
            && let Some(missed) = result.error.as_ref().and_then(|it| missed(it, self.abilities))
        {
            let message = "the tool asks the client for something that it does not declare";
            return Err(Fault::new(Code::MissingCapability, message).with_data(required(missed)));
        }
        let gateway = &self.shard.gateway;
        // Before it is written: with the escapes of a text in a text, it takes about twice as much.
        let mut share = gateway.share(SharedLimit::Responses, &self.principal);
        let size = prost::Message::encoded_len(&result);
        if size > SMALL && !share.grow(3 * size) {
            return Err(Self::dropped());
        }
        let text = content::of(result, self.entry.clone(), gateway, &self.owner, self.revision).await;
        match text.len() <= SMALL || share.resize(text.len()) {
            true => Ok(text),
            false => Err(Self::dropped()),
        }
    }

    /// The error in place of a result that there is no room for.
    pub(super) fn dropped() -> Fault {
        let message = "the tool ran, but its result was dropped: this caller, or others, have too many responses that they \
                       do not read";
        Fault::new(Code::Internal, message)
    }
}

/// What a skill asked for and its client does not declare, if that is why it failed.
fn missed(error: &SkillError, abilities: Abilities) -> Option<&'static str> {
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

/// The data of an error that says what a client would have to declare.
fn required(capability: &str) -> String {
    format!("{{\"requiredCapabilities\":{{\"{capability}\":{{}}}}}}")
}
