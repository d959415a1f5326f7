//! A jailed process that parses source code. It ends with the call.

use std::time::Duration;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use openskill_readers_protocol::definitions::language::Language;
use openskill_readers_protocol::definitions::protocol::{ARGUMENT, MAX_REPLY_BYTES, MAX_SOURCE_BYTES, Reply, Request};
use openskill_sandbox::given_secrets::GivenSecrets;
use openskill_sandbox::launch::{Pipes, SupervisedRun};
use openskill_sandbox::protocol::{Exit, RunReport};
use openskill_sandbox::run::drain_to_log;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio_util::task::AbortOnDropHandle;

use crate::call::{CallSlot, Skill};
use crate::host::Host;
use crate::paths::PathRefusal;
use crate::readers::{ReaderKind, plan};

/// The time limit for one file.
const TIME_FOR_ONE: Duration = Duration::from_secs(5);

/// Additional time for the first file of a process, because the process has to start first.
const TIME_TO_START: Duration = Duration::from_secs(10);

/// How long to wait for the exit status of a process that has closed its output.
const PATIENCE: Duration = Duration::from_secs(1);

const READER: ReaderKind = ReaderKind { argument: ARGUMENT, not_started: "a parser was not started" };

/// A running parser process. Dropping it kills the process.
pub(super) struct Parser {
    running: SupervisedRun<CallSlot>,
    requests: pipe::Sender,
    replies: BufReader<pipe::Receiver>,
    is_new: bool,
    _log: AbortOnDropHandle<()>,
}

/// Why a file was not parsed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParseFailure {
    #[error("{0}")]
    Refused(PathRefusal),
    #[error("it is over {MAX_SOURCE_BYTES} bytes: name a smaller file")]
    TooLarge,
    #[error("it is binary, not source code")]
    Binary,
    #[error("it took more than {} s to parse", TIME_FOR_ONE.as_secs())]
    TooSlow,
    #[error("its parser ended: {0}")]
    Ended(String),
    #[error("too many earlier files crashed their parsers")]
    TooManyLost,
    #[error("its parser could not be started: {0}")]
    NotStarted(&'static str),
}

impl ParseFailure {
    /// Returns a machine-readable reason.
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

    /// Converts the failure into the error of the whole call.
    pub(super) fn error(self, path: &str) -> SkillError {
        let code = match self {
            Self::Refused(refused) => return refused.error("file_path", path),
            Self::TooLarge | Self::Binary => ErrorCode::InvalidArgument,
            Self::TooSlow => ErrorCode::Timeout,
            Self::Ended(_) | Self::TooManyLost => ErrorCode::ExecutionError,
            Self::NotStarted(_) => ErrorCode::ToolInvocationError,
        };
        let error = SkillError::new(code, format!("'{path}' can't be parsed: {self}"));
        // The source itself is the cause, so another worker would fail too.
        if code == ErrorCode::Timeout { SkillError { retryable: false, ..error } } else { error }.with_blame(match code
        {
            ErrorCode::ToolInvocationError => Blame::Worker,
            _ => Blame::Caller,
        })
    }
}

/// Checks whether parsers can be started on this machine.
///
/// # Errors
/// The worker requires a jail that this machine does not provide.
pub(crate) fn admit(host: &Host, skill: &Skill) -> Result<(), String> {
    plan(host, skill.level, &skill.limits, &host.binary).map(|_| ())
}

impl Parser {
    /// Starts a parser process. Must be called within a runtime.
    pub(super) fn start(host: &Host, skill: &Skill, slot: CallSlot) -> Result<Self, ParseFailure> {
        let started = READER.start(host, skill.level, &skill.limits, slot);
        let (running, Pipes { stdin, stdout, stderr, .. }) = started.map_err(ParseFailure::NotStarted)?;
        // The process receives files but no secrets.
        let log = AbortOnDropHandle::new(tokio::spawn(drain_to_log(stderr, GivenSecrets::default())));
        Ok(Self { running, requests: stdin, replies: BufReader::new(stdout), is_new: true, _log: log })
    }

    /// Parses one source. The process must be dropped after an error.
    pub(super) async fn parse(&mut self, language: Language, source: &[u8]) -> Result<Reply, ParseFailure> {
        let more = if std::mem::take(&mut self.is_new) { TIME_TO_START } else { Duration::ZERO };
        match tokio::time::timeout(TIME_FOR_ONE + more, self.exchange(language, source)).await {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(self.why().await),
            Err(_) => Err(ParseFailure::TooSlow),
        }
    }

    /// Sends a source and reads the reply. Returns `None` if the process has ended or its reply is invalid.
    async fn exchange(&mut self, language: Language, source: &[u8]) -> Option<Reply> {
        let mut request = serde_json::to_vec(&Request { language, bytes: source.len() }).ok()?;
        request.push(b'\n');
        self.requests.write_all(&request).await.ok()?;
        self.requests.write_all(source).await.ok()?;
        let mut line = Vec::new();
        (&mut self.replies).take(MAX_REPLY_BYTES as u64).read_until(b'\n', &mut line).await.ok()?;
        serde_json::from_slice(&line).ok()
    }

    /// Determines why the process ended.
    async fn why(&mut self) -> ParseFailure {
        let report = tokio::time::timeout(PATIENCE, self.running.report()).await;
        ParseFailure::Ended(match report {
            Ok(Ok(RunReport::Ended { exceeded: Some(reason), .. })) => reason,
            Ok(Ok(RunReport::Ended { exit: Exit::Signal(signal), .. })) => format!("by signal {signal}"),
            Ok(Ok(RunReport::Ended { exit: Exit::Code(code), .. })) => format!("with exit code {code}"),
            Ok(Ok(RunReport::NotStarted { errno })) => {
                return ParseFailure::NotStarted(READER.log(&std::io::Error::from_raw_os_error(errno)));
            }
            Ok(Err(_)) | Err(_) => "its process was lost".to_owned(),
        })
    }
}
