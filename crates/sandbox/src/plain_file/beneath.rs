//! Opens paths below a folder. Follows only links that stay below it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat};
use rustix::io::Errno;

/// The flags for a descriptor that refers to a file of any kind. Creating it opens nothing, never blocks, and does
/// not allow reading.
pub(super) const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// The maximum number of links in a path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Opens `below`, which is relative to the folder `from`.
///
/// # Errors
/// Returns `XDEV` if the path leads out of the folder.
pub(super) fn beneath(from: BorrowedFd<'_>, below: &Path, wanted: OFlags) -> Result<OwnedFd, Errno> {
    match openat2(from, below, wanted, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS) {
        // An older kernel or a container's filter rejects the call.
        Err(Errno::NOSYS | Errno::PERM) => walk(from, below, wanted),
        opened => opened,
    }
}

/// Does the same as [`beneath`], one component after the other.
pub(super) fn walk(from: BorrowedFd<'_>, below: &Path, wanted: OFlags) -> Result<OwnedFd, Errno> {
    // The folders from the start to the current one.
    let mut way = vec![openat(from, ".", PLACE, Mode::empty())?];
    let mut rest = parts(below)?;
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        let at = way.last().ok_or(Errno::XDEV)?;
        if name == ".." {
            way.pop();
            continue;
        }
        let place = openat(at, &name, PLACE | OFlags::NOFOLLOW, Mode::empty())?;
        match FileType::from_raw_mode(fstat(&place)?.st_mode) {
            FileType::Symlink => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP);
                }
                let target = readlinkat(&place, "", Vec::new())?;
                let target = parts(Path::new(OsStr::from_bytes(target.as_bytes())))?;
                target.into_iter().rev().for_each(|part| rest.push_front(part));
            }
            FileType::Directory => way.push(place),
            _ if rest.is_empty() => return openat(at, &name, wanted | OFlags::NOFOLLOW, Mode::empty()),
            _ => return Err(Errno::NOTDIR),
        }
    }
    openat(way.last().ok_or(Errno::XDEV)?.as_fd(), ".", wanted, Mode::empty())
}

/// Returns the components of a relative path.
fn parts(path: &Path) -> Result<VecDeque<OsString>, Errno> {
    let part = |part: Component<'_>| match part {
        Component::Normal(name) => Some(Ok(name.to_owned())),
        Component::ParentDir => Some(Ok(OsString::from(".."))),
        Component::CurDir => None,
        Component::RootDir | Component::Prefix(_) => Some(Err(Errno::XDEV)),
    };
    path.components().filter_map(part).collect()
}
