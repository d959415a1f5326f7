//! The folder with recorded calls. Everything in it is opened relative to its descriptor, without following links.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, openat, stat, unlinkat,
};
use rustix::process::geteuid;

/// The names of the files with recorded calls. The time between them sorts.
const FILES: (&str, &str) = ("trace-", ".jsonl");

/// The file with the key of the ids' hashes.
const KEY: &str = "key";

/// How many files are listed.
const MAX_FILES: usize = 10_000;

/// The folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    handle: OwnedFd,
}

/// A file of the folder.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) modified: SystemTime,
}

impl Folder {
    /// Opens the folder, and makes it if there is none. Only its owner may write to it.
    ///
    /// # Errors
    /// It can't be made or opened, is a link, or belongs to somebody else.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        // Without a slash at its end, behind which a link would be followed after all.
        let path: PathBuf = path.components().collect();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = openat(CWD, &path, flags, Mode::empty())?;
        let found = fstat(&handle)?;
        if found.st_uid != geteuid().as_raw() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the directory belongs to another user"));
        }
        // Files in it are for their owner alone. What is there is not changed: it may be somebody's home, or /tmp.
        if found.st_mode & 0o022 != 0 {
            let reason = "others may write to the directory: give it mode 0700, or name one that does not exist";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        Ok(Self { path, handle })
    }

    /// Whether its path leads somewhere else by now, or nowhere.
    pub(super) fn is_gone(&self) -> bool {
        let place = |it: Stat| (it.st_dev, it.st_ino);
        match (fstat(&self.handle), stat(&self.path)) {
            (Ok(own), Ok(there)) => place(own) != place(there),
            _ => true,
        }
    }

    /// Makes a new file with recorded calls, to read and append, locked. Returns its name too.
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

    /// Whether there is a file with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// The files with recorded calls, of all gateways that write here, the oldest first.
    pub(super) fn files(&self) -> io::Result<Vec<Found>> {
        let mut files = Vec::new();
        for entry in Dir::read_from(&self.handle)?.take(MAX_FILES) {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if !name.starts_with(FILES.0) || !name.ends_with(FILES.1) {
                continue;
            }
            // It may have been removed since.
            let Ok(found) = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(found.st_mode).is_file() {
                let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(found.st_mtime).unwrap_or(0));
                files.push(Found { name: name.to_owned(), bytes: u64::try_from(found.st_size).unwrap_or(0), modified });
            }
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(files)
    }

    /// Removes a file, unless a gateway writes it now. Whether it is gone.
    pub(super) fn remove(&self, name: &str) -> bool {
        let Ok(file) = self.read(name) else { return false };
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
            && unlinkat(&self.handle, name, AtFlags::empty()).is_ok()
    }

    /// The key of the ids' hashes: the one of whoever came first.
    pub(super) fn key(&self) -> io::Result<[u8; 32]> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fresh: [u8; 32] = rand::random();
        // Written under another name, so that nobody reads half a key.
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
                std::os::unix::fs::FileExt::read_exact_at(&self.read(KEY)?, &mut key, 0)?;
                Ok(key)
            }
            Err(error) => Err(error),
        }
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
        let opened = |end: &str| Folder::open(Path::new(&format!("{}{end}", link.display())));
        let refused: Vec<_> = ["", "/", "//", "/.", "/./"].into_iter().map(|end| opened(end).is_err()).collect();
        let own = Folder::open(&victim.join("")).map(|it| it.is_gone());
        std::fs::remove_dir_all(&base).unwrap();
        assert_eq!(refused, [true; 5]);
        assert!(!own.unwrap());
    }
}
