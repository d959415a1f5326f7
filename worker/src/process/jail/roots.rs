//! Which allowed roots the skills' user may change by their permissions: decided once for each.
//!
//! A skill may change the mode of what it owns in its root. Looked at anew before each start, that could make the worker give
//! later skills a capability (`CAP_DAC_OVERRIDE`) that nobody decided on.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::identity::User;
use super::reach;
use crate::allowed_root::RunRoot;

/// Roots that are remembered. More than manifests name; those beyond get no capability.
const MAX_ROOTS: usize = 4096;

/// What was decided, by path.
#[derive(Debug, Default)]
pub(super) struct Roots(Mutex<BTreeMap<PathBuf, InReach>>);

/// What of a root the user may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InReach {
    /// It may change what is in the root.
    pub(super) itself: bool,
    /// It may enter the folders above.
    pub(super) way: bool,
    /// The root's mode. None: it could not be read.
    pub(super) mode: Option<u32>,
}

/// A root that does not exist or is not restricted.
pub(super) const ALL: InReach = InReach { itself: true, way: true, mode: None };

impl Roots {
    /// What of this root the user may reach: as it was when this was asked first, when the worker started or a
    /// skill with this root was registered.
    pub(super) fn in_reach(&self, user: User, root: &RunRoot) -> InReach {
        let mut decided = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let path = root.path();
        if let Some(decided) = decided.get(&path) {
            return *decided;
        }
        // Nothing starts in a root that can't be opened, and nothing is decided about it.
        let Ok(folder) = root.open() else { return ALL };
        if decided.len() >= MAX_ROOTS {
            return ALL;
        }
        let folder = File::from(folder);
        let mode = folder.metadata().ok().map(|it| it.permissions().mode());
        let itself = reach::writes_opened(user, &folder);
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
        let of = |folder: &str| root.of_runs("x", Some(&top.join(folder)));
        let roots = Roots::default();
        let itself = |folder: &str| roots.in_reach(stranger, &of(folder)).itself;
        assert!(itself("open") && !itself("closed"));
        mode("open", 0o000);
        mode("closed", 0o777);
        assert!(itself("open") && !itself("closed"));
        std::fs::remove_dir_all(top).unwrap();
    }
}
