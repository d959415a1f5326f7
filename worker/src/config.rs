//! The settings of a worker, resolved and validated. The caller reads files and environment; nothing here does.

use std::path::PathBuf;
use std::time::Duration;

use openskill_trace::Tracer;

use crate::manifest::Level;
use crate::process::jail::SkillUsers;

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
    /// The warm pool of a skill is released after this long without a call.
    pub idle: Duration,
    /// The openskill binary, which supervises skill processes (`openskill supervise`).
    pub supervisor: PathBuf,
    /// The users of skill processes, if the worker runs as root.
    pub skill_users: SkillUsers,
    /// The least jail of every skill that does not say `off`: `auto` demands nothing.
    pub least_jail: Level,
    /// The container engine of `docker` skills: `unix:///path`, `tcp://host:port` or `http://host:port`.
    pub docker_host: String,
    /// How often the skill folders are scanned for changes.
    pub reload_interval: Duration,
    /// How many skills have metrics of their own. The others share theirs.
    pub measured_skills: usize,
    /// Puts the end of a failing skill's stderr into `error.details`. For development: it may hold paths and secrets.
    pub debug: bool,
    /// Makes the spans of calls. None: calls are not traced.
    pub tracer: Option<Tracer>,
}
