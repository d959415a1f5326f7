//! `cli:exec`: runs a program without a shell, in one process per call.

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_sandbox::jail::plan::Plan;
use openskill_sandbox::launch::Launcher;
use openskill_sandbox::plain_file;
use openskill_sandbox::protocol::{Command, ProcessLimits};
use rustix::fs::{Access, access};

use crate::environment::SkillEnvironment;
use crate::manifest::exec::Exec;
use crate::manifest::{Manifest, RunnerSpec};
use crate::runner::{Invocation, RawOutput, Runner};
use crate::runners::once::{Given, check_start, once, unusable};
use crate::runners::services::Services;
use crate::skill_jailer::SkillJailer;

mod command_line;
mod stdin;

pub(crate) struct Executable {
    launcher: Launcher,
    surroundings: SkillEnvironment,
    jailer: SkillJailer,
}

impl Executable {
    pub(crate) fn new(services: &Services) -> Self {
        let Services { launcher, environment, jailer, .. } = services;
        Self { launcher: launcher.clone(), surroundings: environment.clone(), jailer: jailer.clone() }
    }

    /// Plans the jail of the program's process. It may read the program's folder, and the target's folder if the
    /// program is a link.
    fn jail(&self, program: &Path, manifest: &Manifest) -> Result<Plan, String> {
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
            env: self.surroundings.for_call(invocation),
            cwd: self.surroundings.start_folder().to_owned(),
            limits: ProcessLimits::from_limits(&invocation.manifest.limits),
            nice: 0,
            forks: false,
            jail: Some(jail.map_err(|reason| SkillError::new(ErrorCode::Unavailable, reason))?),
            root: Some(self.surroundings.run_root(&invocation.manifest)),
        };
        Ok((command, given))
    }
}

impl Runner for Executable {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        let RunnerSpec::Exec(exec) = &manifest.how else {
            return Err("its manifest does not name a program".to_owned());
        };
        runnable(&exec.program)?;
        self.jail(&exec.program, manifest).map(|_| self.jailer.announce(manifest))
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        async move {
            let manifest = Arc::clone(&invocation.manifest);
            let RunnerSpec::Exec(exec) = &manifest.how else {
                let message = "the skill can't run on this worker";
                return RawOutput::NotStarted(SkillError::new(ErrorCode::Unavailable, message));
            };
            match self.command(exec, &invocation) {
                Ok((command, given)) => {
                    invocation.trace.record_start("cold");
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
        it if it.is_missing() => format!("its program '{name}' does not exist"),
        other => unusable("program", program, other),
    })?;
    access(program, Access::EXEC_OK)
        .map_err(|_| format!("its program '{name}' is not executable: run `chmod +x` on it"))
}
