//! A skill's runner, which `type` and `runtime` select, with its settings.

use std::path::{Path, PathBuf};

use openskill_proto::v1::AgentDefinition;
use openskill_sandbox::jail::Level;

use super::agent;
use super::checks::{ManifestFault, beside, refuse};
use super::docker::Docker;
use super::exec::{self, Exec, Printed};
use super::http::{self, Http};
use super::mcp::{Declared, Mcp, McpTool, Reach};
use super::python::{Needs, Python};
use super::raw::RawManifest;
use super::session::{self, Operation, Session};

/// The runners that gateways of this version implement themselves.
pub(crate) const ANSWERED: [&str; 1] = ["gateway:tool_needs"];

/// The deadline of an agent whose manifest sets none.
const AGENT_TIMEOUT_MS: u32 = 120_000;

/// A skill's runner with its settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum RunnerSpec {
    /// The skill has no implementation, or one that this version does not know.
    #[default]
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
    Agent(Box<AgentDefinition>),
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
            Self::Mcp(mcp) => matches!(mcp.reach, Reach::Stdio { .. }),
            _ => false,
        }
    }

    /// Returns how to parse its output, or `None` if it follows the contract of scripts.
    pub(crate) fn output_rules(&self) -> Option<&Printed> {
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

    /// Whether a worker can serve two versions of such a skill. Not if other skills find its state by its id, as the
    /// tools of a server and the operations on sessions do.
    pub(super) fn allows_versions(&self) -> bool {
        !matches!(self, Self::Mcp(_) | Self::McpTool(_) | Self::Session(_))
    }

    /// Returns whether it receives the environment variables that the manifest sets. Skills inside the worker use
    /// the worker's environment.
    fn has_environment(&self) -> bool {
        self.is_process() || matches!(self, Self::Docker(_) | Self::Unknown)
    }
}

/// Validates the settings of the manifest's runner, and rejects those of other runners.
pub(super) fn resolve(raw: &mut RawManifest, file: &Path) -> Result<(String, RunnerSpec), ManifestFault> {
    let key = if raw.runtime.is_empty() { raw.kind.clone() } else { format!("{}:{}", raw.kind, raw.runtime) };
    if raw.unavailable.is_some() && raw.entry.is_empty() {
        return Ok((key, RunnerSpec::Unknown));
    }
    if raw.kind.is_empty() {
        return refuse("type", "type is required unless the skill is unavailable");
    }
    if raw.kind == "agent" {
        refuse_others(raw, "agent")?;
        return Ok(("agent".to_owned(), RunnerSpec::Agent(Box::new(resolve_agent(raw)?))));
    }
    if raw.kind == "gateway" {
        refuse_others(raw, &key)?;
        check_gateway(raw)?;
        return Ok((key, RunnerSpec::Gateway));
    }
    if raw.entry.is_empty() {
        return refuse("entry", "must not be empty");
    }
    refuse_others(raw, &key)?;
    if key == "docker" && (raw.network.is_some() || raw.jail.is_some()) {
        let field = if raw.jail.is_some() { "jail" } else { "network" };
        let reason = "network and jail apply only to processes; set a container's network with docker.network";
        return refuse(field, reason);
    }
    let demands_jail = raw.jail.is_some_and(|level| level >= Level::Standard);
    if demands_jail && matches!(key.as_str(), "http" | "inproc" | "mcp:http") {
        let reason = format!("a jail applies only to processes, and {key} runs in the worker: leave jail out");
        return refuse("jail", reason);
    }
    let how = resolve_on_worker(raw, &key, file)?;
    if !raw.env.values.is_empty() && !how.has_environment() {
        return refuse("env", format!("{key} runs in the worker: name a variable of the worker, without a value"));
    }
    Ok((key, how))
}

fn resolve_on_worker(raw: &mut RawManifest, key: &str, file: &Path) -> Result<RunnerSpec, ManifestFault> {
    let python = raw.python.take().unwrap_or_default();
    let (entry, env) = (raw.entry.as_str(), &raw.env.names);
    Ok(match key {
        "cli:python" => {
            let (needs, function) = python.resolve_for_script(file)?;
            let (script, isolation) = (beside(entry, file)?, raw.isolation.unwrap_or_default());
            RunnerSpec::Python(Python { script, function, isolation, needs })
        }
        "cli:exec" => RunnerSpec::Exec(Box::new(exec::resolve(raw.exec.take().unwrap_or_default(), entry, file)?)),
        "http" => RunnerSpec::Http(Box::new(http::resolve(raw.http.take().unwrap_or_default(), entry, env)?)),
        "docker" => {
            let own = raw.docker.take().unwrap_or_default();
            RunnerSpec::Docker(Box::new(own.resolve(entry, &raw.limits)?))
        }
        "mcp:stdio" | "mcp:http" => {
            refuse_tool_settings(raw)?;
            let needs = python.resolve_for_server(file)?;
            let declared = Declared { id: &raw.id, entry, env, over_http: raw.runtime == "http" };
            RunnerSpec::Mcp(Box::new(raw.mcp.take().unwrap_or_default().resolve(needs, &declared, file)?))
        }
        "inproc" => RunnerSpec::Function(entry.to_owned()),
        "session:python" => {
            let (needs, preload) = python.resolve_for_session(file)?;
            if raw.network.is_some() {
                return refuse("network", "code in sessions has no network: leave network out");
            }
            // Sessions run untrusted code next to other callers' code.
            if *raw.jail.get_or_insert(Level::Strict) != Level::Strict {
                return refuse("jail", "code in sessions runs in a strict jail: leave jail out");
            }
            RunnerSpec::Session(Box::new(session::resolve(entry, needs, preload)?))
        }
        _ if raw.kind == "cli" => {
            beside(entry, file)?;
            RunnerSpec::Unknown
        }
        _ => RunnerSpec::Unknown,
    })
}

/// Rejects settings that the tools of an MCP server have on their own.
fn refuse_tool_settings(raw: &RawManifest) -> Result<(), ManifestFault> {
    if !raw.examples.is_empty() || raw.input_schema.is_some() || raw.parameters.is_some() || raw.output_schema.is_some()
    {
        return refuse("mcp", "a server's tools have their own schemas, and a server has no examples");
    }
    if !raw.title.is_empty() || !raw.icons.is_empty() {
        let field = if raw.title.is_empty() { "icons" } else { "title" };
        return refuse(field, "a server's tools have their own titles and icons");
    }
    if raw.read_only {
        let reason = "a server's tools differ and may change: set read_only for each tool in mcp.overrides";
        return refuse("read_only", reason);
    }
    Ok(())
}

/// Validates an agent, and completes its manifest's schemas and deadline.
fn resolve_agent(raw: &mut RawManifest) -> Result<AgentDefinition, ManifestFault> {
    refuse_process_settings(raw)?;
    let agent = agent::resolve(raw.agent.take().unwrap_or_default(), &raw.id)?;
    raw.timeout_ms = raw.timeout_ms.or(Some(AGENT_TIMEOUT_MS));
    if raw.input_schema.is_none() && raw.parameters.is_none() {
        raw.input_schema = Some(agent::task_schema());
    }
    raw.output_schema = Some(agent::answer_schema());
    Ok(agent)
}

/// Rejects settings of processes. They would be ignored silently, because an agent has no process on a worker.
fn refuse_process_settings(raw: &RawManifest) -> Result<(), ManifestFault> {
    let runtime = (!raw.runtime.is_empty()).then_some("runtime");
    let schema = raw.output_schema.is_some().then_some("output_schema");
    let Some(field) = runtime.into_iter().chain(raw.worker_settings()).chain(schema).next() else { return Ok(()) };
    let reason = match field {
        "runtime" => "an agent has none: write only `type: agent`",
        "entry" => "an agent has none: agent.prompt says what it does",
        "limits" => "applies only to processes: set an agent's limits in agent.limits",
        "allowed_root" => "applies only to processes: an agent's tools have their own",
        "concurrency" => "applies only to runs on a worker, and an agent runs in the gateway",
        "affinity" => "applies only to skills on a worker, and an agent runs in the gateway",
        "output_schema" => "an agent's data is always {answer}",
        "examples" => "run only on a worker, and an agent runs in the gateway",
        _ => "applies only to processes, and an agent has none",
    };
    refuse(field, reason)
}

/// Checks a skill that the gateway runs itself. Rejects settings for a worker, which would be ignored silently.
fn check_gateway(raw: &RawManifest) -> Result<(), ManifestFault> {
    let known: Vec<_> = ANSWERED.iter().filter_map(|key| key.strip_prefix("gateway:")).collect();
    if !known.contains(&raw.runtime.as_str()) {
        return refuse("runtime", format!("must be one that a gateway answers: {}", known.join(", ")));
    }
    match raw.worker_settings().next() {
        Some(field) => {
            let reason =
                format!("{field} applies only to skills that run on a worker, and the gateway answers this skill");
            refuse(field, reason)
        }
        None => Ok(()),
    }
}

/// Rejects settings of other runners, which would be ignored silently.
fn refuse_others(raw: &RawManifest, key: &str) -> Result<(), ManifestFault> {
    let blocks = [
        ("isolation", raw.isolation.is_some(), "cli:python"),
        ("python", raw.python.is_some(), "cli:python or session:python or mcp:stdio"),
        ("exec", raw.exec.is_some(), "cli:exec"),
        ("http", raw.http.is_some(), "http"),
        ("docker", raw.docker.is_some(), "docker"),
        ("mcp", raw.mcp.is_some(), "mcp:stdio or mcp:http"),
        ("agent", raw.agent.is_some(), "agent"),
    ];
    let takes = |runners: &str| runners.split(" or ").any(|it| it == key);
    if !blocks.iter().any(|(_, _, runners)| takes(runners)) && key != "inproc" && !key.starts_with("gateway:") {
        // The runner does not exist, which the registry reports.
        return Ok(());
    }
    match blocks.into_iter().find(|(_, given, runners)| *given && !takes(runners)) {
        Some((name, _, runners)) => refuse(name, format!("applies only to {runners} skills; this skill is {key}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::manifest::{Manifest, Rules, RunnerSpec};

    fn parse(more: &str) -> Result<Manifest, String> {
        let text = format!("id: needs\ntype: gateway\n{more}\n");
        let rules = Rules { allowed_root: Path::new("/data"), toolset: None };
        Manifest::parse(Path::new("/skills/needs.yaml"), &text, rules).map_err(|error| error.to_string())
    }

    #[test]
    fn a_skill_of_the_gateway_has_nothing_that_runs_on_a_worker() {
        let manifest = parse("runtime: tool_needs").unwrap();
        assert_eq!((manifest.how, manifest.runner.as_str()), (RunnerSpec::Gateway, "gateway:tool_needs"));
        for (more, word) in [
            ("runtime: weather", "tool_needs"),
            ("", "tool_needs"),
            ("runtime: tool_needs\nentry: main.py", "entry applies only to skills that run on a worker"),
            ("runtime: tool_needs\nlimits: {memory_mb: 1}", "answers this skill"),
            ("runtime: tool_needs\nenv: [TOKEN]", "answers this skill"),
            ("runtime: tool_needs\nagent: {prompt: x}", "applies only to agent skills"),
        ] {
            let error = parse(more).unwrap_err();
            assert!(error.contains(word), "{more}: {error}");
        }
    }
}
