//! The settings of workers and of commands that run skills, except those that the gateway also uses.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use openskill_builtins::config::browser::Browser;
use openskill_builtins::config::research::Research;
use openskill_net::listen::Address;
use openskill_sandbox::jail::{Level, SkillUsers};
use openskill_sandbox::sessions::book::SessionBounds;
use openskill_worker::config::{InstallPolicy, PythonPackages};

use super::names;
use super::problem::mask;
use super::reader::Reader;

mod browser;
mod folders;
mod packages;
mod research;
mod tools;

/// The validated settings of a worker.
#[derive(Debug, Clone)]
pub(crate) struct WorkerSettings {
    pub(crate) listen: Address,
    /// `None`: workers serve no metrics. With `up`, the address of the first worker.
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) skill_dirs: Vec<PathBuf>,
    pub(crate) allowed_root: PathBuf,
    pub(crate) concurrency: usize,
    pub(crate) reserve: Option<usize>,
    pub(crate) queue: usize,
    pub(crate) reload: Duration,
    pub(crate) idle: Duration,
    pub(crate) sessions: SessionBounds,
    pub(crate) python: PathBuf,
    pub(crate) packages: PythonPackages,
    pub(crate) tool_install: InstallPolicy,
    /// `None`: the index that ships with openskill.
    pub(crate) tool_index: Option<PathBuf>,
    pub(crate) tools_dir: PathBuf,
    pub(crate) skill_users: SkillUsers,
    pub(crate) least_jail: Level,
    pub(crate) docker_host: String,
    pub(crate) browser: Browser,
    pub(crate) research: Research,
}

pub(super) fn read(reader: &mut Reader<'_>) -> WorkerSettings {
    let raw = reader.raw;
    WorkerSettings {
        listen: reader
            .parse(names::WORKER_LISTEN, "HOST:PORT or unix:/path")
            .unwrap_or_else(|| Address::Unix(PathBuf::new())),
        metrics_listen: reader.address(names::WORKER_METRICS_LISTEN, "127.0.0.1:9464"),
        skill_dirs: raw.value(names::CLI_DIR).split(':').map(PathBuf::from).collect(),
        allowed_root: PathBuf::from(raw.value(names::ALLOWED_ROOT)),
        concurrency: reader.number(names::WORKER_CONCURRENCY, 1, 10_000),
        reserve: reader.optional(names::WORKER_RESERVE, 0, 10_000),
        queue: reader.number(names::WORKER_QUEUE, 0, 1_000_000),
        reload: reader.millis(names::RELOAD_MS, 10, 3_600_000),
        idle: reader.millis(names::IDLE_MS, 100, 86_400_000),
        sessions: SessionBounds {
            per_worker: reader.number(names::SESSIONS, 1, 512),
            per_caller: reader.number(names::SESSIONS_PER_CALLER, 1, 512),
            idle: reader.seconds(names::SESSION_IDLE_S, 1, 604_800),
            age: reader.seconds(names::SESSION_AGE_S, 1, 604_800),
        },
        python: PathBuf::from(raw.value(names::PYTHON)),
        packages: packages::read(reader),
        tool_install: reader
            .one_of(names::TOOL_INSTALL, &[("ask", InstallPolicy::Ask), ("listed", InstallPolicy::Listed)]),
        tool_index: Some(raw.value(names::TOOL_INDEX)).filter(|it| !it.is_empty()).map(PathBuf::from),
        tools_dir: tools_dir(reader),
        skill_users: reader
            .parse(names::SKILL_USER, "own, or a nonzero numeric UID or UID:GID such as 65534:65534")
            .unwrap_or(SkillUsers::Own),
        least_jail: reader.parse(names::LEAST_JAIL, "auto, standard or strict").unwrap_or_default(),
        docker_host: docker_host(reader),
        browser: browser::read(reader),
        research: research::read(reader),
    }
}

/// Returns the directory of installed tools, which may not exist.
fn tools_dir(reader: &mut Reader<'_>) -> PathBuf {
    let value = reader.raw.value(names::TOOLS_DIR);
    if value.is_empty() || value.contains(':') {
        reader.problem(names::TOOLS_DIR, format!("'{value}' is not the path of one directory"));
    }
    PathBuf::from(value)
}

fn docker_host(reader: &mut Reader<'_>) -> String {
    let value = reader.raw.value(names::DOCKER_HOST).trim_end_matches('/').to_owned();
    let valid = match value.strip_prefix("unix://") {
        Some(path) => path.starts_with('/'),
        None => value
            .replacen("tcp://", "http://", 1)
            .parse::<tonic::transport::Uri>()
            .is_ok_and(|it| it.scheme_str() == Some("http") && it.port().is_some() && it.path() == "/"),
    };
    if !valid {
        reader.problem(names::DOCKER_HOST, format!("'{}' is not unix:///path or tcp://host:port", mask(&value)));
    }
    value
}
