//! Keeps whole calls, for people who look for what went wrong: their events as JSON lines, redacted, in files or in memory.
//! `docs/recorder.md` describes the lines.
//!
//! ```text
//! call's end ── try_send ──> queue ──> thread: redact, render ──> file ──> index <── lists, traces, followers
//! ```
//!
//! - `queue`: bounded; what does not fit is dropped and counted
//! - `thread`: batches; `render`, `content`, `values`, `said`, `line`, `ids`, `names`: from a recording to its lines
//! - `store`, `segment`, `folder`: files, and how many there may be; `rebuild`: what an earlier process wrote
//! - `index`: the recent calls; [`read`]: what readers ask

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use openskill_metrics::telemetry::TELEMETRY;
use openskill_redact::{Redactor, Rules};

mod content;
mod cut;
mod folder;
mod ids;
mod index;
mod line;
mod names;
mod queue;
pub(crate) mod read;
mod rebuild;
mod render;
mod said;
mod segment;
mod store;
mod thread;
mod values;

use super::recording::Recording;
use folder::Folder;
use index::Place;
use queue::Offers;
#[cfg(test)]
pub(crate) use queue::Taken;
use render::Renderer;
use store::{Limits, Store};
use thread::{Batch, FailureLog, Shelf, Writer};

/// How nice the recorder's thread is: calls that are served come first.
const NICE: i32 = 10;

/// What is recorded of calls, and where.
#[derive(Debug, Clone)]
pub struct RecorderConfig {
    /// The id of this gateway, by which readers tell gateways apart.
    pub gateway: String,
    /// Where the files are. None: calls are kept in memory only, the latest 50,000 or 32 MiB.
    pub folder: Option<PathBuf>,
    /// The most bytes of all files in the folder together.
    pub max_bytes: u64,
    /// How long files are kept after their last call.
    pub max_age: Duration,
    /// What is redacted. None: nothing.
    pub redaction: Option<Rules>,
}

/// The way to the recorder, and to what it keeps.
#[derive(Debug)]
pub(crate) struct Recorder {
    offers: Offers,
    shelf: Arc<Shelf>,
    redactor: Redactor,
    gateway: Arc<str>,
    /// Tells pages of this process from those of an earlier one.
    instance: u32,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Recorder {
    /// Starts the recorder's thread. A folder that can't be used is tried again: calls stay in memory meanwhile.
    ///
    /// # Errors
    /// The thread can't be started, or the rules can't be used together.
    pub(crate) fn start(config: &RecorderConfig) -> std::io::Result<Self> {
        let mut log = FailureLog::default();
        let key = config.folder.as_deref().and_then(|path| {
            let key = Folder::open(path).and_then(|folder| folder.key());
            key.map_err(|error| log.failed(0, &error, Instant::now())).ok()
        });
        let redactor = redactor(config, key)?;
        let gateway: Arc<str> = config.gateway.as_str().into();
        let (offers, queue) = queue::queue();
        let shelf = Arc::<Shelf>::default();
        let renderer = Renderer::new(redactor.clone(), Arc::clone(&gateway));
        let store = config.folder.clone().map(|folder| {
            let limits = Limits { folder, max_bytes: config.max_bytes, max_age: config.max_age };
            Store::new(limits, renderer.header(), Instant::now())
        });
        let batch = Batch::default();
        let mut writer = Writer { shelf: Arc::clone(&shelf), queue, renderer, store, log, ended: 0, batch };
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            // Of this thread alone, on Linux. It may be as nice as the process already.
            let _ = rustix::process::setpriority_process(None, NICE);
            take_up(&mut writer);
            writer.run();
        })?;
        let instance = rand::random();
        Ok(Self { offers, shelf, redactor, gateway, instance, thread: Mutex::new(Some(thread)) })
    }

    /// Takes a recording, or counts that there was no room for it. Never waits.
    pub(crate) fn offer(&self, recording: Recording) {
        if !self.offers.offer(recording) {
            TELEMETRY.recorder_dropped(1);
        }
    }

    /// Writes what was offered so far, and ends. Blocks meanwhile.
    pub(crate) fn stop(&self) {
        self.shelf.is_stopping.store(true, Ordering::Release);
        self.offers.wake();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            thread.thread().unpark();
            // A thread that panicked has written what it could.
            let _ = thread.join();
        }
    }
}

/// With the key of the rule file, or one that lasts as long as the folder, or until the process ends.
fn redactor(config: &RecorderConfig, key: Option<[u8; 32]>) -> std::io::Result<Redactor> {
    let Some(rules) = config.redaction.clone() else { return Ok(Redactor::off()) };
    let rules = rules.fallback_id_key(key.unwrap_or_else(rand::random));
    Redactor::new(rules).map_err(|error| std::io::Error::other(error.to_string()))
}

/// Removes what is too old, and reads what stays into the index.
fn take_up(writer: &mut Writer) {
    let Some(store) = &mut writer.store else { return };
    store.tidy(Instant::now(), &mut Vec::new());
    let Ok(folder) = store.folder() else { return };
    for (segment, part) in rebuild::files(folder, &writer.renderer.gateway, rebuild::MAX_BYTES) {
        let names = &mut writer.renderer.names;
        rebuild::read(&segment, part, rebuild::WINDOW_BYTES, names, |found| {
            let mut index = writer.shelf.index();
            for call in found {
                let place = Place::File { segment: Arc::clone(&segment), start: call.start, bytes: call.bytes };
                index.push(call.summary, place);
            }
        });
        store.add(segment);
    }
}

#[cfg(test)]
impl Recorder {
    /// One without a thread: whoever holds the other end takes the recordings.
    pub(crate) fn idle() -> (Self, Taken) {
        let (offers, taken) = queue::queue();
        let (shelf, redactor, thread) = (Arc::default(), Redactor::off(), Mutex::default());
        (Self { offers, shelf, redactor, gateway: "test".into(), instance: 0, thread }, taken)
    }

    /// One that redacts, and keeps calls in memory; and the work of its thread, which whoever holds it does.
    pub(crate) fn by_hand() -> (Self, impl FnMut()) {
        let (offers, queue) = queue::queue();
        let (shelf, redactor, gateway) = (Arc::<Shelf>::default(), Redactor::default(), Arc::<str>::from("test"));
        let renderer = Renderer::new(redactor.clone(), Arc::clone(&gateway));
        let (log, batch) = (FailureLog::default(), Batch::default());
        let mut writer = Writer { shelf: Arc::clone(&shelf), queue, renderer, store: None, log, ended: 0, batch };
        let recorder = Self { offers, shelf, redactor, gateway, instance: 0, thread: Mutex::default() };
        (recorder, move || writer.write_waiting())
    }
}

// Tests of the recorder as a whole, without a gateway.
#[cfg(test)]
mod tests;
