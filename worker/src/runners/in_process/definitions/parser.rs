//! The process that parses: jailed, and ended when the call ends.

use std::time::Duration;

use openskill_definitions::language::Language;
use openskill_definitions::protocol::{ARGUMENT, MAX_REPLY_BYTES, MAX_SOURCE_BYTES, Reply, Request};
use openskill_log::admits;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio_util::task::AbortOnDropHandle;

use crate::manifest::Manifest;
use crate::process::given_secrets::GivenSecrets;
use crate::process::launch::{Pipes, Running};
use crate::process::protocol::{Exit, Report};
use crate::process::run::drain_to_log;
use crate::runners::in_process::host::Host;
use crate::runners::in_process::place::Refused;
use crate::runners::in_process::readers;
use crate::schedule::Slot;

/// How long one file may take.
const TIME_FOR_ONE: Duration = Duration::from_secs(5);

/// How much longer the first file of a process may take, for the start.
const TIME_TO_START: Duration = Duration::from_secs(10);

/// How long to wait for the exit status of a process that closed its output.
const PATIENCE: Duration = Duration::from_secs(1);

/// A process that parses. Dropping it ends it.
pub(super) struct Parser {
    running: Running<Slot>,
    requests: pipe::Sender,
    replies: BufReader<pipe::Receiver>,
    is_new: bool,
    _log: AbortOnDropHandle<()>,
}

/// Why a file was not parsed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("{0}")]
    Refused(Refused),
    #[error("it is over {MAX_SOURCE_BYTES} bytes: name a smaller file")]
    TooLarge,
    #[error("it is binary, and no source code")]
    Binary,
    #[error("it took more than {} s to parse", TIME_FOR_ONE.as_secs())]
    TooSlow,
    #[error("its parser ended: {0}")]
    Ended(String),
    #[error("too many files ended their parsers before it")]
    TooManyLost,
    #[error("its parser could not be started: {0}")]
    NotStarted(&'static str),
}

impl Problem {
    /// A machine-readable reason.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Refused(refused) => refused.word(),
            Self::TooLarge => "too_large",
            Self::Binary => "binary",
            Self::TooSlow => "timeout",
            Self::Ended(_) => "parser_ended",
            Self::TooManyLost | Self::NotStarted(_) => "not_parsed",
        }
    }

    /// The error of a call that names this file alone.
    pub(super) fn error(self, path: &str) -> SkillError {
        let code = match self {
            Self::Refused(refused) => return refused.error("file_path", path),
            Self::TooLarge | Self::Binary => ErrorCode::InvalidArgument,
            Self::TooSlow => ErrorCode::Timeout,
            Self::Ended(_) | Self::TooManyLost => ErrorCode::ExecutionError,
            Self::NotStarted(_) => ErrorCode::ToolInvocationError,
        };
        let error = SkillError::new(code, format!("file_path: '{path}' can't be parsed: {self}"));
        // The source is the cause, so another worker would fail as well.
        if code == ErrorCode::Timeout { SkillError { retryable: false, ..error } } else { error }.with_blame(match code
        {
            ErrorCode::ToolInvocationError => Blame::Worker,
            _ => Blame::Caller,
        })
    }
}

/// Whether parsers can be started here.
///
/// # Errors
/// The worker demands a jail that this machine does not give.
pub(in crate::runners::in_process) fn admit(host: &Host, manifest: &Manifest) -> Result<(), String> {
    readers::plan(host, manifest, &host.binary).map(|_| ())
}

impl Parser {
    /// Starts a process. Must be called within a runtime.
    pub(super) fn start(host: &Host, manifest: &Manifest, slot: Slot) -> Result<Self, Problem> {
        let program = readers::program(host).ok_or(Problem::NotStarted(readers::MISSING))?;
        let command = readers::command(host, manifest, program, ARGUMENT, &slot);
        let command = command.map_err(|reason| not_started(&reason))?;
        let (running, pipes) = host.launcher.launch(&command, slot).map_err(|error| not_started(&error))?;
        let Pipes { stdin, stdout, stderr, .. } = pipes;
        // It is given files, and no arguments.
        let log = AbortOnDropHandle::new(tokio::spawn(drain_to_log(stderr, GivenSecrets::default())));
        Ok(Self { running, requests: stdin, replies: BufReader::new(stdout), is_new: true, _log: log })
    }

    /// Parses one source. After an error, the process must be dropped.
    pub(super) async fn parse(&mut self, language: Language, source: &[u8]) -> Result<Reply, Problem> {
        let more = if std::mem::take(&mut self.is_new) { TIME_TO_START } else { Duration::ZERO };
        match tokio::time::timeout(TIME_FOR_ONE + more, self.exchange(language, source)).await {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(self.why().await),
            Err(_) => Err(Problem::TooSlow),
        }
    }

    /// `None`: the process has ended, or its reply cannot be parsed.
    async fn exchange(&mut self, language: Language, source: &[u8]) -> Option<Reply> {
        let mut request = serde_json::to_vec(&Request { language, bytes: source.len() }).ok()?;
        request.push(b'\n');
        self.requests.write_all(&request).await.ok()?;
        self.requests.write_all(source).await.ok()?;
        let mut line = Vec::new();
        (&mut self.replies).take(MAX_REPLY_BYTES as u64).read_until(b'\n', &mut line).await.ok()?;
        serde_json::from_slice(&line).ok()
    }

    /// How the process ended.
    async fn why(&mut self) -> Problem {
        let report = tokio::time::timeout(PATIENCE, self.running.report()).await;
        Problem::Ended(match report {
            Ok(Ok(Report::Ended { exceeded: Some(reason), .. })) => reason,
            Ok(Ok(Report::Ended { exit: Exit::Signal(signal), .. })) => format!("by signal {signal}"),
            Ok(Ok(Report::Ended { exit: Exit::Code(code), .. })) => format!("with exit code {code}"),
            Ok(Ok(Report::NotStarted { errno })) => return not_started(&std::io::Error::from_raw_os_error(errno)),
            Ok(Err(_)) | Err(_) => "its process was lost".to_owned(),
        })
    }
}

fn not_started(reason: &dyn std::fmt::Display) -> Problem {
    if admits("a parser was not started") {
        tracing::warn!(%reason, "a parser was not started");
    }
    Problem::NotStarted("the worker's log has the reason")
}
