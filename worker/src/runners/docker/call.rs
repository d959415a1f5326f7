//! One call: a container of its own, from its start to its removal.

use std::time::Duration;

use bollard::errors::Error;
use bollard::models::ContainerState;
use bollard::query_parameters::AttachContainerOptionsBuilder;
use futures_util::StreamExt as _;
use openskill_proto::v1::{ErrorCode, SkillError};

use super::conversation::{Fault, Said, Streams, talk};
use super::fleet::Container;
use super::mounted::{Mounted, Seen};
use crate::allowed_root::RootError;
use crate::events::EventSink;
use crate::process::protocol::Exit;
use crate::runner::RawOutput;
use crate::runners::once::{input_parts, no_root};

/// Pauses, in milliseconds, before the engine is asked again whether memory ran out: on a loaded host it reports that late.
const MEMORY_LOOKS_MS: [u64; 5] = [25, 50, 100, 200, 400];

/// A call to run in a container.
pub(super) struct Task<'a> {
    pub(super) input: &'a [u8],
    pub(super) mark: &'a str,
    pub(super) events: &'a EventSink,
    pub(super) memory_mb: u64,
    /// The allowed root, if it is mounted.
    pub(super) root: Option<&'a Mounted>,
}

/// Why a call has no output.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The skill was not started: nothing happened yet.
    #[error("not started: {0}")]
    NotStarted(#[source] Error),
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("out of memory")]
    Memory { megabytes: u64 },
    /// The skill has no allowed root now.
    #[error(transparent)]
    Root(#[from] RootError),
    /// Another folder than the allowed root was mounted, or may have been.
    #[error("another folder was mounted")]
    Swapped,
}

/// Starts the container and talks to its process until it has exited.
pub(super) async fn run(container: &Container, task: &Task<'_>) -> Result<RawOutput, Failure> {
    let Container { client, name, .. } = container;
    let options = AttachContainerOptionsBuilder::default().stdin(true).stdout(true).stderr(true).stream(true).build();
    // Before the start, so that no output is missed.
    let attached = client.attach_container(name, Some(options)).await.map_err(Failure::NotStarted)?;
    client.start_container(name, None).await.map_err(not_started_if_refused)?;
    if let Some(root) = task.root
        && let Err(failure) = check_root(container, root, task.mark).await
    {
        // Before anybody is told: it may be writing where it must not.
        let _ = client.kill_container(name, None).await;
        return Err(failure);
    }
    let ended = async {
        match client.wait_container(name, None).next().await {
            // The code is asked for below, with the rest.
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

/// Whether the container has the folder that it was to have. It has no arguments yet.
async fn check_root(container: &Container, root: &Mounted, mark: &str) -> Result<(), Failure> {
    if !root.is_in_place()? {
        return Err(Failure::Swapped);
    }
    let pid = state(container).await?.pid.unwrap_or_default();
    match root.look(pid, mark).await {
        Seen::Same => Ok(()),
        Seen::Other => Err(Failure::Swapped),
        Seen::Hidden => {
            tracing::debug!("a container's root can't be compared with the skill's: its process is not visible");
            Ok(())
        }
    }
}

/// Once the engine was asked to start, only its refusal means that nothing happened: after a broken connection the skill may
/// be running, and must not be run again.
fn not_started_if_refused(error: Error) -> Failure {
    match error {
        Error::DockerResponseServerError { .. } => Failure::NotStarted(error),
        other => Fault::Engine(other).into(),
    }
}

async fn state(container: &Container) -> Result<ContainerState, Failure> {
    let found = container.client.inspect_container(&container.name, None).await;
    Ok(found.map_err(Fault::Engine)?.state.unwrap_or_default())
}

async fn judge(
    container: &Container,
    task: &Task<'_>,
    said: Said,
    code: i64,
    mut memory_ran_out: bool,
) -> Result<RawOutput, Failure> {
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
            return Err(Failure::Memory { megabytes: task.memory_mb });
        }
    }
    Ok(RawOutput::Process { stdout: said.stdout, stderr: said.stderr, exit, leftovers: 0 })
}

/// The init gives a signal as 128 and its number, as a shell does.
fn exit(code: i64) -> Exit {
    match i32::try_from(code).unwrap_or(-1) {
        code @ 129..=159 => Exit::Signal(code - 128),
        code => Exit::Code(code),
    }
}

/// The output of a container that ended without any.
pub(super) fn unfinished(failure: &Failure) -> RawOutput {
    let error = error_of(failure);
    match failure {
        Failure::NotStarted(_) | Failure::Root(_) => RawOutput::NotStarted(error),
        Failure::Fault(_) | Failure::Memory { .. } | Failure::Swapped => RawOutput::Failed(error),
    }
}

/// What the caller is told. The engine's own words stay in the log: they may hold paths of the host.
fn error_of(failure: &Failure) -> SkillError {
    match failure {
        Failure::Fault(fault @ Fault::OutputTooLarge) => {
            SkillError::new(ErrorCode::OutputTooLarge, format!("the skill {fault}"))
        }
        Failure::Fault(fault @ Fault::StillOpen) => {
            SkillError::new(ErrorCode::ExecutionError, format!("the skill {fault}"))
        }
        Failure::Memory { megabytes } => SkillError::new(
            ErrorCode::ExecutionError,
            format!("the skill needed more memory than its {megabytes} MiB (limits.memory_mb) and was killed"),
        ),
        Failure::Fault(Fault::Engine(error)) => {
            if openskill_log::admits("a container was lost") {
                tracing::warn!(%error, "a container was lost");
            }
            SkillError::new(ErrorCode::ToolInvocationError, "the container engine lost the skill's container")
        }
        Failure::Root(error) => no_root(error.clone()),
        Failure::Swapped => {
            if openskill_log::admits("another folder was mounted") {
                tracing::warn!("another folder than a skill's allowed root was mounted into its container");
            }
            let message = "the skill's allowed root was replaced while its container started; the container was killed";
            SkillError::new(ErrorCode::ToolInvocationError, message)
        }
        Failure::NotStarted(error) => {
            if openskill_log::admits("a container was not started") {
                tracing::warn!(%error, "a skill's container was not started");
            }
            SkillError::new(ErrorCode::ToolInvocationError, "the skill's container could not be started")
        }
    }
}

/// A mark that nobody has seen before.
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
        assert!(matches!(not_started_if_refused(refused), Failure::NotStarted(_)));
        for unknown in [Error::RequestTimeoutError, Error::from(std::io::Error::other("broken"))] {
            assert!(matches!(not_started_if_refused(unknown), Failure::Fault(Fault::Engine(_))));
        }
    }

    #[test]
    fn an_exit_code_above_128_is_a_signal() {
        assert_eq!((exit(0), exit(3), exit(137)), (Exit::Code(0), Exit::Code(3), Exit::Signal(9)));
        assert_eq!((exit(139), exit(128), exit(255)), (Exit::Signal(11), Exit::Code(128), Exit::Code(255)));
        assert_eq!((exit(-1), exit(i64::MAX)), (Exit::Code(-1), Exit::Code(-1)));
    }
}
