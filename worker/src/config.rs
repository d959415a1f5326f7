//! A worker's resolved and validated settings. The caller reads files and the environment; this module does not.

pub(crate) mod allowed;
pub(crate) mod variables;

use std::path::{Path, PathBuf};
use std::time::Duration;

use openskill_builtins::config::browser::Browser;
use openskill_builtins::config::research::Research;
use openskill_net::tls::server::Acceptor;
use openskill_redact::Redactor;
use openskill_sandbox::jail::{Level, SkillUsers};
use openskill_sandbox::sessions::book::SessionBounds;
use openskill_telemetry::trace::Tracer;

use crate::manifest::Manifest;
use crate::shipped::UnpackedSets;

pub use allowed::{AllowList, NoList};
pub use variables::Variables;

/// A worker's settings, which do not change while it runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// The worker's name, unique among the workers of a gateway.
    pub worker_id: String,
    /// The folders of manifests and scripts. A skill in an earlier folder hides one with the same id in a later
    /// folder.
    pub skill_dirs: Vec<PathBuf>,
    /// The shipped skills that this worker serves. Their folder is one of `skill_dirs`, and a skill with the same id in
    /// another folder of the user hides a shipped one.
    pub shipped: Option<UnpackedSets>,
    /// The allowed root of skills: an existing absolute path with all symbolic links resolved.
    pub allowed_root: PathBuf,
    /// The variables that manifests may name.
    pub variables: Variables,
    /// The maximum number of concurrent calls, at least 1.
    pub concurrency: usize,
    /// The number of slots beyond the concurrency limit. They are reserved for short calls of callers with less
    /// than an even share.
    pub reserve: usize,
    /// The maximum number of additional calls that wait in a queue, for the worker and for each skill with a
    /// concurrency limit.
    pub queue: usize,
    /// How long running calls may take after shutdown begins.
    pub drain_timeout: Duration,
    /// The Python interpreter, or `None` for the first `python3` on `PATH`.
    pub python: Option<PathBuf>,
    /// The source of Python skills' packages, and the folder for their environments.
    pub packages: PythonPackages,
    /// The folder in which the Python SDK is kept. `None`: only skill folders provide it.
    pub sdk: Option<PathBuf>,
    /// The settings for installing tools.
    pub tools: ToolsConfig,
    /// How long a warm pool is kept without calls.
    pub idle: Duration,
    /// The maximum number of sessions, and how long they are kept.
    pub sessions: SessionBounds,
    /// The openskill binary, which supervises skill processes (`openskill supervise`).
    pub supervisor: PathBuf,
    /// The users of skill processes, if the worker runs as root.
    pub skill_users: SkillUsers,
    /// The minimum jail level of each skill that does not set `off`. `auto` requires nothing.
    pub least_jail: Level,
    /// The container engine of `docker` skills: `unix:///path`, `tcp://host:port` or `http://host:port`.
    pub docker_host: String,
    /// The browser that the browser tools use, and its limits.
    pub browser: Browser,
    /// The search provider of the research tools, and their limits.
    pub research: Research,
    /// The interval between scans of the skill folders.
    pub reload_interval: Duration,
    /// The number of skills with separate metrics. All others are combined.
    pub measured_skills: usize,
    /// Adds the end of a failing skill's stderr to `error.details`. Intended for development, because it may
    /// contain paths and secrets.
    pub debug: bool,
    /// Receives what each skill writes to stderr, redacted. For commands that show it to the skill's author.
    pub show_stderr: Option<fn(&str)>,
    /// The only skill, instead of those of the folders. For commands that call the skill of one file.
    pub only: Option<Manifest>,
    /// Redacts texts that are logged in pieces. The log writer redacts each piece only on its own.
    pub redactor: Redactor,
    /// The worker's certificate, and the gateways that may call it over TCP. `None` accepts any client that
    /// reaches the address. File permissions protect Unix sockets.
    pub mesh: Option<Acceptor>,
    /// Creates calls' spans. `None` if calls are not traced.
    pub tracer: Option<Tracer>,
}

/// The settings for installing MCP servers from the tool index.
#[derive(Debug, Clone)]
pub struct ToolsConfig {
    /// The folder of installed servers: an absolute path that skills can't access. It need not exist. It is also
    /// one of the skill folders.
    pub folder: PathBuf,
    /// The index: an absolute path that skills can't access. `None` selects the built-in one.
    pub index: Option<PathBuf>,
    /// Whether calls may install tools.
    pub policy: InstallPolicy,
}

/// Whether calls may install tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallPolicy {
    /// Only the operator may install. A call returns candidates.
    Ask,
    /// Calls may install tools that the index lists.
    Listed,
}

/// The source of Python skills' packages, and the folder for their environments.
#[derive(Debug, Clone)]
pub struct PythonPackages {
    /// The folder of environments. If `None`, skills that need packages are unavailable.
    pub store: Option<PathBuf>,
    /// The program that installs packages.
    pub installer: Installer,
    /// The package index from which packages are installed.
    pub index: Index,
    /// A folder or page of wheels, which complements or replaces the index.
    pub find_links: Option<String>,
    /// The packages that calls may install in sessions.
    pub for_sessions: AllowList,
    /// The timeout for building one environment.
    pub build_timeout: Duration,
    /// How long an unused environment is kept. `None` keeps it forever.
    pub keep: Option<Duration>,
    /// Which environments this process builds.
    pub builds: Builds,
    /// The variables that configure installers.
    pub variables: Variables,
    /// Receives a line of text for people at each step of a build.
    pub progress: fn(&str),
}

impl PythonPackages {
    /// Returns the folder of wheels, if `find_links` is a folder.
    pub(crate) fn wheel_folder(&self) -> Option<&Path> {
        self.find_links.as_deref().filter(|it| !is_url(it)).map(Path::new)
    }

    /// Returns the URL of the page of wheels, if `find_links` is a page.
    pub(crate) fn wheel_page(&self) -> Option<&str> {
        self.find_links.as_deref().filter(|it| is_url(it))
    }
}

fn is_url(links: &str) -> bool {
    links.contains("://")
}

/// The error message for a missing folder of wheels.
pub(crate) const NO_WHEEL_FOLDER: &str = "OPENSKILL_PYTHON_FIND_LINKS names no directory on this worker";

/// The program that installs packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installer {
    /// `uv` if it is on `PATH`, otherwise pip.
    Auto,
    /// Always `uv`.
    Uv,
    /// The interpreter's own pip.
    Pip,
}

/// Selects the package index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Index {
    /// The index in the installer's configuration.
    Configured,
    /// No index. All packages come from `find_links`.
    None,
    /// This URL, which may contain credentials.
    Url(String),
}

/// Which environments a process builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Builds {
    /// All skills' environments.
    All,
    /// The environment of the skill with this id.
    Only(String),
    /// None. Only existing environments are used.
    None,
}
