//! Steps of an installation that run in a jail: each a process of the interpreter that sees what it is given, and no more.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use openskill_proto::v1::{ErrorCode, SkillError};
use serde_json::Value;

use super::bounds::{unable, unfit};
use super::work::Work;
use crate::events::EventSink;
use crate::manifest::{Jail, Level, Manifest, Network};
use crate::process::jail::jailer::Jailer;
use crate::process::launch::Launcher;
use crate::process::protocol::{Command, ProcessLimits};
use crate::process::run::{Finished, RunError, run};
use crate::runners::python::interpreter::Interpreter;

/// What starts the processes.
#[derive(Clone)]
pub(super) struct Jails {
    pub(super) jailer: Jailer,
    pub(super) launcher: Launcher,
}

/// A process.
pub(super) struct Step<'a> {
    pub(super) interpreter: &'a Interpreter,
    /// The manifest whose limits apply.
    pub(super) limits_of: &'a Manifest,
    /// The interpreter's arguments.
    pub(super) args: Vec<String>,
    /// What it reads on stdin.
    pub(super) input: Value,
    pub(super) env: BTreeMap<String, String>,
    /// What it may read besides the interpreter: absolute paths.
    pub(super) readable: Vec<PathBuf>,
    /// The folder that it fills.
    pub(super) writable: Option<PathBuf>,
    pub(super) network: Network,
    /// The largest file that it may write, in bytes.
    pub(super) most_file_bytes: u64,
}

impl Jails {
    /// Runs a process to its end. `works`: what must not be removed before nothing of the process is left. Dropping the future
    /// kills the process.
    ///
    /// # Errors
    /// It was not started, or exceeded its limits.
    pub(super) async fn run(&self, step: Step<'_>, works: Vec<Arc<Work>>) -> Result<Finished, SkillError> {
        let Step { interpreter, limits_of, args, input, mut env, readable, writable, network, most_file_bytes } = step;
        let mut manifest = limits_of.clone();
        manifest.jail = Jail { level: Level::Strict, network, readable: Vec::new() };
        manifest.allowed_root = None;
        let readable: Vec<_> = readable.into_iter().chain(interpreter.prefixes.clone()).collect();
        let readable: Vec<_> = readable.into_iter().chain([interpreter.path.clone()]).collect();
        let writable: Vec<_> = writable.into_iter().collect();
        let plan = self.jailer.isolated_plan(&manifest, &readable, &writable);
        let jail = plan.map_err(unable)?;
        let own = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C.UTF-8"), ("OPENBLAS_NUM_THREADS", "1")];
        env.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let limits = ProcessLimits::of(&manifest.limits);
        let file_size_bytes = limits.file_size_bytes.min(most_file_bytes);
        let command = Command {
            program: interpreter.path.clone(),
            args,
            env,
            cwd: "/".into(),
            limits: ProcessLimits { file_size_bytes, ..limits },
            nice: 0,
            forks: false,
            jail,
            root: None,
        };
        let input = input.to_string();
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
