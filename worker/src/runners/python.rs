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
use crate::process::{self, Command, Launcher, ProcessLimits};
use crate::runner::{Invocation, RawOutput, Runner};

mod interpreter;

pub use interpreter::{Interpreter, PythonError, find};

/// The runner.
pub(crate) struct Python {
    interpreter: Result<Interpreter, ()>,
    launcher: Launcher,
    surroundings: Surroundings,
}

impl Python {
    pub(crate) fn new(interpreter: Result<Interpreter, ()>, launcher: Launcher, surroundings: Surroundings) -> Self {
        Self { interpreter, launcher, surroundings }
    }

    fn command(&self, interpreter: &Interpreter, script: &Path, invocation: &Invocation) -> Command {
        Command {
            program: interpreter.path.clone(),
            // No user site-packages, UTF-8 whatever the locale, nothing written beside the script.
            args: ["-s", "-B", "-X", "utf8"].map(str::to_owned).into_iter().chain([path_text(script)]).collect(),
            env: self.surroundings.of(invocation),
            cwd: self.surroundings.start_folder().to_owned(),
            limits: ProcessLimits::of(&invocation.manifest.limits),
        }
    }
}

impl Runner for Python {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        self.interpreter
            .as_ref()
            .map_err(|()| "there is no usable Python on this worker; its log says why (OPENSKILL_PYTHON)")?;
        match &manifest.how {
            How::Python(Script { script, .. }) if script.is_file() => Ok(()),
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
            let command = self.command(interpreter, script, &invocation);
            process::once(&self.launcher, &command, invocation, true).await
        }
        .boxed()
    }
}
