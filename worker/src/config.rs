//! The settings of a worker, resolved and validated. The caller reads files and environment; nothing here does.

pub mod browser;
pub mod research;

use std::path::{Path, PathBuf};
use std::time::Duration;

use openskill_net::tls::server::Acceptor;
use openskill_redact::Redactor;
use openskill_trace::Tracer;

use crate::manifest::Level;
use crate::process::jail::SkillUsers;
pub use crate::sessions::allowed::{AllowList, NoList};
pub use crate::sessions::book::Bounds as SessionBounds;
use crate::sessions::book::Bounds;

/// A worker's settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// The worker's name; unique among the workers of a gateway.
    pub worker_id: String,
    /// Folders of manifests and scripts. A skill in an earlier folder hides one of the same id in a later folder.
    pub skill_dirs: Vec<PathBuf>,
    /// The allowed root of skills: absolute, existing, symbolic links resolved.
    pub allowed_root: PathBuf,
    /// The concurrency limit. At least 1.
    pub concurrency: usize,
    /// Slots beyond the concurrency limit, reserved for short calls of callers that hold less than an even share.
    pub reserve: usize,
    /// How many more calls may queue, for the worker and for each skill with a limit of its own.
    pub queue: usize,
    /// How long calls may take to finish after shutdown begins.
    pub drain_timeout: Duration,
    /// The Python interpreter to use; the first `python3` on `PATH` if none.
    pub python: Option<PathBuf>,
    /// Where the packages of Python skills come from and are kept.
    pub packages: PythonPackages,
    /// The tools that can be installed.
    pub tools: Tools,
    /// The warm pool of a skill is released after this long without a call.
    pub idle: Duration,
    /// How many sessions are kept, and for how long.
    pub sessions: Bounds,
    /// The openskill binary, which supervises skill processes (`openskill supervise`).
    pub supervisor: PathBuf,
    /// The users of skill processes, if the worker runs as root.
    pub skill_users: SkillUsers,
    /// The least jail of every skill that does not say `off`: `auto` demands nothing.
    pub least_jail: Level,
    /// The container engine of `docker` skills: `unix:///path`, `tcp://host:port` or `http://host:port`.
    pub docker_host: String,
    /// Which browser the browser tools use, and its bounds.
    pub browser: browser::Browser,
    /// What the research tools search, and their limits.
    pub research: research::Research,
    /// How often the skill folders are scanned for changes.
    pub reload_interval: Duration,
    /// How many skills have metrics of their own. The others share theirs.
    pub measured_skills: usize,
    /// Puts the end of a failing skill's stderr into `error.details`. For development: it may hold paths and secrets.
    pub debug: bool,
    /// What texts pass that are logged in pieces. The log as a whole is redacted by whoever writes it.
    pub redactor: Redactor,
    /// The worker's certificate, and the gateways that may call it at a TCP address. None: everybody who reaches the address
    /// may. Unix sockets are protected by the modes of the files.
    pub mesh: Option<Acceptor>,
    /// Makes the spans of calls. None: calls are not traced.
    pub tracer: Option<Tracer>,
}

/// The tools that can be installed: from which index, where to, and by whom.
#[derive(Debug, Clone)]
pub struct Tools {
    /// The folder of installed servers: absolute, and out of reach for skills. It need not exist. It is one of the skill
    /// folders too.
    pub folder: PathBuf,
    /// The index: absolute, and out of reach for skills. None: the one that ships.
    pub index: Option<PathBuf>,
    /// Who installs.
    pub policy: InstallPolicy,
}

/// Who installs tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallPolicy {
    /// The operator: calls are answered with candidates.
    Ask,
    /// Calls as well: what the index lists.
    Listed,
}

/// Where the packages of Python skills come from, and where environments are kept.
#[derive(Debug, Clone)]
pub struct PythonPackages {
    /// The folder of environments. None: there is no place for it, and skills with packages of their own are unavailable.
    pub store: Option<PathBuf>,
    /// What installs packages.
    pub installer: Installer,
    /// The package index.
    pub index: Index,
    /// A folder or page of wheels beside the index, or instead of it.
    pub find_links: Option<String>,
    /// The packages that calls may install in sessions.
    pub for_sessions: AllowList,
    /// How long building one environment may take.
    pub build_timeout: Duration,
    /// How long an environment is kept that no skill uses. None: for ever.
    pub keep: Option<Duration>,
    /// Which environments are built.
    pub builds: Builds,
    /// Told of each step of a build, in a line for people.
    pub progress: fn(&str),
}

impl PythonPackages {
    /// The folder of wheels, if `find_links` is one.
    pub(crate) fn wheel_folder(&self) -> Option<&Path> {
        self.find_links.as_deref().filter(|it| !is_url(it)).map(Path::new)
    }

    /// The URL of the page with links to wheels, if `find_links` is one.
    pub(crate) fn wheel_page(&self) -> Option<&str> {
        self.find_links.as_deref().filter(|it| is_url(it))
    }
}

fn is_url(links: &str) -> bool {
    links.contains("://")
}

/// The reason if the folder of wheels is none.
pub(crate) const NO_WHEEL_FOLDER: &str = "OPENSKILL_PYTHON_FIND_LINKS names no directory on this worker";

/// What installs packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installer {
    /// `uv` if it is on `PATH`, else pip.
    Auto,
    /// `uv`.
    Uv,
    /// The pip of the interpreter.
    Pip,
}

/// The package index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Index {
    /// That of the installer's own configuration.
    Configured,
    /// None: packages come from `find_links` alone.
    None,
    /// This one: a URL, which may hold credentials.
    Url(String),
}

/// Which environments are built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Builds {
    /// Those of all skills.
    All,
    /// That of one skill.
    Only(String),
    /// None: those that are there are used.
    None,
}
