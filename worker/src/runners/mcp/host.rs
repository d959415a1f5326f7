//! What servers are started with.

use crate::environment::Surroundings;
use crate::process::jail::jailer::Jailer;
use crate::process::launch::Launcher;

/// The parts of the worker that a server's connections use.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) launcher: Launcher,
    pub(super) surroundings: Surroundings,
    pub(super) jailer: Jailer,
}
