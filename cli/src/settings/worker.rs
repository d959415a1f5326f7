//! The settings of workers and of commands that run skills, except those that the gateway also uses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use openskill_net::listen::Address;
use openskill_redact::Redactor;
use openskill_sandbox::jail::SkillUsers;
use openskill_sandbox::sessions::book::SessionBounds;
use openskill_worker::config::{Config, InstallPolicy, ToolsConfig, Variables};
use openskill_worker::shipped::SkillSet;

use super::problem::mask;
use super::reader::Reader;

mod browser;
mod folders;
mod packages;
mod research;

/// This binary, even if the file has been replaced on disk.
pub(crate) const OWN_BINARY: &str = "/proc/self/exe";

/// The validated settings of a worker.
#[derive(Debug, Clone)]
pub(crate) struct WorkerSettings {
    pub(crate) listen: Address,
    /// `None`: workers serve no metrics. With `up`, the address of the first worker.
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// The sets of shipped skills that are served, by name.
    pub(crate) sets: Vec<&'static SkillSet>,
    /// The configuration of a worker, with its directories as the settings name them. The commands that run skills
    /// resolve these, and set the redactor.
    pub(crate) config: Config,
}

pub(super) fn read(reader: &mut Reader<'_>, gateway: &openskill_gateway::Config) -> WorkerSettings {
    let raw = reader.raw;
    let policies = [("ask", InstallPolicy::Ask), ("listed", InstallPolicy::Listed)];
    let concurrency = reader.number("OPENSKILL_WORKER_CONCURRENCY", 1, 10_000);
    WorkerSettings {
        listen: reader
            .parse("OPENSKILL_WORKER_LISTEN", "HOST:PORT or unix:/path")
            .unwrap_or_else(|| Address::Unix(PathBuf::new())),
        metrics_listen: reader.address("OPENSKILL_WORKER_METRICS_LISTEN", "127.0.0.1:9464"),
        sets: sets(reader),
        config: Config {
            worker_id: reader.worker_id(),
            skill_dirs: raw.value("OPENSKILL_CLI_DIR").split(':').map(PathBuf::from).collect(),
            shipped: None,
            allowed_root: PathBuf::from(raw.value("OPENSKILL_ALLOWED_ROOT")),
            variables: Variables::new(raw.variables().clone()),
            concurrency,
            reserve: reader.optional("OPENSKILL_WORKER_RESERVE", 0, 10_000).unwrap_or(concurrency / 4),
            queue: reader.number("OPENSKILL_WORKER_QUEUE", 0, 1_000_000),
            drain_timeout: gateway.drain_timeout,
            reload_interval: reader.millis("OPENSKILL_RELOAD_MS", 10, 3_600_000),
            idle: reader.millis("OPENSKILL_IDLE_MS", 100, 86_400_000),
            sessions: SessionBounds {
                per_worker: reader.number("OPENSKILL_SESSIONS", 1, 512),
                per_caller: reader.number("OPENSKILL_SESSIONS_PER_CALLER", 1, 512),
                idle: reader.seconds("OPENSKILL_SESSION_IDLE_S", 1, 604_800),
                age: reader.seconds("OPENSKILL_SESSION_AGE_S", 1, 604_800),
            },
            python: Some(PathBuf::from(raw.value("OPENSKILL_PYTHON"))),
            packages: packages::read(reader),
            sdk: packages::in_cache("sdk"),
            tools: ToolsConfig {
                folder: tools_dir(reader),
                index: raw.path("OPENSKILL_TOOL_INDEX"),
                policy: reader.one_of("OPENSKILL_TOOL_INSTALL", &policies),
            },
            supervisor: PathBuf::from(OWN_BINARY),
            skill_users: reader
                .parse("OPENSKILL_SKILL_USER", "own, or a nonzero numeric UID or UID:GID such as 65534:65534")
                .unwrap_or(SkillUsers::Own),
            least_jail: reader.parse("OPENSKILL_LEAST_JAIL", "auto, standard or strict").unwrap_or_default(),
            docker_host: docker_host(reader),
            browser: browser::read(reader),
            research: research::read(reader),
            measured_skills: gateway.measured_skills,
            debug: reader.flag("OPENSKILL_DEBUG"),
            show_stderr: None,
            only: None,
            redactor: Redactor::off(),
            // Only a worker that serves calls needs these.
            mesh: None,
            tracer: None,
        },
    }
}

/// Returns the sets of shipped skills, each once, so that the same sets have one directory.
fn sets(reader: &mut Reader<'_>) -> Vec<&'static SkillSet> {
    let mut sets = BTreeMap::new();
    for name in reader.raw.list("OPENSKILL_WITH") {
        match SkillSet::find(name) {
            Ok(set) => drop(sets.insert(set.name, set)),
            Err(unknown) => reader.problem("OPENSKILL_WITH", unknown.to_string()),
        }
    }
    sets.into_values().collect()
}

/// Returns the directory of installed tools, which may not exist.
fn tools_dir(reader: &mut Reader<'_>) -> PathBuf {
    let value = reader.raw.value("OPENSKILL_TOOLS_DIR");
    if value.is_empty() || value.contains(':') {
        reader.problem("OPENSKILL_TOOLS_DIR", format!("'{value}' is not the path of one directory"));
    }
    PathBuf::from(value)
}

fn docker_host(reader: &mut Reader<'_>) -> String {
    let value = reader.raw.value("OPENSKILL_DOCKER_HOST").trim_end_matches('/').to_owned();
    let valid = match value.strip_prefix("unix://") {
        Some(path) => path.starts_with('/'),
        None => value
            .replacen("tcp://", "http://", 1)
            .parse::<tonic::transport::Uri>()
            .is_ok_and(|it| it.scheme_str() == Some("http") && it.port().is_some() && it.path() == "/"),
    };
    if !valid {
        reader.problem("OPENSKILL_DOCKER_HOST", format!("'{}' is not unix:///path or tcp://host:port", mask(&value)));
    }
    value
}
