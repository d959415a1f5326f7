//! `search_and_install_tools`: finds servers in the index that match a task, and explains how an operator can
//! install them. Under the policy `listed`, it installs the best match.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::{ErrorCode, SkillError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::audit::Actor;
use super::candidates::{Candidate, candidates, meant};
use super::index::{Entry, Index};
use super::installer::{Installed, Installer};
use super::refusal::InstallRefusal;
use crate::config::InstallPolicy;
use crate::manifest::{Approval, Manifest, ToolHints};
use crate::runner::{Invocation, RawOutput};
use crate::runners::in_process::FunctionSet;

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
        SkillError { retryable: false, ..InstallRefusal::from(error).error("index") }
    })?;
    let found = candidates(&arguments.task_description, &index);
    let meant = requested_entry(&arguments, &index)?.or_else(|| meant(&found).map(|it| it.entry));
    let installed = match meant {
        Some(entry) if installer.policy() == InstallPolicy::Listed => {
            let name = if invocation.principal.is_empty() { "anonymous" } else { &invocation.principal };
            let reason = if arguments.reason.is_empty() { arguments.task_description } else { arguments.reason };
            let who = Actor { name: name.to_owned(), trace_id: invocation.trace_id.clone(), reason };
            let ended = installer.install(entry, &who, &invocation.events).await;
            let installed = ended.map_err(|it| it.error(&entry.id))?;
            let callable_after = installer.callable(&installed.record).await;
            Some((installed, callable_after))
        }
        _ => None,
    };
    Ok(answer(&installer, &found, meant, installed))
}

/// Returns the server that the caller names, if any.
fn requested_entry<'a>(arguments: &InstallArguments, index: &'a Index) -> Result<Option<&'a Entry>, SkillError> {
    let id = arguments.server_id.as_str();
    if id.is_empty() {
        return Ok(None);
    }
    index.get(id).map(Some).ok_or_else(|| InstallRefusal::unknown_server(id).error(id))
}

/// Formats the result: the matching servers with their requirements, and what was done or what the operator has to do.
/// `meant`: the best match. `installed`: the installation, and the time until its tools were callable, if they are.
fn answer(
    installer: &Installer,
    found: &[Candidate<'_>],
    meant: Option<&Entry>,
    installed: Option<(Installed, Option<Duration>)>,
) -> RawOutput {
    let status = match (&installed, meant) {
        (Some((it, _)), _) if it.before => "already_installed",
        (Some(_), _) => "installed",
        (None, Some(_)) => "ask_operator",
        (None, None) if found.is_empty() => "none",
        (None, None) => "choose",
    };
    let text = text(installer.policy(), found, meant, installed.as_ref());
    let operator_command = meant.filter(|_| installed.is_none()).map(|it| command(&it.id));
    let installed = installed.map(|(Installed { record, .. }, after)| {
        json!({
            "id": record.id,
            "version": record.version,
            "tools": record.tools,
            "callable": after.is_some(),
            "callable_after_ms": after.map(|it| it.as_millis() as u64),
        })
    });
    let data = json!({
        "status": status,
        "candidates": found.iter().map(|it| describe(it, installer)).collect::<Vec<_>>(),
        "installed": installed,
        "operator_command": operator_command,
    });
    RawOutput::Report { data: data.to_string(), text, truncated: false }
}

/// Returns one line of text for a model.
fn text(
    policy: InstallPolicy,
    found: &[Candidate<'_>],
    meant: Option<&Entry>,
    installed: Option<&(Installed, Option<Duration>)>,
) -> String {
    let ids = found.iter().map(|it| it.entry.id.as_str()).collect::<Vec<_>>().join(", ");
    match (installed, meant) {
        (Some((Installed { record, .. }, after)), _) => {
            let when = if after.is_some() { "now" } else { "in a few seconds" };
            let (id, version, tools) = (&record.id, &record.version, record.tools.join(", "));
            format!("'{id}' {version} is installed: {tools}. They can be called {when}.")
        }
        (None, Some(entry)) => {
            let fits = if ids.is_empty() { String::new() } else { format!("Servers that fit: {ids}. ") };
            format!("{fits}Nothing was installed: ask the operator to run `{}`.", command(&entry.id))
        }
        (None, None) if ids.is_empty() => {
            "The tool index has no server for this task. Nothing was installed.".to_owned()
        }
        (None, None) => {
            let next = match policy {
                InstallPolicy::Listed => "call again with server_id to install one",
                InstallPolicy::Ask => "the operator can install one with its operator_command",
            };
            format!("Servers that may fit: {ids}. Nothing was installed: {next}.")
        }
    }
}

fn describe(candidate: &Candidate<'_>, installer: &Installer) -> Value {
    let entry = candidate.entry;
    json!({
        "id": entry.id,
        "title": entry.title,
        "version": entry.version,
        "description": entry.description,
        "why": candidate.why,
        "score": candidate.score,
        "tools": entry.tools.keys().collect::<Vec<_>>(),
        "needs": {
            "packages": entry.requirements.len(),
            "network": entry.network,
            "environment": entry.env,
            "jail": "strict",
        },
        "installed_version": installer.record(&entry.id).map(|it| it.version),
        "operator_command": command(&entry.id),
    })
}

fn command(id: &str) -> String {
    format!("openskill tools add {id}")
}
