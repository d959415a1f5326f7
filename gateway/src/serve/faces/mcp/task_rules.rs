//! Which calls become tasks, and when.

use std::time::Duration;

use openskill_proto::v1::TaskSupport;
use serde_json::json;

use super::capabilities::TASKS;
use super::jsonrpc::{Code, Fault, Params};
use crate::catalog::entry::Entry;
use crate::gateway::Shard;
use crate::mcp::revision::Revision;

/// After how long a call becomes a task. None: it does not.
///
/// # Errors
/// Its skill runs as a task only, and the client takes none.
pub(super) fn after(
    shard: &Shard,
    (params, revision): (&Params, Revision),
    entry: Option<&Entry>,
) -> Result<Option<Duration>, Fault> {
    let (Some(entry), true) = (entry, revision.is_stateless()) else { return Ok(None) };
    let rules = entry.skill.task.unwrap_or_default();
    if rules.support() == TaskSupport::Forbidden {
        return Ok(None);
    }
    if !takes_tasks(params) {
        return if rules.support() == TaskSupport::Required { Err(not_declared()) } else { Ok(None) };
    }
    let usual = shard.gateway.mcp.tasks.times().after;
    Ok(Some(rules.after_ms.map_or(usual, |it| Duration::from_millis(it.into()))))
}

/// Whether a client takes a task in place of a result.
pub(super) fn takes_tasks(params: &Params) -> bool {
    params.meta.as_ref().and_then(|it| it.capabilities.as_ref()).is_some_and(|it| it.takes_tasks())
}

/// The error for one that takes none.
pub(super) fn not_declared() -> Fault {
    let data = json!({ "requiredCapabilities": { "extensions": { TASKS: {} } } });
    Fault::new(Code::MissingCapability, "the client does not declare that it takes tasks").with_data(data.to_string())
}
