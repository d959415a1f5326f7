//! The folder of recorded calls, and its files. Everything in it is opened relative to its descriptor, without
//! following links.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, openat, stat, statat, unlinkat,
};
use rustix::process::{Resource, geteuid, getrlimit};

/// The prefix and suffix of file names. The timestamp between them makes names sort by time.
const FILES: (&str, &str) = ("trace-", ".jsonl");

/// The file that contains the key for hashing ids.
const KEY: &str = "key";

/// The maximum number of files to list.
const MAX_FILES: usize = 10_000;

#[derive(Debug)]
pub(super) struct TraceFolder {
    path: PathBuf,
    handle: OwnedFd,
}

/// A file in the folder.
#[derive(Debug)]
pub(super) struct TraceFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) modified: SystemTime,
}

impl TraceFolder {
    /// Opens the folder, or creates it. Only its owner may be able to write to it.
    ///
    /// # Errors
    /// It can't be created or opened, is a link, belongs to another user, or others can write to it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        // Remove a trailing slash, which would make the kernel follow a link.
        let path: PathBuf = path.components().collect();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = openat(CWD, &path, flags, Mode::empty())?;
        let found = fstat(&handle)?;
        let refuse = |reason: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        if found.st_uid != geteuid().as_raw() {
            return refuse("the directory belongs to another user");
        }
        // Only others' write access is refused: files in the folder are accessible only to their owner. The mode of
        // an existing folder is not changed: it may be a home directory, or /tmp.
        if found.st_mode & 0o022 != 0 {
            return refuse(
                "other users can write to the directory: set its mode to 0700, or set a directory that does not exist",
            );
        }
        Ok(Self { path, handle })
    }

    /// Whether its path no longer leads to this folder.
    pub(super) fn is_gone(&self) -> bool {
        let place = |it: Stat| (it.st_dev, it.st_ino);
        match (fstat(&self.handle), stat(&self.path)) {
            (Ok(own), Ok(there)) => place(own) != place(there),
            _ => true,
        }
    }

    /// Creates a locked file for recorded calls, to read and append. Also returns its name.
    pub(super) fn create(&self, stamp: &str) -> io::Result<(String, File)> {
        let name = format!("{}{stamp}-{}{}", FILES.0, std::process::id(), FILES.1);
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.handle, &name, flags, Mode::RUSR | Mode::WUSR)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok((name, file.into()))
    }

    /// Opens a file with recorded calls.
    pub(super) fn read(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.handle, name, flags, Mode::empty())?;
        let found = fstat(&file)?;
        let is_own = FileType::from_raw_mode(found.st_mode).is_file() && found.st_uid == geteuid().as_raw();
        if is_own { Ok(file.into()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }

    /// Lists the files of recorded calls, from all gateways that write here, oldest first.
    pub(super) fn files(&self) -> io::Result<Vec<TraceFile>> {
        let mut files = Vec::new();
        for entry in Dir::read_from(&self.handle)?.take(MAX_FILES) {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if !name.starts_with(FILES.0) || !name.ends_with(FILES.1) {
                continue;
            }
            // The file may have been removed since.
            let Ok(found) = statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(found.st_mode).is_file() {
                let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(found.st_mtime).unwrap_or(0));
                let bytes = u64::try_from(found.st_size).unwrap_or(0);
                files.push(TraceFile { name: name.to_owned(), bytes, modified });
            }
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(files)
    }

    /// Removes a file, unless a gateway is writing to it. Returns whether the file is gone.
    pub(super) fn remove(&self, name: &str) -> bool {
        let Ok(file) = self.read(name) else { return false };
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
            && unlinkat(&self.handle, name, AtFlags::empty()).is_ok()
    }

    /// Reads the key for hashing ids. The first process creates it.
    pub(super) fn key(&self) -> io::Result<[u8; 32]> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fresh: [u8; 32] = rand::random();
        // Write it under another name first, so that no reader finds an incomplete key.
        let draft = format!("{KEY}-{}", openskill_proto::trace::hex(&rand::random::<[u8; 8]>()));
        let mut file = File::from(openat(&self.handle, &draft, flags, Mode::RUSR | Mode::WUSR)?);
        let linked = file
            .write_all(&fresh)
            .and_then(|()| Ok(rustix::fs::linkat(&self.handle, &draft, &self.handle, KEY, AtFlags::empty())?));
        let _ = unlinkat(&self.handle, &draft, AtFlags::empty());
        match linked {
            Ok(()) => Ok(fresh),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let mut key = [0; 32];
                self.read(KEY)?.read_exact_at(&mut key, 0)?;
                Ok(key)
            }
            Err(error) => Err(error),
        }
    }
}

/// A file to read. Opened for each read, because there may be many files.
#[derive(Debug)]
pub(super) struct Segment {
    /// The name within the folder.
    pub(super) name: String,
    folder: Arc<TraceFolder>,
}

impl Segment {
    pub(super) fn new(folder: &Arc<TraceFolder>, name: String) -> Arc<Self> {
        Arc::new(Self { name, folder: Arc::clone(folder) })
    }

    pub(super) fn read(&self, start: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut lines = vec![0; bytes];
        self.folder.read(&self.name)?.read_exact_at(&mut lines, start)?;
        Ok(lines)
    }

    /// Reads a part of the file by lines.
    pub(super) fn lines(&self, part: &Range<u64>) -> io::Result<impl BufRead + use<>> {
        let mut file = self.folder.read(&self.name)?;
        file.seek(SeekFrom::Start(part.start))?;
        Ok(BufReader::new(file.take(part.end - part.start)))
    }

    /// Whether the file was removed from its folder.
    pub(super) fn is_gone(&self) -> bool {
        statat(&self.folder.handle, &self.name, AtFlags::SYMLINK_NOFOLLOW).is_err()
    }
}

/// The file that is currently written. Locked, so that no other process removes it.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) segment: Arc<Segment>,
    pub(super) file: File,
    /// The length of the complete lines, in bytes.
    pub(super) length: u64,
    pub(super) begun: SystemTime,
}

impl Current {
    /// Appends complete lines. Returns their offset.
    ///
    /// # Errors
    /// The lines could not be written. The file still ends with a complete line, unless truncating it also fails.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<u64> {
        let (start, end) = (self.length, self.length + lines.len() as u64);
        // Beyond the file size limit, the kernel would kill this process (SIGXFSZ).
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| end > limit) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        match self.file.write_all(lines) {
            Ok(()) => self.length = end,
            Err(error) => {
                // Readers stop at the last complete line, so a remaining partial line does no harm.
                let _ = self.file.set_len(start);
                return Err(error);
            }
        }
        Ok(start)
    }

    /// Unlocks the file, so that others can remove it.
    pub(super) fn release(&self) {
        // If unlocking fails, the file stays until this process ends.
        let _ = flock(&self.file, FlockOperation::NonBlockingUnlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_not_followed_however_its_path_ends() {
        let base = std::env::temp_dir().join(format!("openskill-folder-{}", rand::random::<u64>()));
        let (victim, link) = (base.join("victim"), base.join("link"));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&victim).unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        let opened = |end: &str| TraceFolder::open(Path::new(&format!("{}{end}", link.display())));
        let refused: Vec<_> = ["", "/", "//", "/.", "/./"].into_iter().map(|end| opened(end).is_err()).collect();
        let own = TraceFolder::open(&victim.join("")).map(|it| it.is_gone());
        std::fs::remove_dir_all(&base).unwrap();
        assert_eq!(refused, [true; 5]);
        assert!(!own.unwrap());
    }
}
