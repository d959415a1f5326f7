//! One call of a script or a program: `{"input": {...}}` on stdin unless its manifest says otherwise, its output on stdout.

use std::path::Path;

use openskill_log::admits;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};

use crate::allowed_root::RootError;
use crate::plain_file::{self, NotPlain};
use crate::process::launch::{LaunchError, Launcher};
use crate::process::protocol::Command;
use crate::process::run::{Finished, RunError, run};
use crate::runner::{Invocation, RawOutput};

/// What a process reads on stdin.
pub(crate) enum Given {
    /// Nothing: it is closed.
    Nothing,
    /// The arguments of the call.
    Input,
    /// This text.
    Text(Vec<u8>),
}

/// Runs `command` for this call.
pub(crate) async fn once(launcher: &Launcher, mut command: Command, invocation: Invocation, given: Given) -> RawOutput {
    let Invocation { input, events, slot, .. } = invocation;
    let input = input_parts(&input);
    let parts: &[&[u8]] = match &given {
        Given::Nothing => &[],
        Given::Input => &input,
        Given::Text(text) => &[text.as_slice()],
    };
    command.nice = slot.nice();
    run(launcher, &command, parts, &events, slot).await.map_or_else(|error| unfinished(&error), output)
}

/// What a script reads.
pub(crate) fn input_parts(input: &[u8]) -> [&[u8]; 3] {
    [b"{\"input\": ", input, b"}\n"]
}

/// The output of a process, not yet normalized.
pub(crate) fn output(it: Finished) -> RawOutput {
    RawOutput::Process { stdout: it.stdout, stderr: it.stderr, exit: it.exit, leftovers: it.leftovers }
}

/// What the caller is told if the skill has no allowed root now.
pub(crate) fn no_root(error: RootError) -> SkillError {
    if admits("a skill was not started") {
        tracing::warn!(%error, "a skill was not started");
    }
    SkillError::new(ErrorCode::ToolInvocationError, error.to_string())
}

/// Checks that a process which starts a script or a program does not wait to open it. `what` it is to the skill.
///
/// # Errors
/// It would wait, or never end to: the call may be tried later.
pub(crate) fn check_start(what: &str, file: &Path) -> Result<(), SkillError> {
    plain_file::check_start(file).map_err(|reason| {
        if admits("a skill was not started") {
            tracing::warn!(file = %file.display(), %reason, "a skill was not started");
        }
        SkillError::unavailable(unusable(what, file, reason)).with_blame(Blame::Skill)
    })
}

/// Why a skill's script or program cannot be used, without its path.
pub(crate) fn unusable(what: &str, file: &Path, reason: NotPlain) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    format!("its {what} '{name}' cannot be used: {reason}")
}

/// The output of a run that ended without any.
pub(crate) fn unfinished(error: &RunError) -> RawOutput {
    let failure = failure(error);
    match error {
        RunError::NotStarted { .. } | RunError::Launch(LaunchError::Supervisor(_) | LaunchError::Root(_)) => {
            RawOutput::NotStarted(failure)
        }
        RunError::OutputTooLarge
        | RunError::Exceeded(_)
        | RunError::StillOpen
        | RunError::Launch(LaunchError::Lost) => RawOutput::Failed(failure),
    }
}

/// What the caller is told about a run without output.
fn failure(error: &RunError) -> SkillError {
    match error {
        RunError::OutputTooLarge => SkillError::new(ErrorCode::OutputTooLarge, format!("the skill {error}")),
        RunError::StillOpen => SkillError::new(ErrorCode::ExecutionError, format!("the skill {error}")),
        RunError::Exceeded(reason) => SkillError::new(ErrorCode::ExecutionError, reason.clone()),
        RunError::NotStarted { .. } => SkillError::new(ErrorCode::ToolInvocationError, format!("the skill {error}")),
        // Only the skill could have killed it.
        RunError::Launch(LaunchError::Lost) => {
            if admits("a supervisor was killed") {
                tracing::warn!("a skill's supervisor was killed");
            }
            SkillError::new(
                ErrorCode::ExecutionError,
                "the skill's process could not be supervised to its end, so its exit status is unknown",
            )
        }
        RunError::Launch(LaunchError::Root(error)) => no_root(error.clone()),
        RunError::Launch(reason) => {
            if admits("a process was not started") {
                tracing::warn!(%reason, "a skill's process could not be started");
            }
            SkillError::new(ErrorCode::ToolInvocationError, "the skill's process could not be started")
        }
    }
}
