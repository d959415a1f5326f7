//! The parts of the worker that MCP servers need.

use std::sync::Arc;

use openskill_redact::Redactor;
use openskill_sandbox::launch::Launcher;

use super::last_lines::LastLines;
use crate::environment::SkillEnvironment;
use crate::runners::python::interpreter::Interpreter;
use crate::runners::services::Services;
use crate::skill_jailer::SkillJailer;

/// The parts of the worker that a server's connections need.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) launcher: Launcher,
    pub(super) surroundings: SkillEnvironment,
    pub(super) jailer: SkillJailer,
    /// The interpreter of the server's environment, if it has one.
    pub(super) interpreter: Option<Arc<Interpreter>>,
    /// Redacts the servers' texts before they are logged.
    pub(super) redactor: Redactor,
    /// The last lines that the server's processes wrote to stderr.
    pub(super) last_lines: Arc<LastLines>,
}

impl Host {
    pub(super) fn new(services: &Services, redactor: Redactor) -> Self {
        let Services { launcher, environment, jailer, .. } = services;
        Self {
            launcher: launcher.clone(),
            surroundings: environment.clone(),
            jailer: jailer.clone(),
            interpreter: None,
            redactor,
            last_lines: Arc::default(),
        }
    }
}
