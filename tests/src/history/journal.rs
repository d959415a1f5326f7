//! The file of a history: one JSON object a line. Clients and skills append to it, a line at a time.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Event;

/// The name of the file, in the folder that skills may write to.
pub const NAME: &str = "history.jsonl";

/// Appends events.
#[derive(Debug, Clone)]
pub struct Journal {
    file: Arc<Mutex<File>>,
    path: PathBuf,
}

impl Journal {
    /// Creates the file in a folder.
    pub fn create(folder: &Path) -> Self {
        let path = folder.join(NAME);
        let file = File::options().create(true).append(true).open(&path).expect("a temporary folder can be written to");
        Self { file: Arc::new(Mutex::new(file)), path }
    }

    pub fn add(&self, event: &Event) {
        let line = serde_json::to_string(event).expect("events are JSON") + "\n";
        self.file.lock().unwrap().write_all(line.as_bytes()).expect("the disk has space");
    }

    /// Reads what was written so far.
    pub fn events(&self) -> Vec<Event> {
        read(&self.path)
    }

    /// Copies it and the log of the gateway to the folder of temporary files. Returns the path of the copy.
    pub fn keep(&self, name: &str, log: &Path) -> PathBuf {
        let path = std::env::temp_dir().join(format!("openskill-history-{name}.jsonl"));
        std::fs::copy(&self.path, &path).expect("the disk has space");
        let _ = std::fs::copy(log, path.with_extension("log"));
        path
    }
}

/// Reads a history.
pub fn read(path: &Path) -> Vec<Event> {
    let text = std::fs::read_to_string(path).expect("the history can be read");
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("not an event: {error}: {line}"));
    text.lines().map(parse).collect()
}

/// The current time in milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
