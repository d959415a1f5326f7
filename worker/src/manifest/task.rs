//! Controls whether a skill's calls become tasks of MCP clients.

use openskill_proto::v1::{TaskRules, TaskSupport};
use serde::Deserialize;

/// The maximum time before a call becomes a task, in milliseconds.
const MAX_AFTER_MS: u32 = 86_400_000;

/// The rules as the manifest contains them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTask {
    #[serde(default)]
    support: Support,
    after_ms: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Support {
    #[default]
    Optional,
    Forbidden,
    Required,
}

/// Validates a manifest's rules.
pub(super) fn resolve(raw: RawTask) -> Result<TaskRules, (&'static str, String)> {
    if raw.after_ms.is_some_and(|it| it > MAX_AFTER_MS) {
        return Err(("task", format!("after_ms must be at most {MAX_AFTER_MS}")));
    }
    if raw.support == Support::Forbidden && raw.after_ms.is_some() {
        return Err(("task", "after_ms has no effect where support is forbidden".to_owned()));
    }
    let support = match raw.support {
        Support::Optional => TaskSupport::Optional,
        Support::Forbidden => TaskSupport::Forbidden,
        Support::Required => TaskSupport::Required,
    };
    Ok(TaskRules { support: support.into(), after_ms: raw.after_ms })
}
