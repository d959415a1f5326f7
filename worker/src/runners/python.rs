//! `cli:python`: a Python script, a fresh interpreter for each call.
//!
//! The script reads `{"input": {...}}` from stdin and prints one JSON value.

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::{ErrorCode, SkillError};

use crate::environment::{Surroundings, path_text};
use crate::manifest::python::Python as Script;
use crate::manifest::{How, Manifest};
use crate::process::jail::Plan;
use crate::process::{self, Command, Jailer, Launcher, ProcessLimits};
use crate::runner::{Invocation, RawOutput, Runner};

mod interpreter;

pub use interpreter::{Interpreter, PythonError, find};

/// The runner.
pub(crate) struct Python {
    interpreter: Result<Interpreter, ()>,
    launcher: Launcher,
    surroundings: Surroundings,
    jailer: Jailer,
}

impl Python {
    pub(crate) fn new(
        interpreter: Result<Interpreter, ()>,
        launcher: Launcher,
        surroundings: Surroundings,
        jailer: Jailer,
    ) -> Self {
        Self { interpreter, launcher, surroundings, jailer }
    }

    /// What a script's process may reach.
    fn jail(&self, interpreter: &Interpreter, script: &Path, manifest: &Manifest) -> Result<Option<Plan>, String> {
        let mut readable = interpreter.prefixes.clone();
        // The folder, for what the script imports; the file itself, in case it is a link to elsewhere.
        readable.extend(script.parent().map(Path::to_owned));
        readable.extend([script.to_owned(), interpreter.path.clone()]);
        self.jailer.plan(manifest, &readable, &[])
    }

    fn command(
        &self,
        interpreter: &Interpreter,
        script: &Path,
        invocation: &Invocation,
    ) -> Result<Command, SkillError> {
        let jail = self.jail(interpreter, script, &invocation.manifest);
        Ok(Command {
            program: interpreter.path.clone(),
            // No user site-packages, UTF-8 whatever the locale, nothing written beside the script.
            args: ["-s", "-B", "-X", "utf8"].map(str::to_owned).into_iter().chain([path_text(script)]).collect(),
            env: self.surroundings.of(invocation),
            cwd: self.surroundings.start_folder().to_owned(),
            limits: ProcessLimits::of(&invocation.manifest.limits),
            jail: jail.map_err(|reason| SkillError::new(ErrorCode::Unavailable, reason))?,
        })
    }
}

impl Runner for Python {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        let interpreter = self
            .interpreter
            .as_ref()
            .map_err(|()| "there is no usable Python on this worker; its log says why (OPENSKILL_PYTHON)")?;
        match &manifest.how {
            How::Python(Script { script, .. }) if script.is_file() => {
                self.jail(interpreter, script, manifest).map(|_| self.jailer.announce(manifest))
            }
            How::Python(Script { script, .. }) => {
                let name = script.file_name().unwrap_or_default().to_string_lossy();
                Err(format!("its script '{name}' is not there"))
            }
            _ => Err("it names no script".to_owned()),
        }
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        async move {
            let (Ok(interpreter), How::Python(Script { script, .. })) = (&self.interpreter, &invocation.manifest.how)
            else {
                return RawOutput::Failed(SkillError::new(
                    ErrorCode::Unavailable,
                    "the skill can't run on this worker",
                ));
            };
            match self.command(interpreter, script, &invocation) {
                Ok(command) => process::once(&self.launcher, &command, invocation, true).await,
                Err(error) => RawOutput::Failed(error),
            }
        }
        .boxed()
    }
}
