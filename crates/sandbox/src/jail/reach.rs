//! Checks whether file permissions let a user access a path. Ignores access control lists: if they allow less, the
//! skill gets an error later; if they allow more, it gets a capability that it does not need.
//!
//! A user can always access its own files, whatever their mode is. A skill may change this mode, and must not gain
//! a capability by doing so.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::identity::User;

/// The permission to read a file, or to read and enter a folder.
pub(super) const READ: u32 = 4;

/// The permission to create and change files in a folder.
pub(super) const WRITE: u32 = 6;

/// Checks the path and the folders above it. A missing path counts as accessible.
pub(super) fn reaches(user: User, path: &Path, wanted: u32) -> bool {
    let Ok(path) = path.canonicalize() else { return true };
    enters(user, &path) && reaches_itself(user, path.metadata(), wanted)
}

/// Checks only the described file or folder, for a process that does not reach it through the folders above it.
pub(super) fn reaches_itself(user: User, described: io::Result<Metadata>, wanted: u32) -> bool {
    described.map_or(true, |it| permits(user, &it, wanted))
}

/// Returns whether the user can enter the folders above a path without links.
pub(super) fn enters(user: User, path: &Path) -> bool {
    path.ancestors().skip(1).all(|folder| reaches_itself(user, folder.metadata(), 1))
}

fn permits(user: User, it: &Metadata, wanted: u32) -> bool {
    // Using a folder means entering it, and using a program means executing it.
    let wanted = if it.is_dir() || it.mode() & 0o111 != 0 { wanted | 1 } else { wanted };
    let shift = if it.gid() == user.gid { 3 } else { 0 };
    it.uid() == user.uid || (it.mode() >> shift) & wanted == wanted
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn each_folder_on_the_way_counts() {
        let top = std::env::temp_dir().join(format!("openskill-reach-{}", std::process::id()));
        let inner = top.join("inner");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(inner.join("file"), "x").unwrap();
        let stranger = User { uid: 54_321, gid: 54_321 };
        let reads = |user, path: &Path| reaches(user, path, READ);
        let writes = |user, path: &Path| reaches(user, path, WRITE);
        let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(&top, 0o755);
        mode(&inner, 0o755);
        mode(&inner.join("file"), 0o644);
        assert!(reads(stranger, &inner.join("file")) && reads(stranger, &inner) && !writes(stranger, &inner));
        mode(&inner, 0o777);
        assert!(writes(stranger, &inner));
        mode(&top, 0o700);
        assert!(!reads(stranger, &inner.join("file")));
        let owner = User { uid: top.metadata().unwrap().uid(), gid: 54_321 };
        assert!(writes(owner, &inner) && reads(stranger, &top.join("missing")));
        mode(&inner, 0o000);
        assert!(writes(owner, &inner), "it may change the mode itself");
        std::fs::remove_dir_all(top).unwrap();
    }
}
