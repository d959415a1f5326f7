//! How a skill runs: the runner that `type` and `runtime` choose, with its settings.

use std::path::{Path, PathBuf};

use super::agent::Agent;
use super::docker::Docker;
use super::error::Fault;
use super::exec::Exec;
use super::gateway;
use super::http::Http;
use super::jail::Level;
use super::mcp::{Declared, Mcp, McpTool};
use super::path::beside;
use super::python::{Needs, Python};
use super::raw;
use super::session::{Operation, Session};

mod agent;

/// How a skill runs.
#[derive(Debug, Clone, PartialEq)]
pub enum How {
    /// Not at all: it has no implementation, or one that this version does not know.
    Unknown,
    /// `cli:python`: a script.
    Python(Python),
    /// `cli:exec`: a program.
    Exec(Box<Exec>),
    /// `http`: a request to an HTTP back end.
    Http(Box<Http>),
    /// `docker`: a container.
    Docker(Box<Docker>),
    /// `mcp:stdio` and `mcp:http`: a server whose tools become skills. It cannot be called itself.
    Mcp(Box<Mcp>),
    /// One tool of such a server. Made by the runner, never written in a file.
    McpTool(Box<McpTool>),
    /// `inproc`: a function of this name in the worker.
    Function(String),
    /// `agent`: a model that calls skills. The gateway runs it.
    Agent(Box<Agent>),
    /// `gateway:...`: the gateway answers it itself.
    Gateway,
    /// `session:python`: an operation on sessions of its toolset.
    Session(Box<Session>),
}

impl How {
    /// Whether the worker starts a process for it, which the jail is for.
    pub fn is_process(&self) -> bool {
        match self {
            Self::Python(_) | Self::Exec(_) => true,
            Self::Session(session) => session.operation == Operation::Execute,
            Self::Mcp(mcp) => matches!(mcp.reach, super::mcp::Reach::Stdio { .. }),
            _ => false,
        }
    }

    /// How to read its output; none if it is that of a script.
    pub(crate) fn printed(&self) -> Option<&super::exec::Printed> {
        match self {
            Self::Exec(exec) => exec.printed.as_ref(),
            _ => None,
        }
    }

    /// The files it depends on beside the manifest: absolute. A change to one of them is a change to the skill.
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

    /// What it needs of a Python interpreter. None: no interpreter runs it.
    pub fn needs(&self) -> Option<&Needs> {
        match self {
            Self::Python(python) => Some(&python.needs),
            Self::Session(session) => Some(&session.needs),
            Self::Mcp(mcp) => Some(&mcp.needs),
            _ => None,
        }
    }

    /// Whether environment variables that the manifest sets reach it. What runs in the worker has the worker's own.
    fn has_environment(&self) -> bool {
        self.is_process() || matches!(self, Self::Docker(_) | Self::Unknown)
    }
}

/// Reads the settings of the manifest's runner, and refuses those of another.
pub(super) fn resolve(raw: &mut raw::Raw, file: &Path) -> Result<(String, How), Fault> {
    let key = if raw.runtime.is_empty() { raw.kind.clone() } else { format!("{}:{}", raw.kind, raw.runtime) };
    if raw.unavailable.is_some() && raw.entry.is_empty() {
        return Ok((key, How::Unknown));
    }
    if raw.kind.is_empty() {
        return Err(("type", "type must be given, unless the skill is unavailable".to_owned()).into());
    }
    if raw.kind == "agent" {
        refuse_others(raw, "agent")?;
        return Ok(("agent".to_owned(), How::Agent(Box::new(agent::resolve(raw)?))));
    }
    if raw.kind == "gateway" {
        refuse_others(raw, &key)?;
        gateway::check(raw)?;
        return Ok((key, How::Gateway));
    }
    if raw.entry.is_empty() {
        return Err(("entry", "must not be empty".to_owned()).into());
    }
    refuse_others(raw, &key)?;
    if key == "docker" && (raw.network.is_some() || raw.jail.is_some()) {
        let reason = "network and jail are for processes; a container's network is docker.network";
        return Err((if raw.jail.is_some() { "jail" } else { "network" }, reason.to_owned()).into());
    }
    let demands_jail = raw.jail.is_some_and(|level| level >= Level::Standard);
    if demands_jail && matches!(key.as_str(), "http" | "inproc" | "mcp:http") {
        let reason = format!("a jail is for processes, and {key} runs in the worker: leave it out");
        return Err(("jail", reason).into());
    }
    let entry = raw.entry.as_str();
    let how = match key.as_str() {
        "cli:python" => {
            let needs = super::python::of_script(raw.python.take().unwrap_or_default(), file)?;
            How::Python(Python { script: beside(entry, file)?, isolation: raw.isolation.unwrap_or_default(), needs })
        }
        "cli:exec" => How::Exec(Box::new(super::exec::resolve(raw.exec.take().unwrap_or_default(), entry, file)?)),
        "http" => {
            How::Http(Box::new(super::http::resolve(raw.http.take().unwrap_or_default(), entry, &raw.env.names)?))
        }
        "docker" => {
            How::Docker(Box::new(super::docker::resolve(raw.docker.take().unwrap_or_default(), entry, &raw.limits)?))
        }
        "mcp:stdio" | "mcp:http" => {
            let own = raw.mcp.take().unwrap_or_default();
            refuse_own_schemas(raw)?;
            if !raw.title.is_empty() || !raw.icons.is_empty() {
                let field = if raw.title.is_empty() { "icons" } else { "title" };
                return Err((field, "a server's tools have titles and icons of their own".to_owned()).into());
            }
            if raw.read_only {
                let reason = "a server's tools differ, and may change: set read_only by tool in mcp.overrides";
                return Err(("read_only", reason.to_owned()).into());
            }
            let over_http = raw.runtime == "http";
            let needs = super::python::of_server(raw.python.take().unwrap_or_default(), file)?;
            let declared = Declared { id: &raw.id, entry, env: &raw.env.names, over_http };
            How::Mcp(Box::new(super::mcp::resolve(own, needs, &declared, file)?))
        }
        "inproc" => How::Function(entry.to_owned()),
        "session:python" => {
            let (needs, preload) = super::python::of_session(raw.python.take().unwrap_or_default(), file)?;
            if raw.network.is_some() {
                return Err(("network", "the code of sessions gets no network: leave it out".to_owned()).into());
            }
            // Untrusted code, side by side with that of other callers.
            if *raw.jail.get_or_insert(Level::Strict) != Level::Strict {
                return Err(("jail", "the code of sessions runs in a strict jail: leave it out".to_owned()).into());
            }
            How::Session(Box::new(super::session::resolve(entry, needs, preload)?))
        }
        _ if raw.kind == "cli" => {
            beside(entry, file)?;
            How::Unknown
        }
        _ => How::Unknown,
    };
    if !raw.env.values.is_empty() && !how.has_environment() {
        let reason = format!("{key} runs in the worker: name a variable of the worker, without a value");
        return Err(("env", reason).into());
    }
    Ok((key, how))
}

fn refuse_own_schemas(raw: &raw::Raw) -> Result<(), Fault> {
    if raw.examples.is_empty() && raw.input_schema.is_none() && raw.parameters.is_none() && raw.output_schema.is_none()
    {
        return Ok(());
    }
    Err(("mcp", "a server's tools have their own schemas, and it has no examples of its own".to_owned()).into())
}

/// A block of settings that belongs to a runner the skill does not use would be silently ignored.
fn refuse_others(raw: &raw::Raw, key: &str) -> Result<(), Fault> {
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
        // There is no such runner: the registry reports that.
        return Ok(());
    }
    let stray = blocks.into_iter().find(|(_, given, runner)| *given && !runner.split(" or ").any(|it| it == key));
    match stray {
        Some((name, _, runner)) => Err((name, format!("is for skills of {runner}; this one is {key}")).into()),
        None => Ok(()),
    }
}
