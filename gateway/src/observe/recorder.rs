//! Records whole calls for debugging: writes their redacted events as JSON lines, to files or to memory.
//! `docs/recorder.md` describes the lines.
//!
//! ```text
//! call's end ── try_send ──> queue ──> thread: redact, render ──> file ──> index <── lists, traces, followers
//! ```
//!
//! - `thread`: takes recordings in batches from a bounded queue, which drops and counts recordings that do not fit
//! - `render`, `content`, `mask`, `split_secrets`, `line`, `ids`: convert a recording to lines
//! - `store`, `folder`: files and their limits; `rebuild`: reads the files of an earlier process
//! - `index`: the recent calls; [`read`]: queries by readers

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use openskill_redact::{Redactor, Rules};
use openskill_telemetry::metrics::telemetry::TELEMETRY;
use parking_lot::Mutex;

mod content;
mod folder;
mod ids;
mod index;
mod line;
mod mask;
pub(crate) mod read;
mod rebuild;
mod render;
mod split_secrets;
mod store;
mod thread;

use super::recording::Recording;
use folder::TraceFolder;
use index::EventLocation;
use rebuild::RecordedCall;
use render::Renderer;
use store::FileStore;
#[cfg(test)]
pub(crate) use thread::RecordingReceiver;
use thread::{Batch, FailureLog, RecordWriter, RecorderState, RecordingSender};

/// The nice value of the recorder's thread, so that calls have priority.
const NICE: i32 = 10;

/// How calls are recorded, and where.
#[derive(Debug, Clone)]
pub struct RecorderConfig {
    /// The id of this gateway, by which readers distinguish gateways.
    pub gateway: String,
    /// The folder of the files. If None, calls are kept only in memory: the latest 50,000, or 32 MiB.
    pub folder: Option<PathBuf>,
    /// The maximum total size of all files in the folder, in bytes.
    pub max_bytes: u64,
    /// How long files are kept after their last call.
    pub max_age: Duration,
    /// The redaction rules. If None, nothing is redacted.
    pub redaction: Option<Rules>,
}

/// The handle to the recorder's thread and to the recorded calls.
#[derive(Debug)]
pub(crate) struct Recorder {
    sender: RecordingSender,
    state: Arc<RecorderState>,
    redactor: Redactor,
    gateway: Arc<str>,
    /// Distinguishes the cursors of this process from those of earlier ones.
    instance: u32,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Recorder {
    /// Starts the recorder's thread. If the folder can't be used, retries later, and calls stay in memory
    /// meanwhile.
    ///
    /// # Errors
    /// The thread can't be started, or the rules can't be combined.
    pub(crate) fn start(config: &RecorderConfig) -> std::io::Result<Self> {
        let mut log = FailureLog::default();
        let key = config.folder.as_deref().and_then(|path| {
            let key = TraceFolder::open(path).and_then(|folder| folder.key());
            key.map_err(|error| log.record_failure(0, &error, Instant::now())).ok()
        });
        let (recorder, mut writer) = Self::new(redactor(config, key)?, &config.gateway);
        writer.log = log;
        let (path, header) = (config.folder.clone(), writer.renderer.header());
        writer.store = path.map(|path| FileStore::new(path, config.max_bytes, config.max_age, header));
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            // On Linux, this affects only this thread. It fails if the process is already nicer.
            let _ = rustix::process::setpriority_process(None, NICE);
            load_existing(&mut writer);
            writer.run();
        })?;
        *recorder.thread.lock() = Some(thread);
        Ok(recorder)
    }

    /// Creates a recorder without a thread, and what its thread owns. It keeps calls in memory.
    fn new(redactor: Redactor, gateway: &str) -> (Self, RecordWriter) {
        let (sender, queue) = thread::queue();
        let (state, gateway) = (Arc::<RecorderState>::default(), Arc::<str>::from(gateway));
        let renderer = Renderer::new(redactor.clone(), Arc::clone(&gateway));
        let (log, batch) = (FailureLog::default(), Batch::default());
        let writer = RecordWriter { state: Arc::clone(&state), queue, renderer, store: None, log, ended: 0, batch };
        (Self { sender, state, redactor, gateway, instance: rand::random(), thread: Mutex::default() }, writer)
    }

    /// Queues a recording, or counts it as dropped if the queue is full. Never waits.
    pub(crate) fn offer(&self, recording: Recording) {
        if !self.sender.offer(recording) {
            TELEMETRY.recorder_dropped(1);
        }
    }

    /// Writes all queued recordings, and ends the thread. Blocks until it has ended.
    pub(crate) fn stop(&self) {
        self.sender.close();
        if let Some(thread) = self.thread.lock().take() {
            thread.thread().unpark();
            // If the thread panicked, nothing is left to do.
            let _ = thread.join();
        }
    }
}

/// Creates the redactor. Its key is that of the rule file, or else one that lasts as long as the folder, or until
/// the process ends.
fn redactor(config: &RecorderConfig, key: Option<[u8; 32]>) -> std::io::Result<Redactor> {
    let Some(rules) = config.redaction.clone() else { return Ok(Redactor::off()) };
    let rules = rules.fallback_id_key(key.unwrap_or_else(rand::random));
    Redactor::new(rules).map_err(|error| std::io::Error::other(error.to_string()))
}

/// Removes old files, and reads the remaining ones into the index.
fn load_existing(writer: &mut RecordWriter) {
    let Some(store) = &mut writer.store else { return };
    store.tidy(Instant::now());
    let Ok(folder) = store.folder() else { return };
    for (segment, part) in rebuild::files(folder, &writer.renderer.gateway, rebuild::MAX_BYTES) {
        if let Ok(lines) = segment.lines(&part) {
            rebuild::read(lines, part.start, &mut writer.renderer.names, |RecordedCall { summary, start, bytes }| {
                let location = EventLocation::File { segment: Arc::clone(&segment), start, bytes };
                writer.state.index.lock().push(summary, location);
            });
        }
        store.older.push(segment);
    }
}

#[cfg(test)]
impl Recorder {
    /// Creates a recorder without a thread. The owner of the receiver takes the recordings.
    pub(crate) fn idle() -> (Self, RecordingReceiver) {
        let (recorder, writer) = Self::new(Redactor::off(), "test");
        (recorder, writer.queue)
    }

    /// Creates a recorder that redacts and keeps calls in memory, with a closure that does the work of its thread.
    pub(crate) fn manual() -> (Self, impl FnMut()) {
        let (recorder, mut writer) = Self::new(Redactor::default(), "test");
        (recorder, move || writer.write_waiting())
    }
}

// Tests of the whole recorder, without a gateway.
#[cfg(test)]
mod tests;
