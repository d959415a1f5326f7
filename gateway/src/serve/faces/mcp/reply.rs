//! From the result of a call to the message that answers its request.

use std::sync::Arc;

use openskill_proto::v1::{ErrorCode, SkillError, SkillResult};

use super::content;
use super::jsonrpc::{self, Code, Fault, Id};
use crate::catalog::entry::Entry;
use crate::gateway::Shard;
use crate::mcp::revision::Revision;

/// Makes answers of one request.
pub(super) struct Reply {
    pub(super) shard: Shard,
    pub(super) id: Id,
    pub(super) revision: Revision,
    pub(super) entry: Option<Arc<Entry>>,
}

impl Reply {
    /// The message with the result. A tool that does not exist is an error of the request; all else is for the model.
    pub(super) async fn message(&self, result: SkillResult) -> Result<String, Fault> {
        let is_unknown = |error: &SkillError| error.code() == ErrorCode::NotFound && self.entry.is_none();
        if let Some(error) = result.error.as_ref().filter(|it| is_unknown(it)) {
            return Err(Fault::new(Code::InvalidParams, error.message.clone()));
        }
        let aside = &self.shard.gateway.aside;
        let result = content::of(result, self.entry.clone(), aside, self.revision).await;
        Ok(jsonrpc::result(&self.id, &result))
    }
}
