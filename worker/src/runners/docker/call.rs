//! Runs one call in its container, from the start to the output.
//!
//! A container has no descriptor for events. So an event is a stderr line that begins with the mark in
//! `OPENSKILL_EVENTS_MARK`. The mark is random for each call, so that no other line begins with it by chance.

use std::pin::Pin;
use std::time::Duration;

use bollard::container::{AttachContainerResults, LogOutput};
use bollard::errors::Error;
use bollard::models::ContainerState;
use bollard::query_parameters::AttachContainerOptionsBuilder;
use futures_util::{Stream, StreamExt as _};
use openskill_proto::limits::{MAX_EVENT_BYTES, MAX_OUTPUT_BYTES, MAX_STDERR_BYTES};
use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_sandbox::allowed_root::RootError;
use openskill_sandbox::protocol::Exit;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

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
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The skill was not started, so the call had no effect.
    NotStarted(Error),
    /// The skill printed more than [`MAX_OUTPUT_BYTES`].
    OutputTooLarge,
    /// The skill ended, but its output stays open.
    StillOpen,
    /// The engine did not say how the skill ended.
    Lost(Error),
    /// The skill ran out of memory.
    Memory { megabytes: u64 },
    /// The skill's allowed root is unavailable.
    Root(RootError),
    /// The engine mounted, or may have mounted, another folder than the allowed root.
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
    let said = talk(attached, &input_parts(task.input), task.mark, task.events, ended).await?;
    let found = state(container).await?;
    let exit = exit(found.exit_code.unwrap_or(-1));
    if exit == Exit::Signal(9) && ran_out_of_memory(container, found).await {
        return Err(CallFailure::Memory { megabytes: task.memory_mb });
    }
    Ok(RawOutput::from_process(said.stdout, said.stderr, exit, 0))
}

/// Checks that the right folder is mounted before the container receives its arguments.
async fn check_root(container: &Container, root: &RootMount, mark: &str) -> Result<(), CallFailure> {
    if !root.is_in_place().map_err(CallFailure::Root)? {
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
        other => CallFailure::Lost(other),
    }
}

async fn state(container: &Container) -> Result<ContainerState, CallFailure> {
    let found = container.client.inspect_container(&container.name, None).await;
    Ok(found.map_err(CallFailure::Lost)?.state.unwrap_or_default())
}

/// Returns whether a process was killed because it ran out of memory, which a loaded engine reports late.
async fn ran_out_of_memory(container: &Container, mut found: ContainerState) -> bool {
    for pause in MEMORY_LOOKS_MS {
        if found.oom_killed == Some(true) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(pause)).await;
        // If the engine does not answer, the caller still gets the output.
        let Ok(now) = state(container).await else { return false };
        found = now;
    }
    found.oom_killed == Some(true)
}

/// Converts an exit code. The init process reports a signal as 128 plus its number, as a shell does.
fn exit(code: i64) -> Exit {
    match i32::try_from(code).unwrap_or(-1) {
        code @ 129..=159 => Exit::Signal(code - 128),
        code => Exit::Code(code),
    }
}

impl CallFailure {
    /// Returns the call's output. The engine's own text may contain host paths, so only the log contains it.
    pub(super) fn into_output(self) -> RawOutput {
        let failed = |code, message: &str| RawOutput::Failed(SkillError::new(code, message));
        match self {
            Self::OutputTooLarge => {
                failed(ErrorCode::OutputTooLarge, &format!("the skill printed more than {MAX_OUTPUT_BYTES} bytes"))
            }
            Self::StillOpen => failed(ErrorCode::ExecutionError, "the skill ended, but its output stays open"),
            Self::Memory { megabytes } => failed(
                ErrorCode::ExecutionError,
                &format!("the skill needed more memory than its {megabytes} MiB (limits.memory_mb) and was killed"),
            ),
            Self::Lost(error) => {
                if openskill_telemetry::log::admits("a container was lost") {
                    tracing::warn!(%error, "a container was lost");
                }
                failed(ErrorCode::ToolInvocationError, "the container engine did not report how the skill ended")
            }
            Self::Root(error) => RawOutput::NotStarted(error.into_error()),
            Self::Swapped => {
                if openskill_telemetry::log::admits("another folder was mounted") {
                    tracing::warn!("a folder other than a skill's allowed root was mounted into its container");
                }
                failed(
                    ErrorCode::ToolInvocationError,
                    "the skill's allowed root was replaced while its container started; the container was killed",
                )
            }
            Self::NotStarted(error) => {
                if openskill_telemetry::log::admits("a container was not started") {
                    tracing::warn!(%error, "a skill's container was not started");
                }
                let message = "the skill's container could not be started";
                RawOutput::NotStarted(SkillError::new(ErrorCode::ToolInvocationError, message))
            }
        }
    }
}

/// Generates the random mark of a call.
pub(super) fn new_mark() -> String {
    let random = openskill_proto::trace::hex(&openskill_proto::trace::random_id::<16>());
    format!("@openskill-event:{random} ")
}

/// How long the output may stay open after the process has exited.
const GRACE: Duration = Duration::from_secs(1);

/// The output of a process in a container.
#[derive(Debug, Default)]
struct ProcessOutput {
    stdout: Vec<u8>,
    /// The end of stderr, without event lines.
    stderr: Vec<u8>,
}

/// Writes `input`, and reads until the output is closed and `ended` completes.
async fn talk(
    attached: AttachContainerResults,
    input: &[&[u8]],
    mark: &str,
    events: &EventSink,
    ended: impl Future<Output = Result<(), Error>>,
) -> Result<ProcessOutput, CallFailure> {
    let AttachContainerResults { output, input: stdin } = attached;
    // The call continues when writing ends or fails: a skill need not read its input.
    let writing = async {
        write(stdin, input).await;
        std::future::pending().await
    };
    let listening = async {
        tokio::select! {
            said = listen(output, mark, events) => said,
            never = writing => never,
        }
    };
    let (mut listening, mut ended) = (std::pin::pin!(listening), std::pin::pin!(ended));
    tokio::select! {
        biased;
        said = &mut listening => {
            let said = said?;
            ended.await.map_err(CallFailure::Lost)?;
            Ok(said)
        }
        it = &mut ended => {
            it.map_err(CallFailure::Lost)?;
            tokio::time::timeout(GRACE, listening).await.map_err(|_| CallFailure::StillOpen)?
        }
    }
}

async fn write(mut stdin: Pin<Box<dyn AsyncWrite + Send>>, input: &[&[u8]]) {
    for part in input {
        if stdin.write_all(part).await.is_err() {
            return;
        }
    }
    // Tell the process that its input has ended. The other direction stays open.
    let _ = stdin.shutdown().await;
}

async fn listen(
    mut output: impl Stream<Item = Result<LogOutput, Error>> + Unpin,
    mark: &str,
    events: &EventSink,
) -> Result<ProcessOutput, CallFailure> {
    let mut stdout = Vec::new();
    let mut stderr = Stderr::new(mark);
    while let Some(frame) = output.next().await {
        match frame {
            Ok(LogOutput::StdOut { message }) => {
                stdout.extend_from_slice(&message);
                if stdout.len() > MAX_OUTPUT_BYTES {
                    return Err(CallFailure::OutputTooLarge);
                }
            }
            Ok(LogOutput::StdErr { message }) => {
                for line in stderr.take(&message) {
                    match line {
                        Some(line) => events.line(&line).await,
                        None => events.drop_one(),
                    }
                }
            }
            Ok(_) => {}
            // A separate request to the engine reports how the process ended.
            Err(error) => {
                tracing::debug!(%error, "a container's output was cut off");
                break;
            }
        }
    }
    Ok(ProcessOutput { stdout, stderr: stderr.end() })
}

/// Separates events from other stderr output as it arrives.
struct Stderr<'a> {
    mark: &'a [u8],
    /// The incomplete line, while it may be an event.
    line: Vec<u8>,
    state: State,
    kept: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The line may be an event.
    Open,
    /// The event is too long. The rest of it is skipped.
    Overlong,
    Text,
}

impl<'a> Stderr<'a> {
    fn new(mark: &'a str) -> Self {
        Self { mark: mark.as_bytes(), line: Vec::new(), state: State::Open, kept: Vec::new() }
    }

    /// Returns the events that these bytes complete. `None` represents an event that was too long.
    fn take(&mut self, bytes: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|it| *it == b'\n') {
            self.piece(piece, &mut events);
        }
        events
    }

    fn piece(&mut self, piece: &[u8], events: &mut Vec<Option<Vec<u8>>>) {
        let is_last = piece.ends_with(b"\n");
        match self.state {
            State::Open => {
                self.line.extend_from_slice(piece);
                let is_overlong = self.line.len() > MAX_EVENT_BYTES + self.mark.len();
                if self.line.starts_with(self.mark) {
                    if is_overlong {
                        self.state = State::Overlong;
                        events.push(None);
                    } else if is_last {
                        events.push(Some(self.line.split_off(self.mark.len())));
                    }
                } else if is_overlong || is_last {
                    self.state = State::Text;
                    let line = std::mem::take(&mut self.line);
                    self.keep(&line);
                }
            }
            State::Text => self.keep(piece),
            State::Overlong => {}
        }
        if is_last {
            self.state = State::Open;
        }
        if is_last || self.state == State::Overlong {
            self.line.clear();
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        if self.kept.len() > 2 * MAX_STDERR_BYTES {
            self.kept.drain(..self.kept.len() - MAX_STDERR_BYTES);
        }
    }

    /// Returns the end of stderr without events. Drops an incomplete event.
    fn end(mut self) -> Vec<u8> {
        if !self.line.starts_with(self.mark) {
            let line = std::mem::take(&mut self.line);
            self.keep(&line);
        }
        self.kept.drain(..self.kept.len().saturating_sub(MAX_STDERR_BYTES));
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_of_the_engine_means_not_started() {
        let refused = Error::DockerResponseServerError { status_code: 409, message: "not running".to_owned() };
        assert!(matches!(not_started_if_refused(refused), CallFailure::NotStarted(_)));
        for unknown in [Error::RequestTimeoutError, Error::from(std::io::Error::other("broken"))] {
            assert!(matches!(not_started_if_refused(unknown), CallFailure::Lost(_)));
        }
    }

    #[test]
    fn an_exit_code_above_128_is_a_signal() {
        assert_eq!((exit(0), exit(3), exit(137)), (Exit::Code(0), Exit::Code(3), Exit::Signal(9)));
        assert_eq!((exit(139), exit(128), exit(255)), (Exit::Signal(11), Exit::Code(128), Exit::Code(255)));
        assert_eq!((exit(-1), exit(i64::MAX)), (Exit::Code(-1), Exit::Code(-1)));
    }

    fn read(pieces: &[&[u8]]) -> (Vec<Option<String>>, String) {
        let mut stderr = Stderr::new("@mark ");
        let events: Vec<_> = pieces.iter().flat_map(|it| stderr.take(it)).collect();
        let text = |it: Vec<u8>| String::from_utf8(it).unwrap();
        (events.into_iter().map(|it| it.map(text)).collect(), text(stderr.end()))
    }

    #[test]
    fn a_marked_line_is_an_event_however_it_is_cut() {
        let expected = vec![Some("{\"partial\":1}\n".to_owned())];
        assert_eq!(read(&[b"@mark {\"partial\":1}\n"]), (expected.clone(), String::new()));
        assert_eq!(read(&[b"@ma", b"rk {\"par", b"tial\":1}\n"]), (expected.clone(), String::new()));
        assert_eq!(read(&[b"a\n@mark {\"partial\":1}\nb"]), (expected, "a\nb".to_owned()));
    }

    #[test]
    fn a_line_without_the_mark_at_its_beginning_is_text() {
        assert_eq!(read(&[b"x @mark {}\n", b"@mar\n", b"@ma"]), (vec![], "x @mark {}\n@mar\n@ma".to_owned()));
    }

    #[test]
    fn an_overlong_event_is_dropped_once_and_the_next_is_read() {
        let long = vec![b'x'; MAX_EVENT_BYTES];
        let (events, text) = read(&[b"@mark ", &long, &long, b"\n@mark {}\n"]);
        assert_eq!((events, text), (vec![None, Some("{}\n".to_owned())], String::new()));
    }

    #[test]
    fn only_the_last_of_stderr_is_kept() {
        let long = vec![b'x'; MAX_STDERR_BYTES];
        let (_, text) = read(&[&long, &long, &long, b"end"]);
        assert!(text.len() == MAX_STDERR_BYTES && text.ends_with("xend"));
    }
}
