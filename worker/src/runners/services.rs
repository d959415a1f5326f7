//! The services that a worker's runners share.

use openskill_sandbox::launch::Launcher;
use tokio::sync::watch;

use crate::environment::SkillEnvironment;
use crate::runners::python::environments::Environments;
use crate::skill_jailer::SkillJailer;

/// The services that a worker's runners share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) launcher: Launcher,
    pub(crate) environment: SkillEnvironment,
    pub(crate) jailer: SkillJailer,
    /// Python interpreters with packages: for scripts, MCP servers and sessions.
    pub(crate) environments: Environments,
    /// Counts changes to the skills that runners offer.
    pub(crate) offers: watch::Sender<u64>,
}
