//! A control group's folder, by descriptor, so that it remains usable after the root of the file system changes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use crate::tree;

/// The maximum part of a file that is read, in bytes. The longest file lists processes, with at most ten bytes
/// each.
const MOST_READ: usize = 1024 * 1024;

/// Lists the group's processes. Writing a process id, in the writer's namespace, moves that process into the group
/// (cgroups.rst, section 2.2; cgroup-v2.rst, "Processes"). The permissions of the process that opened the file
/// apply.
pub(super) const PROCESSES: &str = "cgroup.procs";

#[derive(Debug)]
pub(super) struct CgroupFolder(OwnedFd);

impl CgroupFolder {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    pub(super) fn sub(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Creates a subfolder, in which the kernel creates the group's files.
    pub(super) fn make(&self, name: &str) -> io::Result<()> {
        Ok(mkdirat(&self.0, name, Mode::from_raw_mode(0o755))?)
    }

    /// Removes a subfolder that contains neither processes nor groups. Succeeds if it is missing.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.0, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the names of at most `most` subfolders.
    pub(super) fn subs(&self, most: usize) -> io::Result<Vec<String>> {
        let entries = Dir::read_from(&self.0)?.flatten();
        let folders = entries.filter(|it| matches!(it.file_type(), FileType::Directory));
        let names = folders.filter_map(|it| it.file_name().to_str().ok().map(str::to_owned));
        Ok(names.filter(|name| !name.starts_with('.')).take(most).collect())
    }

    /// Opens one of the group's files for writing.
    pub(super) fn writer(&self, file: &str) -> io::Result<OwnedFd> {
        Ok(openat(&self.0, file, OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Writes one of the group's files.
    pub(super) fn write(&self, file: &str, value: &str) -> io::Result<()> {
        put(self.writer(file)?, value.as_bytes())
    }

    /// Reads one of the group's files.
    pub(super) fn read(&self, file: &str) -> io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Open the file for each read, because v1 computes its list of processes when it is opened.
        tree::read_opened(openat(&self.0, file, flags, Mode::empty())?.into(), MOST_READ)
    }

    /// Returns the group's processes, by their ids in this process's namespace. If a process's first thread has
    /// exited, its other threads are listed as that process.
    pub(super) fn processes(&self) -> io::Result<Vec<i32>> {
        let text = self.read(PROCESSES)?;
        let mut found: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

/// Writes a value in a single call, because the kernel interprets each write as one value.
pub(super) fn put(file: impl AsFd, value: &[u8]) -> io::Result<()> {
    let written = rustix::io::retry_on_intr(|| rustix::io::write(&file, value))?;
    if written == value.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}
