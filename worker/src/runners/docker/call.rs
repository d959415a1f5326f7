//! Runs one call in its container, from the start to the output.

use std::time::Duration;

use bollard::errors::Error;
use bollard::models::ContainerState;
use bollard::query_parameters::AttachContainerOptionsBuilder;
use futures_util::StreamExt as _;
use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_sandbox::allowed_root::RootError;
use openskill_sandbox::protocol::Exit;

use super::conversation::{ProcessOutput, Streams, TalkError, talk};
use super::fleet::Container;
use super::mounted::{MountCheck, RootMount};
use crate::events::EventSink;
use crate::runner::RawOutput;
use crate::runners::once::input_parts;

/// Pauses in milliseconds between requests for the out-of-memory flag, which a loaded engine reports late.
const MEMORY_LOOKS_MS: [u64; 5] = [25, 50, 100, 200, 400];

/// A call to run in a container.
pub(super) struct ContainerCall<'a> {
    pub(super) input: &'a [u8],
    pub(super) mark: &'a str,
    pub(super) events: &'a EventSink,
    pub(super) memory_mb: u64,
    /// The allowed root, if it is mounted.
    pub(super) root: Option<&'a RootMount>,
}

/// The reasons why a call has no output.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallFailure {
    /// The skill was not started, so the call had no effect.
    #[error("not started: {0}")]
    NotStarted(#[source] Error),
    #[error(transparent)]
    Fault(#[from] TalkError),
    #[error("out of memory")]
    Memory { megabytes: u64 },
    /// The skill's allowed root is unavailable.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The engine mounted, or may have mounted, another folder than the allowed root.
    #[error("another folder was mounted")]
    Swapped,
}

/// Starts the container and exchanges data with its process until it has exited.
pub(super) async fn run(container: &Container, task: &ContainerCall<'_>) -> Result<RawOutput, CallFailure> {
    let Container { client, name, .. } = container;
    let options = AttachContainerOptionsBuilder::default().stdin(true).stdout(true).stderr(true).stream(true).build();
    // Attach before the start, so that no output is missed.
    let attached = client.attach_container(name, Some(options)).await.map_err(CallFailure::NotStarted)?;
    client.start_container(name, None).await.map_err(not_started_if_refused)?;
    if let Some(root) = task.root
        && let Err(failure) = check_root(container, root, task.mark).await
    {
        // Kill it first, because it may be writing to the wrong folder.
        let _ = client.kill_container(name, None).await;
        return Err(failure);
    }
    let ended = async {
        match client.wait_container(name, None).next().await {
            // The exit code is requested below, with the other results.
            Some(Ok(_) | Err(Error::DockerContainerWaitError { .. })) => Ok(()),
            Some(Err(error)) => Err(error),
            None => Err(Error::RequestTimeoutError),
        }
    };
    let streams = Streams { output: attached.output, input: attached.input };
    let said = talk(streams, &input_parts(task.input), task.mark, task.events, ended).await?;
    let state = state(container).await?;
    let code = state.exit_code.unwrap_or(-1);
    judge(container, task, said, code, state.oom_killed == Some(true)).await
}

/// Checks that the right folder is mounted before the container receives its arguments.
async fn check_root(container: &Container, root: &RootMount, mark: &str) -> Result<(), CallFailure> {
    if !root.is_in_place()? {
        return Err(CallFailure::Swapped);
    }
    let pid = state(container).await?.pid.unwrap_or_default();
    match root.check(pid, mark).await {
        MountCheck::Same => Ok(()),
        MountCheck::Other => Err(CallFailure::Swapped),
        MountCheck::Hidden => {
            tracing::debug!("a container's root can't be compared with the skill's: its process is not visible");
            Ok(())
        }
    }
}

/// After the start request, only a refusal proves that the skill did not start. After a broken connection, the
/// skill may be running and must not run again.
fn not_started_if_refused(error: Error) -> CallFailure {
    match error {
        Error::DockerResponseServerError { .. } => CallFailure::NotStarted(error),
        other => TalkError::Engine(other).into(),
    }
}

async fn state(container: &Container) -> Result<ContainerState, CallFailure> {
    let found = container.client.inspect_container(&container.name, None).await;
    Ok(found.map_err(TalkError::Engine)?.state.unwrap_or_default())
}

async fn judge(
    container: &Container,
    task: &ContainerCall<'_>,
    said: ProcessOutput,
    code: i64,
    mut memory_ran_out: bool,
) -> Result<RawOutput, CallFailure> {
    let exit = exit(code);
    if exit == Exit::Signal(9) {
        for pause in MEMORY_LOOKS_MS {
            if memory_ran_out {
                break;
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
            // If the engine does not answer, the caller still gets the output.
            let Ok(state) = state(container).await else { break };
            memory_ran_out = state.oom_killed == Some(true);
        }
        if memory_ran_out {
            return Err(CallFailure::Memory { megabytes: task.memory_mb });
        }
    }
    Ok(RawOutput::Process { stdout: said.stdout, stderr: said.stderr, exit, leftovers: 0 })
}

/// Converts an exit code. The init process reports a signal as 128 plus its number, as a shell does.
fn exit(code: i64) -> Exit {
    match i32::try_from(code).unwrap_or(-1) {
        code @ 129..=159 => Exit::Signal(code - 128),
        code => Exit::Code(code),
    }
}

/// Returns the output of a call whose container failed.
pub(super) fn output_of_failure(failure: &CallFailure) -> RawOutput {
    let error = error_of(failure);
    match failure {
        CallFailure::NotStarted(_) | CallFailure::Root(_) => RawOutput::NotStarted(error),
        CallFailure::Fault(_) | CallFailure::Memory { .. } | CallFailure::Swapped => RawOutput::Failed(error),
    }
}

/// Returns the error for the caller. The engine's own text may contain host paths, so only the log contains it.
fn error_of(failure: &CallFailure) -> SkillError {
    match failure {
        CallFailure::Fault(fault @ TalkError::OutputTooLarge) => {
            SkillError::new(ErrorCode::OutputTooLarge, format!("the skill {fault}"))
        }
        CallFailure::Fault(fault @ TalkError::StillOpen) => {
            SkillError::new(ErrorCode::ExecutionError, format!("the skill {fault}"))
        }
        CallFailure::Memory { megabytes } => SkillError::new(
            ErrorCode::ExecutionError,
            format!("the skill needed more memory than its {megabytes} MiB (limits.memory_mb) and was killed"),
        ),
        CallFailure::Fault(TalkError::Engine(error)) => {
            if openskill_log::admits("a container was lost") {
                tracing::warn!(%error, "a container was lost");
            }
            SkillError::new(ErrorCode::ToolInvocationError, "the container engine lost the skill's container")
        }
        CallFailure::Root(error) => error.clone().into_error(),
        CallFailure::Swapped => {
            if openskill_log::admits("another folder was mounted") {
                tracing::warn!("a folder other than a skill's allowed root was mounted into its container");
            }
            let message = "the skill's allowed root was replaced while its container started; the container was killed";
            SkillError::new(ErrorCode::ToolInvocationError, message)
        }
        CallFailure::NotStarted(error) => {
            if openskill_log::admits("a container was not started") {
                tracing::warn!(%error, "a skill's container was not started");
            }
            SkillError::new(ErrorCode::ToolInvocationError, "the skill's container could not be started")
        }
    }
}

/// Generates the random mark of a call.
pub(super) fn new_mark() -> String {
    let random = openskill_proto::trace::hex(&openskill_proto::trace::random_id::<16>());
    format!("@openskill-event:{random} ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_of_the_engine_means_not_started() {
        let refused = Error::DockerResponseServerError { status_code: 409, message: "not running".to_owned() };
        assert!(matches!(not_started_if_refused(refused), CallFailure::NotStarted(_)));
        for unknown in [Error::RequestTimeoutError, Error::from(std::io::Error::other("broken"))] {
            assert!(matches!(not_started_if_refused(unknown), CallFailure::Fault(TalkError::Engine(_))));
        }
    }

    #[test]
    fn an_exit_code_above_128_is_a_signal() {
        assert_eq!((exit(0), exit(3), exit(137)), (Exit::Code(0), Exit::Code(3), Exit::Signal(9)));
        assert_eq!((exit(139), exit(128), exit(255)), (Exit::Signal(11), Exit::Code(128), Exit::Code(255)));
        assert_eq!((exit(-1), exit(i64::MAX)), (Exit::Code(-1), Exit::Code(-1)));
    }
}
