//! Reads PDF files in jailed processes. The format is complex and the files are untrusted: if a process crashes or
//! exceeds its memory or time limit, only that process ends.

use std::time::Duration;

use openskill_readers_protocol::pdf::{ARGUMENT, MAX_FILE_BYTES, MAX_REPLY_BYTES, PdfReply};
use openskill_sandbox::Limits;
use openskill_sandbox::given_secrets::GivenSecrets;
use openskill_sandbox::jail::Level;
use openskill_sandbox::launch::Pipes;
use openskill_sandbox::run::drain_to_log;
use openskill_text::pages::document::Document;
use openskill_text::pages::plain::read_pages;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::host::Host;
use super::readers::{MISSING, ReaderKind};
use crate::call::CallSlot;

/// The time limit for one file.
const TIME: Duration = Duration::from_secs(15);

/// The limits of the process, regardless of what the manifest grants to the call, because the files are untrusted.
const LIMITS: Limits =
    Limits { memory_mb: 512, cpu_seconds: 20, open_files: 32, file_size_mb: 1, processes: 4, temp_mb: 256 };

const READER: ReaderKind = ReaderKind { argument: ARGUMENT, not_started: "a PDF reader was not started" };

/// Why no text was returned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PdfError {
    /// The caller's time ran out before this module's own time limit.
    #[error("its PDF text cannot be read in the time that is left")]
    Late,
    /// The reason, for the caller.
    #[error("{0}")]
    Unreadable(String),
}

/// Starts the reader processes.
pub(super) struct PdfReader {
    pub(super) host: Host,
    /// The required jail level of the processes.
    pub(super) level: Level,
}

impl PdfReader {
    /// Returns the text of a file. Takes at most `time`.
    ///
    /// # Errors
    /// The file has no text, its time is up, or this machine does not provide the required jail.
    pub(super) async fn read(&self, file: &[u8], slot: CallSlot, time: Duration) -> Result<Document, PdfError> {
        let failed = |reason: &str| PdfError::Unreadable(format!("its PDF text cannot be read: {reason}"));
        if file.len() > MAX_FILE_BYTES {
            return Err(failed("it is too large"));
        }
        if time.is_zero() {
            return Err(PdfError::Late);
        }
        let reply = tokio::time::timeout(TIME.min(time), self.exchange(file, slot));
        let too_slow = |_| if time < TIME { PdfError::Late } else { failed("it takes too long") };
        match reply.await.map_err(too_slow)?? {
            PdfReply::Pages(pages) => {
                let read = tokio::task::spawn_blocking(move || read_pages(pages.iter().map(String::as_str)));
                read.await.map_err(|_| failed("its text is unusable"))
            }
            PdfReply::Failed(reason) => {
                Err(failed(&reason.chars().filter(|it| !it.is_control()).take(100).collect::<String>()))
            }
        }
    }

    async fn exchange(&self, file: &[u8], slot: CallSlot) -> Result<PdfReply, PdfError> {
        let not_read = |reason| match reason {
            MISSING => format!("PDF files are not read: {MISSING}"),
            reason => format!("PDF files are not read: the process could not be started; {reason}"),
        };
        let started = READER.start(&self.host, self.level, &LIMITS, slot);
        let (_running, pipes) = started.map_err(|reason| PdfError::Unreadable(not_read(reason)))?;
        let Pipes { mut stdin, stdout, stderr, .. } = pipes;
        let mut line = Vec::new();
        let write = async {
            // A process that exits early stops reading. The missing reply reports the failure.
            let _ = stdin.write_all(file).await;
            drop(stdin);
        };
        let mut bounded = stdout.take(MAX_REPLY_BYTES as u64);
        // The process receives a file but no secrets.
        let log = drain_to_log(stderr, GivenSecrets::default());
        let (_, read, ()) = tokio::join!(write, bounded.read_to_end(&mut line), log);
        let ended = || PdfError::Unreadable("its PDF text cannot be read: the process that read it ended".to_owned());
        read.map_err(|_| ended())?;
        serde_json::from_slice(&line).map_err(|_| ended())
    }
}
