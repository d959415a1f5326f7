//! Appends lines to files, starts new files, and removes old ones. Retries after failures.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use openskill_proto::timestamp::Timestamp;
use rustix::process::{Resource, getrlimit};

use super::folder::{Current, Segment, TraceFolder};

/// The number of files by which the total size and the maximum age are divided, so that the oldest file can be
/// removed without the others.
const FILES: u64 = 8;

/// The minimum and the maximum size of a file, in bytes.
const FILE_BYTES: (u64, u64) = (128 * 1024, 64 * 1024 * 1024);

/// The maximum time that one file spans.
const MAX_SPAN: Duration = Duration::from_secs(3600);

/// How long writing pauses after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// The interval between checks that the folder still exists.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The files of the recorder. Only one thread uses them.
#[derive(Debug)]
pub(super) struct FileStore {
    path: PathBuf,
    /// The maximum total size of all files in the folder, from all gateways that write there, in bytes.
    max_bytes: u64,
    /// The maximum age of a file's last line. Older files are removed.
    max_age: Duration,
    /// The first line of each file.
    header: Vec<u8>,
    folder: Option<Arc<TraceFolder>>,
    current: Option<Current>,
    /// This gateway's earlier files.
    pub(super) older: Vec<Arc<Segment>>,
    checked: Instant,
    /// The last failure. None if something was written after it.
    failed: Option<(Instant, io::ErrorKind)>,
    /// The files that were removed, until the index forgets their calls.
    pub(super) gone: Vec<Arc<Segment>>,
}

impl FileStore {
    /// `header` is the first line of every file. Opens the folder at `path` on first use.
    pub(super) fn new(path: PathBuf, max_bytes: u64, max_age: Duration, header: Vec<u8>) -> Self {
        let (folder, current, older, failed, gone) = Default::default();
        Self { path, max_bytes, max_age, header, folder, current, older, checked: Instant::now(), failed, gone }
    }

    /// Returns the folder. Opens it on first use.
    pub(super) fn folder(&mut self) -> io::Result<&Arc<TraceFolder>> {
        match self.folder {
            Some(ref folder) => Ok(folder),
            None => Ok(self.folder.insert(Arc::new(TraceFolder::open(&self.path)?))),
        }
    }

    /// Appends complete lines. Returns the file with their offset.
    ///
    /// # Errors
    /// The lines were not written. After a failure, writing pauses for a second.
    pub(super) fn append(&mut self, lines: &[u8], now: Instant) -> io::Result<(Arc<Segment>, u64)> {
        if let Some((failed, kind)) = self.failed
            && now.saturating_duration_since(failed) < PAUSE
        {
            return Err(kind.into());
        }
        let written = self.try_append(lines, now);
        self.failed = written.as_ref().err().map(|error| (now, error.kind()));
        if written.is_err() {
            // Another file may work: this one may be on a full disk, at its size limit, or removed.
            self.close();
        }
        written
    }

    fn try_append(&mut self, lines: &[u8], now: Instant) -> io::Result<(Arc<Segment>, u64)> {
        if now.saturating_duration_since(self.checked) >= CHECK_INTERVAL {
            self.check(now);
        }
        if self.current.as_ref().is_some_and(|it| self.is_over(it, lines.len())) {
            self.close();
        }
        let current = match self.current {
            Some(ref mut current) => current,
            None => {
                let begun = self.begin()?;
                self.prune();
                self.current.insert(begun)
            }
        };
        let start = current.append(lines)?;
        Ok((Arc::clone(&current.segment), start))
    }

    /// Reopens the folder or starts a new file, if they were removed.
    fn check(&mut self, now: Instant) {
        self.checked = now;
        if self.folder.as_ref().is_some_and(|it| it.is_gone()) {
            self.close();
            self.folder = None;
        } else if self.current.as_ref().is_some_and(|it| it.segment.is_gone()) {
            self.close();
        }
    }

    /// Whether the file has no room for `more` bytes, or spans too much time.
    fn is_over(&self, current: &Current, more: usize) -> bool {
        let span = (self.max_age / FILES as u32).min(MAX_SPAN);
        let is_full = current.length + more as u64 > self.file_bytes();
        let has_calls = current.length > self.header.len() as u64;
        has_calls && (is_full || current.begun.elapsed().is_ok_and(|it| it > span))
    }

    fn file_bytes(&self) -> u64 {
        // Beyond the process's file size limit, the kernel would kill the process.
        let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        (self.max_bytes / FILES).clamp(FILE_BYTES.0, FILE_BYTES.1).min(limit)
    }

    fn begin(&mut self) -> io::Result<Current> {
        let stamp = Timestamp::now().to_string().replace([':', '-'], "");
        let folder = self.folder()?;
        let (name, file) = folder.create(&stamp)?;
        let mut current = Current { segment: Segment::new(folder, name), file, length: 0, begun: SystemTime::now() };
        if let Err(error) = current.append(&self.header) {
            // Remove the file, because it is still empty.
            current.release();
            self.folder()?.remove(&current.segment.name);
            return Err(error);
        }
        Ok(current)
    }

    /// Closes the current file.
    pub(super) fn close(&mut self) {
        if let Some(current) = self.current.take() {
            current.release();
            self.older.push(current.segment);
        }
    }

    /// Closes the current file if it spans too much time, and removes old files. Called periodically, even if
    /// nothing is written.
    pub(super) fn tidy(&mut self, now: Instant) {
        self.check(now);
        if self.current.as_ref().is_some_and(|it| self.is_over(it, 0)) {
            self.close();
        }
        self.prune();
    }

    /// Removes the oldest files of all gateways until the rest is within the limits and leaves room for another
    /// file.
    fn prune(&mut self) {
        let Ok(files) = self.folder().and_then(|it| it.files()) else { return };
        let most = self.max_bytes.saturating_sub(self.file_bytes());
        let mut bytes: u64 = files.iter().map(|it| it.bytes).sum();
        for file in files {
            let is_old = file.modified.elapsed().is_ok_and(|age| age > self.max_age);
            let Some(folder) = &self.folder else { return };
            if (is_old || bytes > most) && folder.remove(&file.name) {
                bytes = bytes.saturating_sub(file.bytes);
                let is_removed = |it: &mut Arc<Segment>| it.name == file.name;
                self.gone.extend(self.older.extract_if(.., is_removed));
            }
        }
        // Other gateways may also have removed some.
        self.gone.extend(self.older.extract_if(.., |it| it.is_gone()));
    }
}
