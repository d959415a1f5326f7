//! The kernel's mount calls that work on descriptors, as the jail needs them (Linux 5.12).

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_string,
    fsmount, fsopen, move_mount, open_tree,
};

use super::identity::User;
use super::namespaces::swapped;

/// What every mount of a jail has: no set-user-id programs.
pub(super) const PLAIN: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID;

/// A new file system that is not attached yet.
pub(super) fn new(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), *key, *value)?;
    }
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// A copy of what is mounted at an open file or folder, with all below it, not attached yet.
pub(super) fn copy(of: impl AsFd, attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(of, "", flags)?;
    set(&tree, attributes, libc::AT_RECURSIVE)?;
    Ok(tree)
}

/// A copy of what is mounted at an open folder, in which what belongs to the folder's owner and group shows as belonging to
/// `user`, and the other way round (an ID-mapped mount). What `user` writes belongs to the folder's owner outside.
///
/// # Errors
/// The caller is not root outside of all namespaces, or the file system has no such mounts.
pub(super) fn mapped(of: impl AsFd, user: User) -> io::Result<OwnedFd> {
    let about = rustix::fs::fstat(&of)?;
    let users = swapped((about.st_uid, user.uid), (about.st_gid, user.gid))?;
    let tree = copy(of, PLAIN | MountAttrFlags::MOUNT_ATTR_NODEV)?;
    set_with(&tree, MountAttrFlags::MOUNT_ATTR_IDMAP, libc::AT_RECURSIVE, Some(&users))?;
    Ok(tree)
}

/// Attaches a mount at this path below an open folder.
pub(super) fn attach(mount: &OwnedFd, below: impl AsFd, path: &Path) -> io::Result<()> {
    move_mount(mount, "", below, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(())
}

/// Makes the mount at a path read-only, without those below it.
pub(super) fn freeze(path: &Path) -> io::Result<()> {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, path, flags, rustix::fs::Mode::empty())?;
    set(&opened, MountAttrFlags::MOUNT_ATTR_RDONLY, 0)
}

fn set(mount: &OwnedFd, attributes: MountAttrFlags, flags: libc::c_int) -> io::Result<()> {
    set_with(mount, attributes, flags, None)
}

fn set_with(
    mount: &OwnedFd,
    attributes: MountAttrFlags,
    flags: libc::c_int,
    users: Option<&OwnedFd>,
) -> io::Result<()> {
    let userns_fd = users.map_or(0, |it| it.as_raw_fd() as u64);
    let wanted = libc::mount_attr { attr_set: attributes.bits().into(), attr_clr: 0, propagation: 0, userns_fd };
    // SAFETY: an empty path, and a structure that lives through the call and whose size is given.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | flags,
            &raw const wanted,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
