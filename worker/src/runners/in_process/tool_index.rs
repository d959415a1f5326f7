//! `search_and_install_tools`: which servers of the index fit a task, and what an operator has to do for them. Where the policy
//! is `listed`, installs the one that is meant.
//!
//! - [`answer`]: what is returned

use openskill_proto::v1::{ErrorCode, SkillError};
use serde::Deserialize;

use super::host::Report;
use crate::config::InstallPolicy;
use crate::manifest::{Approval, Conduct, Manifest};
use crate::runner::Invocation;
use crate::tools::audit::Who;
use crate::tools::candidates::{candidates, meant};
use crate::tools::entry::Entry;
use crate::tools::index::Index;
use crate::tools::installer::Installer;
use crate::tools::refusal::Refusal;

mod answer;

use answer::{Answer, Callable};

#[derive(Deserialize)]
struct Arguments {
    task_description: String,
    #[serde(default)]
    reason: String,
    /// The server to install.
    #[serde(default)]
    server_id: String,
}

/// How an agent has to treat the function: by the policy, it only answers, or changes what tools there are.
pub(super) fn conducted(manifest: Manifest, policy: InstallPolicy) -> Manifest {
    let (approval, read_only) = match policy {
        InstallPolicy::Ask => (Approval::Never, true),
        InstallPolicy::Listed => (Approval::Ask, false),
    };
    let conduct = Conduct { approval: Some(approval), read_only, ..manifest.conduct };
    Manifest { conduct, ..manifest }
}

/// Runs the function.
///
/// # Errors
/// The arguments are invalid, or what was to be installed is refused.
pub(super) async fn run(installer: Installer, invocation: Invocation) -> Result<Report, SkillError> {
    let invalid = |error: serde_json::Error| SkillError::new(ErrorCode::InvalidArgument, error.to_string());
    let arguments: Arguments = openskill_proto::json::read(&invocation.input).map_err(invalid)?;
    let index = installer.index().await.map_err(|error| {
        tracing::warn!(%error, "the tool index (OPENSKILL_TOOL_INDEX) can't be used");
        SkillError { retryable: false, ..Refusal::Index(error).error("index") }
    })?;
    let found = candidates(&arguments.task_description, &index);
    let mut answer = Answer::new(&installer, &found);
    let chosen = chosen(&arguments, &index)?.or_else(|| meant(&found).map(|it| it.entry));
    let Some(entry) = chosen else { return answer.report() };
    answer.means(entry);
    if installer.policy() == InstallPolicy::Ask {
        return answer.report();
    }
    let name = if invocation.principal.is_empty() { "anonymous" } else { &invocation.principal };
    let reason = if arguments.reason.is_empty() { arguments.task_description } else { arguments.reason };
    let who = Who { name: name.to_owned(), trace_id: invocation.trace_id.clone(), reason };
    let installed = installer.install(entry, &who, &invocation.events).await.map_err(|it| it.error(&entry.id))?;
    let callable = Callable(installer.callable(&installed.record).await);
    answer.installed(installed, callable);
    answer.report()
}

/// The server that the caller names.
fn chosen<'a>(arguments: &Arguments, index: &'a Index) -> Result<Option<&'a Entry>, SkillError> {
    let id = arguments.server_id.as_str();
    if id.is_empty() {
        return Ok(None);
    }
    index.get(id).map(Some).ok_or_else(|| Refusal::Unknown(id.to_owned()).error(id))
}
