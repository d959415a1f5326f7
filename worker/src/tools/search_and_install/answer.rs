//! Formats the result: the matching servers, their requirements, and what was done or what the operator has to do.

use std::time::Duration;

use openskill_proto::v1::{ErrorCode, SkillError};
use serde::Serialize;
use serde_json::Value;

use crate::config::InstallPolicy;
use crate::runner::RawOutput;
use crate::tools::candidates::Candidate;
use crate::tools::entry::Entry;
use crate::tools::folder::Record;
use crate::tools::installer::{Installed, Installer};

/// The time until a server's tools were callable. `None` if they are not callable yet.
pub(super) struct Callable(pub(super) Option<Duration>);

/// The result of the function.
#[derive(Serialize)]
pub(super) struct InstallAnswer {
    status: InstallStatus,
    /// The candidates, best first.
    candidates: Vec<ServerCandidate>,
    installed: Option<InstalledServer>,
    /// The command with which the operator installs the best match.
    operator_command: Option<String>,
    #[serde(skip)]
    policy: InstallPolicy,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum InstallStatus {
    /// No server matches the task.
    None,
    /// Several servers match, and none is the clear choice.
    Choose,
    /// Only an operator can install the best match.
    AskOperator,
    Installed,
    AlreadyInstalled,
}

#[derive(Serialize)]
struct ServerCandidate {
    id: String,
    title: String,
    version: String,
    description: String,
    why: String,
    score: f64,
    /// The names that the server gives its tools.
    tools: Vec<String>,
    needs: Needs,
    /// The version that is installed, if any.
    installed_version: Option<String>,
    operator_command: String,
}

#[derive(Serialize)]
struct Needs {
    /// The number of packages that must be downloaded.
    packages: usize,
    network: Value,
    environment: Vec<String>,
    jail: &'static str,
}

/// The server that was installed.
#[derive(Serialize)]
struct InstalledServer {
    id: String,
    version: String,
    /// The ids of its tools.
    tools: Vec<String>,
    /// Whether the tools are callable now.
    callable: bool,
    callable_after_ms: Option<u64>,
}

impl InstallAnswer {
    pub(super) fn new(installer: &Installer, found: &[Candidate<'_>]) -> Self {
        let candidates: Vec<_> = found.iter().map(|it| describe(it, installer.record(&it.entry.id))).collect();
        let status = if candidates.is_empty() { InstallStatus::None } else { InstallStatus::Choose };
        Self { status, candidates, installed: None, operator_command: None, policy: installer.policy() }
    }

    /// Records that this server is the best match.
    pub(super) fn means(&mut self, entry: &Entry) {
        self.status = InstallStatus::AskOperator;
        self.operator_command = Some(command(&entry.id));
    }

    /// Records that the server is installed.
    pub(super) fn set_installed(&mut self, Installed { record, before }: Installed, Callable(after): Callable) {
        self.status = if before { InstallStatus::AlreadyInstalled } else { InstallStatus::Installed };
        self.operator_command = None;
        let Record { id, version, tools, .. } = record;
        let callable_after_ms = after.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
        if let Some(candidate) = self.candidates.iter_mut().find(|it| it.id == id) {
            candidate.installed_version = Some(version.clone());
        }
        self.installed = Some(InstalledServer { id, version, tools, callable: after.is_some(), callable_after_ms });
    }

    pub(super) fn report(self) -> Result<RawOutput, SkillError> {
        let data = serde_json::to_string(&self).map_err(|it| SkillError::new(ErrorCode::Internal, it.to_string()))?;
        Ok(RawOutput::Report { data, text: self.text(), truncated: false })
    }

    /// Returns one line of text for a model.
    fn text(&self) -> String {
        let ids: Vec<&str> = self.candidates.iter().map(|it| it.id.as_str()).collect();
        match (&self.installed, &self.operator_command) {
            (Some(InstalledServer { id, version, tools, callable, .. }), _) => {
                let how = if *callable { "They can be called now" } else { "They can be called in a few seconds" };
                format!("'{id}' {version} is installed: {}. {how}.", tools.join(", "))
            }
            (None, Some(command)) => {
                let fits =
                    if ids.is_empty() { String::new() } else { format!("Servers that fit: {}. ", ids.join(", ")) };
                format!("{fits}Nothing was installed: ask the operator to run `{command}`.")
            }
            (None, None) if ids.is_empty() => {
                "The tool index has no server for this task. Nothing was installed.".to_owned()
            }
            (None, None) => {
                let next = match self.policy {
                    InstallPolicy::Listed => "call again with server_id to install one",
                    InstallPolicy::Ask => "the operator can install one with its operator_command",
                };
                format!("Servers that may fit: {}. Nothing was installed: {next}.", ids.join(", "))
            }
        }
    }
}

fn describe(candidate: &Candidate<'_>, record: Option<Record>) -> ServerCandidate {
    let Entry { id, title, version, description, network, env, requirements, tools, .. } = candidate.entry;
    ServerCandidate {
        id: id.clone(),
        title: title.clone(),
        version: version.clone(),
        description: description.clone(),
        why: candidate.why.clone(),
        score: candidate.score,
        tools: tools.keys().cloned().collect(),
        needs: Needs {
            packages: requirements.len(),
            network: network.clone(),
            environment: env.clone(),
            jail: "strict",
        },
        installed_version: record.map(|it| it.version),
        operator_command: command(id),
    }
}

fn command(id: &str) -> String {
    format!("openskill tools add {id}")
}
