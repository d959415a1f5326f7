//! `cli:exec`: any program, a process for each call. No shell is involved.

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::{ErrorCode, SkillError};
use rustix::fs::{Access, access};

use crate::environment::Surroundings;
use crate::manifest::exec::Exec;
use crate::manifest::{How, Manifest};
use crate::plain_file;
use crate::process::jail::jailer::Jailer;
use crate::process::jail::plan::Plan;
use crate::process::launch::Launcher;
use crate::process::protocol::Command;
use crate::process::protocol::ProcessLimits;
use crate::runner::{Invocation, RawOutput, Runner};
use crate::runners::once::{Given, check_start, once, unusable};

mod command_line;
mod stdin;

/// The runner.
pub(crate) struct Executable {
    launcher: Launcher,
    surroundings: Surroundings,
    jailer: Jailer,
}

impl Executable {
    pub(crate) fn new(launcher: Launcher, surroundings: Surroundings, jailer: Jailer) -> Self {
        Self { launcher, surroundings, jailer }
    }

    /// What the program's process may reach: its own folder, and that of its target if it is a link.
    fn jail(&self, program: &Path, manifest: &Manifest) -> Result<Option<Plan>, String> {
        let real = program.canonicalize().ok();
        let folders = [Some(program), real.as_deref()].into_iter().flatten().filter_map(Path::parent);
        let readable: Vec<_> = folders.map(Path::to_owned).chain([program.to_owned()]).collect();
        self.jailer.plan(manifest, &readable, &[])
    }

    fn command(&self, exec: &Exec, invocation: &Invocation) -> Result<(Command, Given), SkillError> {
        check_start("program", &exec.program)?;
        let jail = self.jail(&exec.program, &invocation.manifest);
        let given = stdin::fill(&exec.stdin, &invocation.input)?;
        let command = Command {
            program: exec.program.clone(),
            args: command_line::fill(&exec.args, &invocation.input)?,
            env: self.surroundings.of(invocation),
            cwd: self.surroundings.start_folder().to_owned(),
            limits: ProcessLimits::of(&invocation.manifest.limits),
            nice: 0,
            forks: false,
            jail: jail.map_err(|reason| SkillError::new(ErrorCode::Unavailable, reason))?,
            root: Some(self.surroundings.run_root(&invocation.manifest)),
        };
        Ok((command, given))
    }
}

impl Runner for Executable {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        let How::Exec(exec) = &manifest.how else { return Err("it names no program".to_owned()) };
        runnable(&exec.program)?;
        self.jail(&exec.program, manifest).map(|_| self.jailer.announce(manifest))
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        async move {
            let manifest = Arc::clone(&invocation.manifest);
            let How::Exec(exec) = &manifest.how else {
                let message = "the skill can't run on this worker";
                return RawOutput::NotStarted(SkillError::new(ErrorCode::Unavailable, message));
            };
            match self.command(exec, &invocation) {
                Ok((command, given)) => {
                    invocation.trace.started("cold");
                    once(&self.launcher, command, invocation, given).await
                }
                Err(error) => RawOutput::NotStarted(error),
            }
        }
        .boxed()
    }
}

fn runnable(program: &Path) -> Result<(), String> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    plain_file::check(program).map_err(|reason| match reason {
        it if it.is_missing() => format!("its program '{name}' is not there"),
        other => unusable("program", program, other),
    })?;
    access(program, Access::EXEC_OK).map_err(|_| format!("its program '{name}' is not executable: chmod +x"))
}
