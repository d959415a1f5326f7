//! Decides once for each allowed root whether the skills' user has permission to change it.
//!
//! A skill may change the mode of files that it owns in its root. If the mode were checked before each start, a
//! skill could make the worker give later skills an unintended capability (`CAP_DAC_OVERRIDE`).

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use parking_lot::Mutex;

use super::identity::User;
use super::reach;
use crate::allowed_root::RunRoot;

/// The maximum number of remembered roots, which is more than manifests name. Additional roots get no capability.
const MAX_ROOTS: usize = 4096;

/// The decisions by the root's path.
#[derive(Debug, Default)]
pub(super) struct Roots(Mutex<BTreeMap<PathBuf, InReach>>);

/// How the skills' user may access a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InReach {
    /// Whether it may change files in the root.
    pub(super) itself: bool,
    /// Whether it may enter the folders above the root.
    pub(super) way: bool,
    /// The root's mode, or `None` if it was not readable.
    pub(super) mode: Option<u32>,
}

/// The access to a root that does not exist or is unrestricted.
pub(super) const ALL: InReach = InReach { itself: true, way: true, mode: None };

impl Roots {
    /// Returns how the user may access this root, as first seen when the worker started or a skill with this root
    /// was registered.
    pub(super) fn in_reach(&self, user: User, root: &RunRoot) -> InReach {
        let mut decided = self.0.lock();
        let path = root.path();
        if let Some(decided) = decided.get(&path) {
            return *decided;
        }
        // No skill starts in a root that can't be opened, so record no decision about it.
        let Ok(folder) = root.open() else { return ALL };
        if decided.len() >= MAX_ROOTS {
            return ALL;
        }
        let folder = File::from(folder);
        let mode = folder.metadata().ok().map(|it| it.permissions().mode());
        let itself = reach::reaches_itself(user, folder.metadata(), reach::WRITE);
        let in_reach = InReach { itself, way: reach::enters(user, &path), mode };
        decided.insert(path, in_reach);
        in_reach
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowed_root::AllowedRoot;

    #[test]
    fn a_later_mode_changes_nothing() {
        let top = std::env::temp_dir().join(format!("openskill-roots-{}", std::process::id()));
        for folder in ["open", "closed"] {
            std::fs::create_dir_all(top.join(folder)).unwrap();
        }
        let top = top.canonicalize().unwrap();
        let mode = |folder: &str, mode| {
            std::fs::set_permissions(top.join(folder), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let stranger = User { uid: 54_321, gid: 54_321 };
        mode(".", 0o755);
        mode("open", 0o777);
        mode("closed", 0o700);
        let root = AllowedRoot::open(&top).unwrap();
        let of = |folder: &str| root.run_root("x", Some(&top.join(folder)));
        let roots = Roots::default();
        let itself = |folder: &str| roots.in_reach(stranger, &of(folder)).itself;
        assert!(itself("open") && !itself("closed"));
        mode("open", 0o000);
        mode("closed", 0o777);
        assert!(itself("open") && !itself("closed"));
        std::fs::remove_dir_all(top).unwrap();
    }
}
