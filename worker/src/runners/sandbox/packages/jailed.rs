//! Runs an installation's steps in a jail. Each is a process of the interpreter that sees only the files it needs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_sandbox::jail::{Level, Network};
use openskill_sandbox::launch::Launcher;
use openskill_sandbox::protocol::{Command, ProcessLimits};
use openskill_sandbox::run::{Finished, RunError, run};
use serde_json::Value;

use super::bounds::{unable, unfit};
use super::work::Work;
use crate::events::EventSink;
use crate::manifest::{Jail, Manifest};
use crate::runners::python::interpreter::Interpreter;
use crate::skill_jailer::SkillJailer;

/// Starts processes in jails that see only what a step needs.
#[derive(Clone)]
pub(super) struct Jails {
    pub(super) jailer: SkillJailer,
    pub(super) launcher: Launcher,
}

/// The interpreter for a step, and the manifest whose limits apply to it.
#[derive(Clone, Copy)]
pub(crate) struct JailedInterpreter<'a> {
    pub(crate) interpreter: &'a Interpreter,
    pub(crate) limits_of: &'a Manifest,
}

/// A step of an installation.
pub(super) struct JailedStep<'a> {
    pub(super) python: JailedInterpreter<'a>,
    /// The source of the program that runs.
    pub(super) program: &'a str,
    pub(super) args: Vec<String>,
    /// The value that is written to its stdin as JSON.
    pub(super) input: Value,
    pub(super) env: BTreeMap<String, String>,
    /// Additional absolute paths that it may read.
    pub(super) readable: Vec<PathBuf>,
    /// The folder that it writes to.
    pub(super) writable: Option<PathBuf>,
    pub(super) network: Network,
    /// The maximum size of a file that it writes, in bytes.
    pub(super) most_file_bytes: u64,
}

impl Jails {
    /// Runs a process to its end. Keeps `works` until the process tree has ended. Dropping the future kills the
    /// process.
    ///
    /// # Errors
    /// Fails if the process was not started or exceeded its limits.
    pub(super) async fn run(&self, step: JailedStep<'_>, works: Vec<Arc<Work>>) -> Result<Finished, SkillError> {
        let JailedInterpreter { interpreter, limits_of } = step.python;
        let mut manifest = limits_of.clone();
        manifest.jail = Jail { level: Level::Strict, network: step.network, readable: Vec::new() };
        manifest.allowed_root = None;
        let own = std::slice::from_ref(&interpreter.path);
        let readable = [&step.readable[..], &interpreter.prefixes[..], own].concat();
        let jail = self.jailer.isolated_plan(&manifest, &readable, step.writable.as_slice()).map_err(unable)?;
        let mut env = step.env;
        let own = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C.UTF-8"), ("OPENBLAS_NUM_THREADS", "1")];
        env.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let limits = ProcessLimits::from_limits(&manifest.limits);
        let file_size_bytes = limits.file_size_bytes.min(step.most_file_bytes);
        let command = Command {
            program: interpreter.path.clone(),
            args: ["-I", "-B", "-c", step.program].map(str::to_owned).into_iter().chain(step.args).collect(),
            env,
            cwd: "/".into(),
            limits: ProcessLimits { file_size_bytes, ..limits },
            nice: 0,
            forks: false,
            jail: Some(jail),
            root: None,
        };
        let input = step.input.to_string();
        run(&self.launcher, &command, &[input.as_bytes()], &EventSink::default(), works).await.map_err(not_run)
    }
}

fn not_run(error: RunError) -> SkillError {
    match error {
        RunError::Exceeded(reason) => {
            unfit(format!("the package was not installed: a step of its installation exceeded a limit: {reason}"))
        }
        other => {
            tracing::warn!(error = %other, "a step of an installation did not run");
            SkillError::new(ErrorCode::ToolInvocationError, "a step of the installation could not be run")
        }
    }
}
