//! Plans skills' jails: what their manifests require, and what they see of this worker.

use std::path::{Path, PathBuf};

use openskill_sandbox::jail::jailer::{JailRequest, Jailer};
use openskill_sandbox::jail::plan::Plan;

use crate::config::Config;
use crate::environment::SkillEnvironment;
use crate::manifest::Manifest;

/// Plans the jail of each of a worker's skills. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SkillJailer {
    jailer: Jailer,
    environment: SkillEnvironment,
}

impl SkillJailer {
    /// Probes which features the kernel supports. Takes some milliseconds, once.
    pub(crate) fn new(config: &Config, environment: SkillEnvironment) -> Self {
        let root = environment.allowed_root().clone();
        Self { jailer: Jailer::new(&config.supervisor, config.skill_users, config.least_jail, root), environment }
    }

    /// Returns the jailer that all skills share, which knows what this machine supports.
    pub(crate) fn machine(&self) -> &Jailer {
        &self.jailer
    }

    /// Plans the jail of a skill's process. In addition to the system's programs, the library and its allowed
    /// root, the process may read and run the paths in `readable`, and change those in `writable`. These are
    /// absolute paths that exist.
    ///
    /// # Errors
    /// Fails if the manifest requires more than this machine supports, and lists what is missing.
    pub(crate) fn plan(&self, manifest: &Manifest, readable: &[PathBuf], writable: &[PathBuf]) -> Result<Plan, String> {
        let request = request(manifest, readable, writable);
        let library = self.environment.library().map(Path::to_owned);
        self.jailer.plan(JailRequest {
            readable: request.readable.into_iter().chain(library).collect(),
            root: Some(self.environment.run_root(manifest)),
            start: Some(self.environment.start_folder().to_owned()),
            ..request
        })
    }

    /// Plans the jail of a process that sees nothing of this worker. It gets no library, and the allowed root only
    /// if the manifest grants one.
    ///
    /// # Errors
    /// Returns the errors of [`SkillJailer::plan`].
    pub(crate) fn isolated_plan(
        &self,
        manifest: &Manifest,
        readable: &[PathBuf],
        writable: &[PathBuf],
    ) -> Result<Plan, String> {
        let root = manifest.allowed_root.is_some().then(|| self.environment.run_root(manifest));
        self.jailer.plan(JailRequest { root, ..request(manifest, readable, writable) })
    }

    /// Returns how well a skill's processes are isolated here: `strict`, `standard`, `partial` (less than
    /// `standard`) or `off`.
    pub(crate) fn isolation_level(&self, manifest: &Manifest) -> &'static str {
        self.jailer.isolation_level(manifest.jail.level, &manifest.jail.network)
    }

    /// Returns the limit on the skill user's processes that leaves this skill as many processes as its manifest
    /// allows.
    pub(crate) fn most_processes(&self, manifest: &Manifest) -> u64 {
        self.jailer.most_processes(manifest.jail.level, manifest.limits.processes)
    }

    /// Returns the walls that are missing for a skill that can still run.
    pub(crate) fn lacking(&self, manifest: &Manifest) -> Vec<&'static str> {
        self.jailer.lacking(manifest.jail.level, &manifest.jail.network)
    }

    /// Logs the walls that are missing for a skill that can still run.
    pub(crate) fn announce(&self, manifest: &Manifest) {
        for lacking in self.lacking(manifest) {
            tracing::warn!(skill_id = manifest.id, "jailed only in part: {lacking}");
        }
    }
}

/// Describes the jail of a process that does not see the allowed root.
fn request<'a>(manifest: &'a Manifest, readable: &[PathBuf], writable: &[PathBuf]) -> JailRequest<'a> {
    JailRequest {
        level: manifest.jail.level,
        network: &manifest.jail.network,
        limits: &manifest.limits,
        readable: [readable, &manifest.jail.readable].concat(),
        writable: writable.to_vec(),
        root: None,
        start: None,
    }
}
