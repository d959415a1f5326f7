//! What servers are started with.

use std::sync::Arc;

use openskill_redact::Redactor;

use super::last_lines::LastLines;
use crate::environment::Surroundings;
use crate::process::jail::jailer::Jailer;
use crate::process::launch::Launcher;
use crate::runners::python::interpreter::Interpreter;

/// The parts of the worker that a server's connections use.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) launcher: Launcher,
    pub(super) surroundings: Surroundings,
    pub(super) jailer: Jailer,
    /// That of the server's own environment, if it has one.
    pub(super) interpreter: Option<Arc<Interpreter>>,
    /// What their texts pass before they are logged.
    pub(super) redactor: Redactor,
    /// What the processes of one server wrote last.
    pub(super) last_lines: Arc<LastLines>,
}
