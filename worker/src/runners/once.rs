//! Runs one call of a script or program: `{"input": {...}}` on stdin unless the manifest says otherwise, its
//! output on stdout.

use std::path::Path;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use openskill_sandbox::launch::{LaunchError, Launcher};
use openskill_sandbox::plain_file::{self, NotPlain};
use openskill_sandbox::protocol::Command;
use openskill_sandbox::run::{Finished, RunError, run};
use openskill_telemetry::log::admits;

use crate::runner::{Invocation, RawOutput};

/// What a process reads from stdin.
pub(crate) enum StdinContent {
    /// Stdin is closed.
    Nothing,
    /// The call's arguments, in an object.
    Input,
    /// A text that the manifest selects.
    Text(Vec<u8>),
}

/// Runs `command` for this call, and returns its output.
pub(crate) async fn once(
    launcher: &Launcher,
    mut command: Command,
    invocation: Invocation,
    given: StdinContent,
) -> RawOutput {
    let Invocation { input, events, slot, .. } = invocation;
    let input = input_parts(&input);
    let parts: &[&[u8]] = match &given {
        StdinContent::Nothing => &[],
        StdinContent::Input => &input,
        StdinContent::Text(text) => &[text.as_slice()],
    };
    command.nice = slot.nice();
    run(launcher, &command, parts, &events, slot).await.map_or_else(|error| output_of_error(&error), output)
}

/// Returns a script's input in parts that are written one after the other.
pub(crate) fn input_parts(input: &[u8]) -> [&[u8]; 3] {
    [b"{\"input\": ", input, b"}\n"]
}

/// Returns a process's output, not yet normalized.
pub(crate) fn output(it: Finished) -> RawOutput {
    RawOutput::from_process(it.stdout, it.stderr, it.exit, it.leftovers)
}

/// Checks that opening a script or program does not block. `what`: its role in the skill.
///
/// # Errors
/// Fails if opening it would block, perhaps forever. The call may be retried later.
pub(crate) fn check_start(what: &str, file: &Path) -> Result<(), SkillError> {
    plain_file::check_start(file).map_err(|reason| {
        if admits("a skill was not started") {
            tracing::warn!(file = %file.display(), %reason, "a skill was not started");
        }
        SkillError::unavailable(unusable(what, file, reason)).with_blame(Blame::Skill)
    })
}

/// Checks that a skill's script or program is a plain file. `what`: its role in the skill.
///
/// # Errors
/// Returns the reason, for people, if it is missing or of another kind.
pub(crate) fn check_file(what: &str, file: &Path) -> Result<(), String> {
    plain_file::check(file).map_err(|reason| match reason {
        it if it.is_missing() => {
            format!("its {what} '{}' does not exist", file.file_name().unwrap_or_default().to_string_lossy())
        }
        other => unusable(what, file, other),
    })
}

/// Explains why a skill's script or program can't be used, without its path.
pub(crate) fn unusable(what: &str, file: &Path, reason: NotPlain) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    format!("its {what} '{name}' cannot be used: {reason}")
}

/// Returns the output of a failed run.
pub(crate) fn output_of_error(error: &RunError) -> RawOutput {
    let failed = |code, message: String| RawOutput::Failed(SkillError::new(code, message));
    let not_started = |message: String| RawOutput::NotStarted(SkillError::new(ErrorCode::ToolInvocationError, message));
    match error {
        RunError::OutputTooLarge => failed(ErrorCode::OutputTooLarge, format!("the skill {error}")),
        RunError::StillOpen => failed(ErrorCode::ExecutionError, format!("the skill {error}")),
        RunError::Exceeded(reason) => failed(ErrorCode::ExecutionError, reason.clone()),
        RunError::NotStarted { .. } => not_started(format!("the skill {error}")),
        // Only the skill could have killed the supervisor.
        RunError::Launch(LaunchError::Lost) => {
            if admits("a supervisor was killed") {
                tracing::warn!("a skill's supervisor was killed");
            }
            let message = "the skill's process could not be supervised to its end, so its exit status is unknown";
            failed(ErrorCode::ExecutionError, message.to_owned())
        }
        RunError::Launch(LaunchError::Root(error)) => RawOutput::NotStarted(error.clone().into_error()),
        RunError::Launch(reason @ LaunchError::Supervisor(_)) => {
            if admits("a process was not started") {
                tracing::warn!(%reason, "a skill's process could not be started");
            }
            not_started("the skill's process could not be started".to_owned())
        }
    }
}
