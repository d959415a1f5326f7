//! One file of recorded calls.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Resource, getrlimit};

use super::folder::Folder;

/// A file that is read. It is opened for each read: there may be as many as hours are kept.
#[derive(Debug)]
pub(super) struct Segment {
    /// Its name within the folder.
    pub(super) name: String,
    folder: Arc<Folder>,
}

impl Segment {
    pub(super) fn new(folder: &Arc<Folder>, name: String) -> Arc<Self> {
        Arc::new(Self { name, folder: Arc::clone(folder) })
    }

    pub(super) fn read(&self, start: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut lines = vec![0; bytes];
        self.folder.read(&self.name)?.read_exact_at(&mut lines, start)?;
        Ok(lines)
    }

    /// Whether the file was removed from its folder.
    pub(super) fn is_gone(&self) -> bool {
        !self.folder.has(&self.name)
    }
}

/// The file that is written now. Locked, so that nobody removes it meanwhile.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) segment: Arc<Segment>,
    pub(super) file: File,
    /// The length of its whole lines.
    pub(super) length: u64,
    pub(super) begun: SystemTime,
}

impl Current {
    /// Appends whole lines. Returns where they begin.
    ///
    /// # Errors
    /// They could not be written. The file ends with a whole line nevertheless, unless it can't be cut either.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<u64> {
        let (start, end) = (self.length, self.length + lines.len() as u64);
        // Past it, the kernel would end this process.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| end > limit) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        match self.file.write_all(lines) {
            Ok(()) => self.length = end,
            Err(error) => {
                // Nobody reads past the last whole line, so a torn one that stays does no harm.
                let _ = self.file.set_len(start);
                return Err(error);
            }
        }
        Ok(start)
    }

    /// Lets others remove the file.
    pub(super) fn release(&self) {
        // A lock that stays only keeps the file until this process ends.
        let _ = flock(&self.file, FlockOperation::NonBlockingUnlock);
    }
}
