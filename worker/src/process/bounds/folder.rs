//! The folder of one control group, by descriptor: it can be used after the root of the file system has changed.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

/// The most of a file that is read, in bytes. The longest one lists processes, at most ten bytes each.
const MOST_READ: usize = 1024 * 1024;

/// Who is in the group. Writing a process id there moves the process (cgroups.rst, section 2.2; cgroup-v2.rst,
/// "Processes"). The id is of the writer's namespace, and the rights are those of who opened the file.
pub(super) const PROCESSES: &str = "cgroup.procs";

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

impl Folder {
    /// Opens it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Opens a folder in it.
    pub(super) fn sub(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Makes a folder in it, which the kernel fills with the group's files.
    pub(super) fn make(&self, name: &str) -> io::Result<()> {
        Ok(mkdirat(&self.0, name, Mode::from_raw_mode(0o755))?)
    }

    /// Removes a folder in it, if no process and no group is in there. One that is not there is no error.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.0, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The names of at most `most` folders in it.
    pub(super) fn subs(&self, most: usize) -> io::Result<Vec<String>> {
        let entries = Dir::read_from(&self.0)?.flatten();
        let folders = entries.filter(|it| matches!(it.file_type(), FileType::Directory));
        let names = folders.filter_map(|it| it.file_name().to_str().ok().map(str::to_owned));
        Ok(names.filter(|name| !name.starts_with('.')).take(most).collect())
    }

    /// A file of it, open to be written.
    pub(super) fn writer(&self, file: &str) -> io::Result<OwnedFd> {
        Ok(openat(&self.0, file, OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Sets a file of it.
    pub(super) fn write(&self, file: &str, value: &str) -> io::Result<()> {
        put(self.writer(file)?, value.as_bytes())
    }

    /// The text of a file of it.
    pub(super) fn read(&self, file: &str) -> io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Opened anew each time: v1 makes its list of processes when the file is opened.
        let file = openat(&self.0, file, flags, Mode::empty())?;
        read_text(&file, MOST_READ)
    }

    /// The processes in the group, by their ids in this process's namespace. Threads of a process whose first thread has
    /// exited are listed as that process.
    pub(super) fn processes(&self) -> io::Result<Vec<i32>> {
        let text = self.read(PROCESSES)?;
        let mut found: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

/// Writes a value whole: the kernel takes each write for one value.
pub(super) fn put(file: impl AsFd, value: &[u8]) -> io::Result<()> {
    let written = rustix::io::retry_on_intr(|| rustix::io::write(&file, value))?;
    if written == value.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// The text of an open file, `most` bytes of it.
pub(super) fn read_text(file: impl AsFd, most: usize) -> io::Result<String> {
    let mut text = Vec::with_capacity(4096);
    let mut chunk = [0; 4096];
    while text.len() < most {
        match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut chunk))? {
            0 => break,
            read => text.extend_from_slice(&chunk[..read]),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}
