//! Wraps the kernel's mount calls that work on descriptors (Linux 5.12), as the jail needs them.

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
use super::namespaces::swap_users;

/// The attributes of all of a jail's mounts: no set-user-id programs.
pub(super) const PLAIN: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID;

/// Creates a file system that is not attached yet.
pub(super) fn new<T: AsRef<str>>(kind: &str, options: &[(&str, T)], attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), *key, value.as_ref())?;
    }
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Copies the mount at an open file or folder, with all mounts below it. The copy is not attached yet.
pub(super) fn copy(of: impl AsFd, attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(of, "", flags)?;
    set(&tree, attributes, libc::AT_RECURSIVE, None)?;
    Ok(tree)
}

/// Copies the mount at an open folder as an ID-mapped mount. In it, files of the folder's owner and group appear
/// to belong to `user`, and vice versa. Files that `user` writes belong to the folder's owner outside.
///
/// # Errors
/// Fails if the caller is not root in the initial user namespace, or if the file system does not support such
/// mounts.
pub(crate) fn copy_id_mapped(of: impl AsFd, user: User) -> io::Result<OwnedFd> {
    let about = rustix::fs::fstat(&of)?;
    let users = swap_users((about.st_uid, user.uid), (about.st_gid, user.gid))?;
    let tree = copy(of, PLAIN | MountAttrFlags::MOUNT_ATTR_NODEV)?;
    set(&tree, MountAttrFlags::MOUNT_ATTR_IDMAP, libc::AT_RECURSIVE, Some(&users))?;
    Ok(tree)
}

/// Attaches a mount at this path below an open folder.
pub(super) fn attach(mount: &OwnedFd, below: impl AsFd, path: &Path) -> io::Result<()> {
    move_mount(mount, "", below, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(())
}

/// Makes the mount at a path read-only. Does not change the mounts below it.
pub(super) fn freeze(path: &Path) -> io::Result<()> {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, path, flags, rustix::fs::Mode::empty())?;
    set(&opened, MountAttrFlags::MOUNT_ATTR_RDONLY, 0, None)
}

fn set(mount: &OwnedFd, attributes: MountAttrFlags, flags: libc::c_int, users: Option<&OwnedFd>) -> io::Result<()> {
    let userns_fd = users.map_or(0, |it| it.as_raw_fd() as u64);
    let wanted = libc::mount_attr { attr_set: attributes.bits().into(), attr_clr: 0, propagation: 0, userns_fd };
    // SAFETY: the path is empty, and the structure, whose size is passed, outlives the call.
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
