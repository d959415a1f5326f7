//! What a worker needs to know, resolved and valid. Whoever builds it read files and environment; nothing here does.

use std::path::PathBuf;
use std::time::Duration;

use crate::process::jail::User;

/// A worker's settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// What the worker calls itself; unique among the workers of a gateway.
    pub worker_id: String,
    /// Folders of manifests and scripts. A skill in an earlier folder hides one of the same id in a later folder.
    pub skill_dirs: Vec<PathBuf>,
    /// The only folder skills may touch: absolute, existing, symbolic links resolved.
    pub allowed_root: PathBuf,
    /// How many calls run at once. At least 1.
    pub concurrency: usize,
    /// How many more may wait for a turn.
    pub queue: usize,
    /// How long calls may take to finish after a shutdown began.
    pub drain_timeout: Duration,
    /// The Python interpreter to use; the first `python3` on `PATH` if none.
    pub python: Option<PathBuf>,
    /// What is kept warm for a skill goes when the skill has had no call for this long.
    pub idle: Duration,
    /// The openskill binary, which supervises skill processes (`openskill supervise`).
    pub supervisor: PathBuf,
    /// The user that skills' processes get, where the worker is root.
    pub skill_user: User,
    /// The container engine of `docker` skills: `unix:///path`, `tcp://host:port` or `http://host:port`.
    pub docker_host: String,
    /// How often the skill folders are looked at for changes.
    pub reload_interval: Duration,
    /// Puts the end of a failing skill's stderr into `error.details`. For development: it may hold paths and secrets.
    pub debug: bool,
}
