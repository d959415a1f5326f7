//! Opens paths below a folder. Follows only links that stay below it, or none.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat};
use rustix::io::Errno;

/// The flags for a descriptor that refers to a file of any kind. Creating it opens nothing, never blocks, and does
/// not allow reading.
pub(crate) const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Opens `below`, which is relative to the folder `from`. Follows at most `most_links` links, and none if it is zero.
///
/// # Errors
/// Returns `XDEV` if the path leads out of the folder, and `LOOP` for too many links.
pub(crate) fn beneath(from: BorrowedFd<'_>, below: &Path, wanted: OFlags, most_links: usize) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    resolve.set(ResolveFlags::NO_SYMLINKS, most_links == 0);
    match openat2(from, below, wanted, Mode::empty(), resolve) {
        // An older kernel or a container's filter rejects the call.
        Err(Errno::NOSYS | Errno::PERM) => walk(from, below, wanted, most_links),
        opened => opened,
    }
}

/// Does the same as [`beneath`], one component after the other.
pub(crate) fn walk(from: BorrowedFd<'_>, below: &Path, wanted: OFlags, most_links: usize) -> Result<OwnedFd, Errno> {
    // The folders from the start to the current one.
    let mut way = vec![openat(from, ".", PLACE, Mode::empty())?];
    let mut rest = parts(below)?;
    let mut links = 0;
    let is_place = wanted.contains(OFlags::PATH);
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
                if links > most_links {
                    return Err(Errno::LOOP);
                }
                let target = readlinkat(&place, "", Vec::new())?;
                let target = parts(Path::new(OsStr::from_bytes(target.as_bytes())))?;
                target.into_iter().rev().for_each(|part| rest.push_front(part));
            }
            // A link that takes its place meanwhile is not followed.
            _ if rest.is_empty() && !is_place => return openat(at, &name, wanted | OFlags::NOFOLLOW, Mode::empty()),
            FileType::Directory => {
                // Without links, only `..` leads back. Keeping all folders open could exhaust the descriptors.
                if most_links == 0 {
                    way.clear();
                }
                way.push(place);
            }
            _ if rest.is_empty() && !wanted.contains(OFlags::DIRECTORY) => return Ok(place),
            _ => return Err(Errno::NOTDIR),
        }
    }
    let place = way.pop().ok_or(Errno::XDEV)?;
    if is_place { Ok(place) } else { openat(place, ".", wanted, Mode::empty()) }
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
