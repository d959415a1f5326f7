//! Appends lines to files, begins new ones, and removes old ones. Whatever fails is tried again a little later.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use openskill_proto::timestamp::Timestamp;
use rustix::process::{Resource, getrlimit};

use super::folder::Folder;
use super::segment::{Current, Segment};

/// How much of all files one file may take, so that the oldest can go without the others.
const FILES: u64 = 8;

/// The least and the most bytes of a file.
const FILE_BYTES: (u64, u64) = (128 * 1024, 64 * 1024 * 1024);

/// The longest time that one file spans.
const MAX_SPAN: Duration = Duration::from_secs(3600);

/// After a failure, how long lines are not written at all.
const PAUSE: Duration = Duration::from_secs(1);

/// How often it is checked that the folder is still there.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Where, how much and how long.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    pub(super) folder: PathBuf,
    /// All files of the folder together, of all gateways that write there.
    pub(super) max_bytes: u64,
    /// A file whose last line is older is removed.
    pub(super) max_age: Duration,
}

/// The files. Used by one thread.
#[derive(Debug)]
pub(super) struct Store {
    limits: Limits,
    /// The first line of each file.
    header: Vec<u8>,
    folder: Option<Arc<Folder>>,
    current: Option<Current>,
    /// This gateway's earlier files.
    older: Vec<Arc<Segment>>,
    checked: Instant,
    /// The last failure, if nothing was written since.
    failed: Option<(Instant, io::ErrorKind)>,
}

impl Store {
    /// `header`: a line that every file begins with. The folder is opened on first use.
    pub(super) fn new(limits: Limits, header: Vec<u8>, now: Instant) -> Self {
        Self { limits, header, folder: None, current: None, older: Vec::new(), checked: now, failed: None }
    }

    /// The folder, opened if it is not.
    pub(super) fn folder(&mut self) -> io::Result<&Arc<Folder>> {
        match self.folder {
            Some(ref folder) => Ok(folder),
            None => Ok(self.folder.insert(Arc::new(Folder::open(&self.limits.folder)?))),
        }
    }

    /// Adds a file that was written before this process started.
    pub(super) fn add(&mut self, segment: Arc<Segment>) {
        self.older.push(segment);
    }

    /// Appends whole lines. Returns the file and where in it they begin, and the files that were removed.
    ///
    /// # Errors
    /// They were not written. After a failure, nothing is tried for a second.
    pub(super) fn append(
        &mut self,
        lines: &[u8],
        now: Instant,
        gone: &mut Vec<Arc<Segment>>,
    ) -> io::Result<(Arc<Segment>, u64)> {
        if let Some((failed, kind)) = self.failed
            && now.saturating_duration_since(failed) < PAUSE
        {
            return Err(kind.into());
        }
        let written = self.try_append(lines, now, gone);
        self.failed = written.as_ref().err().map(|error| (now, error.kind()));
        if written.is_err() {
            // Another file may do: this one may be on a full disk, at its limit, or nowhere.
            self.close();
        }
        written
    }

    fn try_append(
        &mut self,
        lines: &[u8],
        now: Instant,
        gone: &mut Vec<Arc<Segment>>,
    ) -> io::Result<(Arc<Segment>, u64)> {
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
                self.prune(gone);
                self.current.insert(begun)
            }
        };
        let start = current.append(lines)?;
        Ok((Arc::clone(&current.segment), start))
    }

    /// Begins another folder or file where the ones that are open were removed.
    fn check(&mut self, now: Instant) {
        self.checked = now;
        if self.folder.as_ref().is_some_and(|it| it.is_gone()) {
            self.close();
            self.folder = None;
        } else if self.current.as_ref().is_some_and(|it| it.segment.is_gone()) {
            self.close();
        }
    }

    /// Whether the file has no room for so many bytes more, or spans too long.
    fn is_over(&self, current: &Current, more: usize) -> bool {
        let span = (self.limits.max_age / FILES as u32).min(MAX_SPAN);
        let is_full = current.length + more as u64 > self.file_bytes();
        let has_calls = current.length > self.header.len() as u64;
        has_calls && (is_full || current.begun.elapsed().is_ok_and(|it| it > span))
    }

    fn file_bytes(&self) -> u64 {
        // Past the process's own limit, the kernel would end the process.
        let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        (self.limits.max_bytes / FILES).clamp(FILE_BYTES.0, FILE_BYTES.1).min(limit)
    }

    fn begin(&mut self) -> io::Result<Current> {
        let stamp = Timestamp::now().to_string().replace([':', '-'], "");
        let folder = self.folder()?;
        let (name, file) = folder.create(&stamp)?;
        let mut current = Current { segment: Segment::new(folder, name), file, length: 0, begun: SystemTime::now() };
        if let Err(error) = current.append(&self.header) {
            // An empty file is of no use.
            current.release();
            self.folder()?.remove(&current.segment.name);
            return Err(error);
        }
        Ok(current)
    }

    /// Ends the current file.
    pub(super) fn close(&mut self) {
        if let Some(current) = self.current.take() {
            current.release();
            self.older.push(current.segment);
        }
    }

    /// Ends the current file if it spans too long, and removes old files. Called now and then, also while nothing is written.
    pub(super) fn tidy(&mut self, now: Instant, gone: &mut Vec<Arc<Segment>>) {
        self.check(now);
        if self.current.as_ref().is_some_and(|it| self.is_over(it, 0)) {
            self.close();
        }
        self.prune(gone);
    }

    /// Removes the oldest files, of any gateway, until those that stay are neither too many bytes nor too old, and leave room
    /// for another one.
    fn prune(&mut self, gone: &mut Vec<Arc<Segment>>) {
        let Ok(files) = self.folder().and_then(|it| it.files()) else { return };
        let most = self.limits.max_bytes.saturating_sub(self.file_bytes());
        let mut bytes: u64 = files.iter().map(|it| it.bytes).sum();
        for file in files {
            let is_old = file.modified.elapsed().is_ok_and(|age| age > self.limits.max_age);
            let Some(folder) = &self.folder else { return };
            if (is_old || bytes > most) && folder.remove(&file.name) {
                bytes = bytes.saturating_sub(file.bytes);
                let is_removed = |it: &mut Arc<Segment>| it.name == file.name;
                gone.extend(self.older.extract_if(.., is_removed));
            }
        }
        // Others may have removed some too.
        gone.extend(self.older.extract_if(.., |it| it.is_gone()));
    }
}
