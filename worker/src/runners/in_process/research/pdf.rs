//! Reads PDF files in jailed processes. The format is large and files are hostile: a process that crashes, or takes too much
//! memory or time, ends alone.

use std::sync::Arc;
use std::time::Duration;

use openskill_log::admits;
use openskill_research::document::Document;
use openskill_research::pdf_protocol::{ARGUMENT, MAX_FILE_BYTES, MAX_REPLY_BYTES, Reply};
use openskill_research::plain::read_pages;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::problem::Problem;
use crate::manifest::Manifest;
use crate::process::given_secrets::GivenSecrets;
use crate::process::launch::Pipes;
use crate::process::protocol::Command;
use crate::process::run::drain_to_log;
use crate::runners::in_process::host::Host;
use crate::runners::in_process::readers;
use crate::schedule::Slot;

/// How long one file may take.
const TIME: Duration = Duration::from_secs(15);

/// Starts the processes.
pub(super) struct PdfReader {
    pub(super) host: Host,
    pub(super) manifest: Arc<Manifest>,
}

impl PdfReader {
    /// The text of a file, within `time`.
    ///
    /// # Errors
    /// There is none, or this machine has no jail for it.
    pub(super) async fn read(&self, file: &[u8], slot: Slot, time: Duration) -> Result<Document, Problem> {
        let failed = |reason: &str| Problem::Pdf(format!("its PDF text cannot be read: {reason}"));
        if file.len() > MAX_FILE_BYTES {
            return Err(failed("it is too large"));
        }
        let reply = tokio::time::timeout(TIME.min(time), self.exchange(file, slot));
        let too_slow = |_| if time < TIME { Problem::Budget("time") } else { failed("it takes too long") };
        match reply.await.map_err(too_slow)?? {
            Reply::Pages(pages) => {
                let read = tokio::task::spawn_blocking(move || read_pages(pages.iter().map(String::as_str)));
                read.await.map_err(|_| failed("its text is unusable"))
            }
            Reply::Failed(reason) => {
                Err(failed(&reason.chars().filter(|it| !it.is_control()).take(100).collect::<String>()))
            }
        }
    }

    async fn exchange(&self, file: &[u8], slot: Slot) -> Result<Reply, Problem> {
        let command = self.command(&slot)?;
        let (_running, pipes) = self.host.launcher.launch(&command, slot).map_err(|error| not_started(&error))?;
        let Pipes { mut stdin, stdout, stderr, .. } = pipes;
        let mut line = Vec::new();
        let write = async {
            // A process that ended reads no more, and says nothing.
            let _ = stdin.write_all(file).await;
            drop(stdin);
        };
        let mut bounded = stdout.take(MAX_REPLY_BYTES as u64);
        // It is given a file, and no arguments.
        let log = drain_to_log(stderr, GivenSecrets::default());
        let (_, read, ()) = tokio::join!(write, bounded.read_to_end(&mut line), log);
        let ended = || Problem::Pdf("its PDF text cannot be read: the process that read it ended".to_owned());
        read.map_err(|_| ended())?;
        serde_json::from_slice(&line).map_err(|_| ended())
    }

    fn command(&self, slot: &Slot) -> Result<Command, Problem> {
        let missing = || Problem::Pdf(format!("PDF files are not read: {}", readers::MISSING));
        let program = readers::program(&self.host).ok_or_else(missing)?;
        let command = readers::command(&self.host, &self.manifest, program, ARGUMENT, slot);
        let command = command.map_err(|reason| not_started(&reason))?;
        if command.jail.is_none() {
            return Err(Problem::Pdf("PDF files are not read: this machine has no jail for the process".to_owned()));
        }
        Ok(command)
    }
}

fn not_started(reason: &dyn std::fmt::Display) -> Problem {
    if admits("a PDF reader was not started") {
        tracing::warn!(%reason, "a PDF reader was not started");
    }
    Problem::Pdf("PDF files are not read: the process could not be started, the worker's log has the reason".to_owned())
}
