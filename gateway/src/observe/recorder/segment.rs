//! One file of recorded calls.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Resource, getrlimit};

/// A file that is read, and, if it is the current one, appended to.
#[derive(Debug)]
pub(super) struct Segment {
    /// Its name within the folder.
    pub(super) name: String,
    pub(super) file: File,
}

impl Segment {
    pub(super) fn read(&self, start: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut lines = vec![0; bytes];
        self.file.read_exact_at(&mut lines, start)?;
        Ok(lines)
    }

    /// Whether the file was removed from its folder.
    pub(super) fn is_gone(&self) -> bool {
        self.file.metadata().map_or(true, |it| it.nlink() == 0)
    }
}

/// The file that is written now. Locked, so that nobody removes it meanwhile.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) segment: Arc<Segment>,
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
        match (&self.segment.file).write_all(lines) {
            Ok(()) => self.length = end,
            Err(error) => {
                // Nobody reads past the last whole line, so a torn one that stays does no harm.
                let _ = self.segment.file.set_len(start);
                return Err(error);
            }
        }
        Ok(start)
    }

    /// Lets others remove the file.
    pub(super) fn release(&self) {
        // A lock that stays only keeps the file until this process ends.
        let _ = flock(&self.segment.file, FlockOperation::NonBlockingUnlock);
    }
}
