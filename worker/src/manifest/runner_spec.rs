//! A skill's runner, which `type` and `runtime` select, with its settings.

use std::path::{Path, PathBuf};

use openskill_sandbox::jail::Level;

use super::agent::Agent;
use super::docker::Docker;
use super::error::ManifestFault;
use super::exec::Exec;
use super::gateway;
use super::http::Http;
use super::mcp::{Declared, Mcp, McpTool};
use super::path::beside;
use super::python::{Needs, Python};
use super::raw;
use super::session::{Operation, Session};

mod agent;

/// A skill's runner with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum RunnerSpec {
    /// The skill has no implementation, or one that this version does not know.
    Unknown,
    /// `cli:python`: a script.
    Python(Python),
    /// `cli:exec`: a program.
    Exec(Box<Exec>),
    /// `http`: a request to an HTTP backend.
    Http(Box<Http>),
    /// `docker`: a container.
    Docker(Box<Docker>),
    /// `mcp:stdio` and `mcp:http`: a server whose tools become skills. It can't be called itself.
    Mcp(Box<Mcp>),
    /// One tool of an MCP server. The runner creates it. Manifests never contain it.
    McpTool(Box<McpTool>),
    /// `inproc`: a function in the worker, by name.
    Function(String),
    /// `agent`: a model that calls skills. The gateway runs it.
    Agent(Box<Agent>),
    /// `gateway:...`: implemented by the gateway.
    Gateway,
    /// `session:python`: an operation on the sessions of its toolset.
    Session(Box<Session>),
}

impl RunnerSpec {
    /// Returns whether the worker starts a process for it, to which a jail applies.
    pub fn is_process(&self) -> bool {
        match self {
            Self::Python(_) | Self::Exec(_) => true,
            Self::Session(session) => session.operation == Operation::Execute,
            Self::Mcp(mcp) => matches!(mcp.reach, super::mcp::Reach::Stdio { .. }),
            _ => false,
        }
    }

    /// Returns how to parse its output, or `None` if it follows the contract of scripts.
    pub(crate) fn output_rules(&self) -> Option<&super::exec::Printed> {
        match self {
            Self::Exec(exec) => exec.printed.as_ref(),
            _ => None,
        }
    }

    /// Returns the absolute paths of files that it depends on, besides the manifest. A change to one of them
    /// changes the skill.
    pub fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::Python(python) => {
                let mut files = python.needs.files();
                files.insert(0, python.script.clone());
                files
            }
            Self::Exec(exec) => vec![exec.program.clone()],
            Self::Session(session) => session.needs.files(),
            Self::Mcp(mcp) => [vec![mcp.lock.clone()], mcp.own_files(), mcp.needs.files()].concat(),
            _ => Vec::new(),
        }
    }

    /// Returns its requirements on a Python interpreter, or `None` if it uses none.
    pub fn needs(&self) -> Option<&Needs> {
        match self {
            Self::Python(python) => Some(&python.needs),
            Self::Session(session) => Some(&session.needs),
            Self::Mcp(mcp) => Some(&mcp.needs),
            _ => None,
        }
    }

    /// Returns whether it receives the environment variables that the manifest sets. Skills inside the worker use
    /// the worker's environment.
    fn has_environment(&self) -> bool {
        self.is_process() || matches!(self, Self::Docker(_) | Self::Unknown)
    }
}

/// Validates the settings of the manifest's runner, and rejects those of other runners.
pub(super) fn resolve(raw: &mut raw::RawManifest, file: &Path) -> Result<(String, RunnerSpec), ManifestFault> {
    let key = if raw.runtime.is_empty() { raw.kind.clone() } else { format!("{}:{}", raw.kind, raw.runtime) };
    if raw.unavailable.is_some() && raw.entry.is_empty() {
        return Ok((key, RunnerSpec::Unknown));
    }
    if raw.kind.is_empty() {
        return Err(("type", "type is required unless the skill is unavailable".to_owned()).into());
    }
    if raw.kind == "agent" {
        refuse_others(raw, "agent")?;
        return Ok(("agent".to_owned(), RunnerSpec::Agent(Box::new(agent::resolve(raw)?))));
    }
    if raw.kind == "gateway" {
        refuse_others(raw, &key)?;
        gateway::check(raw)?;
        return Ok((key, RunnerSpec::Gateway));
    }
    if raw.entry.is_empty() {
        return Err(("entry", "must not be empty".to_owned()).into());
    }
    refuse_others(raw, &key)?;
    if key == "docker" && (raw.network.is_some() || raw.jail.is_some()) {
        let reason = "network and jail apply only to processes; set a container's network with docker.network";
        return Err((if raw.jail.is_some() { "jail" } else { "network" }, reason.to_owned()).into());
    }
    let demands_jail = raw.jail.is_some_and(|level| level >= Level::Standard);
    if demands_jail && matches!(key.as_str(), "http" | "inproc" | "mcp:http") {
        let reason = format!("a jail applies only to processes, and {key} runs in the worker: leave jail out");
        return Err(("jail", reason).into());
    }
    let entry = raw.entry.as_str();
    let how = match key.as_str() {
        "cli:python" => {
            let needs = super::python::resolve_for_script(raw.python.take().unwrap_or_default(), file)?;
            RunnerSpec::Python(Python {
                script: beside(entry, file)?,
                isolation: raw.isolation.unwrap_or_default(),
                needs,
            })
        }
        "cli:exec" => {
            RunnerSpec::Exec(Box::new(super::exec::resolve(raw.exec.take().unwrap_or_default(), entry, file)?))
        }
        "http" => RunnerSpec::Http(Box::new(super::http::resolve(
            raw.http.take().unwrap_or_default(),
            entry,
            &raw.env.names,
        )?)),
        "docker" => RunnerSpec::Docker(Box::new(super::docker::resolve(
            raw.docker.take().unwrap_or_default(),
            entry,
            &raw.limits,
        )?)),
        "mcp:stdio" | "mcp:http" => {
            let own = raw.mcp.take().unwrap_or_default();
            refuse_own_schemas(raw)?;
            if !raw.title.is_empty() || !raw.icons.is_empty() {
                let field = if raw.title.is_empty() { "icons" } else { "title" };
                return Err((field, "a server's tools have their own titles and icons".to_owned()).into());
            }
            if raw.read_only {
                let reason = "a server's tools differ and may change: set read_only for each tool in mcp.overrides";
                return Err(("read_only", reason.to_owned()).into());
            }
            let over_http = raw.runtime == "http";
            let needs = super::python::resolve_for_server(raw.python.take().unwrap_or_default(), file)?;
            let declared = Declared { id: &raw.id, entry, env: &raw.env.names, over_http };
            RunnerSpec::Mcp(Box::new(super::mcp::resolve(own, needs, &declared, file)?))
        }
        "inproc" => RunnerSpec::Function(entry.to_owned()),
        "session:python" => {
            let (needs, preload) = super::python::resolve_for_session(raw.python.take().unwrap_or_default(), file)?;
            if raw.network.is_some() {
                return Err(("network", "code in sessions has no network: leave network out".to_owned()).into());
            }
            // Sessions run untrusted code next to other callers' code.
            if *raw.jail.get_or_insert(Level::Strict) != Level::Strict {
                return Err(("jail", "code in sessions runs in a strict jail: leave jail out".to_owned()).into());
            }
            RunnerSpec::Session(Box::new(super::session::resolve(entry, needs, preload)?))
        }
        _ if raw.kind == "cli" => {
            beside(entry, file)?;
            RunnerSpec::Unknown
        }
        _ => RunnerSpec::Unknown,
    };
    if !raw.env.values.is_empty() && !how.has_environment() {
        let reason = format!("{key} runs in the worker: name a variable of the worker, without a value");
        return Err(("env", reason).into());
    }
    Ok((key, how))
}

fn refuse_own_schemas(raw: &raw::RawManifest) -> Result<(), ManifestFault> {
    if raw.examples.is_empty() && raw.input_schema.is_none() && raw.parameters.is_none() && raw.output_schema.is_none()
    {
        return Ok(());
    }
    Err(("mcp", "a server's tools have their own schemas, and a server has no examples".to_owned()).into())
}

/// Rejects settings of other runners, which would be ignored silently.
fn refuse_others(raw: &raw::RawManifest, key: &str) -> Result<(), ManifestFault> {
    let blocks = [
        ("isolation", raw.isolation.is_some(), "cli:python"),
        ("python", raw.python.is_some(), "cli:python or session:python or mcp:stdio"),
        ("exec", raw.exec.is_some(), "cli:exec"),
        ("http", raw.http.is_some(), "http"),
        ("docker", raw.docker.is_some(), "docker"),
        ("mcp", raw.mcp.is_some(), "mcp:stdio or mcp:http"),
        ("agent", raw.agent.is_some(), "agent"),
    ];
    let is_known = blocks.iter().any(|(_, _, runner)| runner.split(" or ").any(|it| it == key));
    if !is_known && key != "inproc" && !key.starts_with("gateway:") {
        // The runner does not exist, which the registry reports.
        return Ok(());
    }
    let stray = blocks.into_iter().find(|(_, given, runner)| *given && !runner.split(" or ").any(|it| it == key));
    match stray {
        Some((name, _, runner)) => Err((name, format!("applies only to {runner} skills; this skill is {key}")).into()),
        None => Ok(()),
    }
}
