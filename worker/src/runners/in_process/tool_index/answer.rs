//! What is returned: the servers that fit, what each needs, and what was done or is to be done by the operator.

use std::time::Duration;

use openskill_proto::v1::{ErrorCode, SkillError};
use serde::Serialize;
use serde_json::Value;

use crate::config::InstallPolicy;
use crate::runners::in_process::host::Report;
use crate::tools::candidates::Candidate;
use crate::tools::entry::Entry;
use crate::tools::folder::Record;
use crate::tools::installer::{Installed, Installer};

/// How long the tools of a server took to be callable; none if they are not yet.
pub(super) struct Callable(pub(super) Option<Duration>);

/// The answer.
#[derive(Serialize)]
pub(super) struct Answer {
    status: Status,
    /// The best first.
    candidates: Vec<Shown>,
    installed: Option<Told>,
    /// What the operator runs to install the server that is meant.
    operator_command: Option<String>,
    #[serde(skip)]
    policy: InstallPolicy,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// Nothing fits.
    None,
    /// Several fit, and none is clearly meant.
    Choose,
    /// An operator has to install the one that is meant.
    AskOperator,
    Installed,
    AlreadyInstalled,
}

#[derive(Serialize)]
struct Shown {
    id: String,
    title: String,
    version: String,
    description: String,
    why: String,
    score: f64,
    /// The server's names of its tools.
    tools: Vec<String>,
    needs: Needs,
    /// The version that is installed.
    installed_version: Option<String>,
    operator_command: String,
}

#[derive(Serialize)]
struct Needs {
    /// How many packages are downloaded.
    packages: usize,
    network: Value,
    environment: Vec<String>,
    jail: &'static str,
}

/// An installed server.
#[derive(Serialize)]
struct Told {
    id: String,
    version: String,
    /// The ids of its tools.
    tools: Vec<String>,
    /// Whether they can be called now.
    callable: bool,
    callable_after_ms: Option<u64>,
}

impl Answer {
    pub(super) fn new(installer: &Installer, found: &[Candidate<'_>]) -> Self {
        let candidates: Vec<_> = found.iter().map(|it| shown(it, installer.record(&it.entry.id))).collect();
        let status = if candidates.is_empty() { Status::None } else { Status::Choose };
        Self { status, candidates, installed: None, operator_command: None, policy: installer.policy() }
    }

    /// This server is meant.
    pub(super) fn means(&mut self, entry: &Entry) {
        self.status = Status::AskOperator;
        self.operator_command = Some(command(&entry.id));
    }

    /// It is installed.
    pub(super) fn installed(&mut self, Installed { record, before }: Installed, Callable(after): Callable) {
        self.status = if before { Status::AlreadyInstalled } else { Status::Installed };
        self.operator_command = None;
        let Record { id, version, tools, .. } = record;
        let callable_after_ms = after.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
        if let Some(candidate) = self.candidates.iter_mut().find(|it| it.id == id) {
            candidate.installed_version = Some(version.clone());
        }
        self.installed = Some(Told { id, version, tools, callable: after.is_some(), callable_after_ms });
    }

    pub(super) fn report(self) -> Result<Report, SkillError> {
        let data = serde_json::to_string(&self).map_err(|it| SkillError::new(ErrorCode::Internal, it.to_string()))?;
        Ok(Report { data, text: self.text(), truncated: false })
    }

    /// A line for a model.
    fn text(&self) -> String {
        let ids: Vec<&str> = self.candidates.iter().map(|it| it.id.as_str()).collect();
        match (&self.installed, &self.operator_command) {
            (Some(Told { id, version, tools, callable, .. }), _) => {
                let how = if *callable { "They can be called now" } else { "They will be callable in some seconds" };
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

fn shown(candidate: &Candidate<'_>, record: Option<Record>) -> Shown {
    let Entry { id, title, version, description, network, env, requirements, tools, .. } = candidate.entry;
    Shown {
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
