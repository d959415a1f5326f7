//! `search_and_install_tools`: finds servers in the index that match a task, and explains how an operator can
//! install them. Under the policy `listed`, it installs the best match.
//!
//! - [`answer`]: formats the result

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::{ErrorCode, SkillError};
use serde::Deserialize;

use super::audit::Actor;
use super::candidates::{candidates, meant};
use super::entry::Entry;
use super::index::Index;
use super::installer::Installer;
use super::refusal::InstallRefusal;
use crate::config::InstallPolicy;
use crate::manifest::{Approval, Manifest, ToolHints};
use crate::runner::{Invocation, RawOutput};
use crate::runners::in_process::FunctionSet;

mod answer;

use answer::{Callable, InstallAnswer};

#[derive(Deserialize)]
struct InstallArguments {
    task_description: String,
    #[serde(default)]
    reason: String,
    /// The id of the server to install.
    #[serde(default)]
    server_id: String,
}

/// The function's name in manifests.
const ENTRY: &str = "search_and_install_tools";

/// The function, with the installer that it uses.
pub(crate) struct SearchAndInstall(pub(crate) Installer);

impl FunctionSet for SearchAndInstall {
    fn has(&self, entry: &str) -> bool {
        entry == ENTRY
    }

    fn admit(&self, _: &str, _: &Manifest) -> Result<(), String> {
        Ok(())
    }

    /// Sets the hints for agents. Depending on the policy, the function only answers, or changes which tools
    /// exist.
    fn describe(&self, manifest: Manifest) -> Manifest {
        let (approval, read_only) = match self.0.policy() {
            InstallPolicy::Ask => (Approval::Never, true),
            InstallPolicy::Listed => (Approval::Ask, false),
        };
        let tool_hints = ToolHints { approval: Some(approval), read_only, ..manifest.tool_hints };
        Manifest { tool_hints, ..manifest }
    }

    fn run(&self, _: &str, invocation: Invocation) -> BoxFuture<'static, Result<RawOutput, SkillError>> {
        run(self.0.clone(), invocation).boxed()
    }
}

/// Finds servers and, if the policy allows it, installs one.
///
/// # Errors
/// Fails if the arguments are invalid or the installation is refused.
async fn run(installer: Installer, invocation: Invocation) -> Result<RawOutput, SkillError> {
    let invalid = |error: serde_json::Error| SkillError::new(ErrorCode::InvalidArgument, error.to_string());
    let arguments: InstallArguments = openskill_proto::json::read(&invocation.input).map_err(invalid)?;
    let index = installer.index().await.map_err(|error| {
        tracing::warn!(%error, "the tool index (OPENSKILL_TOOL_INDEX) can't be used");
        SkillError { retryable: false, ..InstallRefusal::Index(error).error("index") }
    })?;
    let found = candidates(&arguments.task_description, &index);
    let mut answer = InstallAnswer::new(&installer, &found);
    let chosen = requested_entry(&arguments, &index)?.or_else(|| meant(&found).map(|it| it.entry));
    let Some(entry) = chosen else { return answer.report() };
    answer.means(entry);
    if installer.policy() == InstallPolicy::Ask {
        return answer.report();
    }
    let name = if invocation.principal.is_empty() { "anonymous" } else { &invocation.principal };
    let reason = if arguments.reason.is_empty() { arguments.task_description } else { arguments.reason };
    let who = Actor { name: name.to_owned(), trace_id: invocation.trace_id.clone(), reason };
    let installed = installer.install(entry, &who, &invocation.events).await.map_err(|it| it.error(&entry.id))?;
    let callable = Callable(installer.callable(&installed.record).await);
    answer.set_installed(installed, callable);
    answer.report()
}

/// Returns the server that the caller names, if any.
fn requested_entry<'a>(arguments: &InstallArguments, index: &'a Index) -> Result<Option<&'a Entry>, SkillError> {
    let id = arguments.server_id.as_str();
    if id.is_empty() {
        return Ok(None);
    }
    index.get(id).map(Some).ok_or_else(|| InstallRefusal::Unknown(id.to_owned()).error(id))
}
