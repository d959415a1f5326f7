//! What v2 demands before groups with bounds can be made: controllers are enabled by the group above, and a group that
//! enables them holds no process of its own.
//!
//! cgroup-v2.rst, "Enabling and Disabling", "No Internal Process Constraint" and "Delegation".

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::folder::{Folder, PROCESSES};
use crate::process::tree;

/// Where the worker's processes go if they must leave the group that is to enable controllers.
pub(super) const LEAF: &str = "openskill-worker";

const ENABLED: &str = "cgroup.subtree_control";

/// How often processes are moved: what they start meanwhile is found at the next look.
const TRIES: usize = 8;

/// How many processes are named in a reason.
const NAMED: usize = 3;

/// Makes `own`, this process's group, ready for groups with the `required` controllers, and with the `welcome` ones as
/// far as that goes. The group to make them in, which is `own` or the one above if `own` is the leaf.
///
/// If processes are in the way, and all of them are openskill's, they are moved to a leaf. Whoever has openskill alone in
/// a group has given it that group. If one is not, nothing is moved.
///
/// # Errors
/// Why that cannot be, and what to do about it.
pub(super) fn prepare(own: &Path, required: &[&str], welcome: &[&str]) -> Result<PathBuf, String> {
    let top = match own.parent() {
        Some(above) if own.ends_with(LEAF) => above,
        _ => own,
    };
    let failed = |error: io::Error| format!("{}: {error}", top.display());
    let folder = Folder::open(top).map_err(failed)?;
    let controllers = folder.read("cgroup.controllers").map_err(failed)?;
    let lacking: Vec<_> = required.iter().filter(|it| !controllers.split_whitespace().any(|has| has == **it)).collect();
    if !lacking.is_empty() {
        let has = if controllers.trim().is_empty() { "none" } else { controllers.trim() };
        let lacking: Vec<_> = lacking.into_iter().copied().collect();
        return Err(format!("{} has no controller {}, it has: {has}", top.display(), lacking.join(", ")));
    }
    for _ in 0..TRIES {
        match enable(&folder, required) {
            Ok(()) => {
                for controller in welcome {
                    let _ = enable(&folder, &[controller]);
                }
                return Ok(top.to_owned());
            }
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                make_way(&folder, top)?;
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Err(format!("{}: processes are started there faster than they can be moved", top.display()))
}

/// Enables controllers for the groups in a folder.
///
/// # Errors
/// The group has no such controller, or has processes of its own (`EBUSY`).
pub(super) fn enable(folder: &Folder, controllers: &[&str]) -> io::Result<()> {
    let all: Vec<_> = controllers.iter().map(|it| format!("+{it}")).collect();
    folder.write(ENABLED, &all.join(" "))
}

/// Moves all processes of a group to its leaf, if all are openskill's.
fn make_way(folder: &Folder, path: &Path) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let processes = folder.processes().map_err(failed)?;
    let others: Vec<_> = processes.iter().filter(|pid| !is_openskill(**pid)).collect();
    if !others.is_empty() {
        let named: Vec<_> = others.iter().take(NAMED).map(|pid| pid.to_string()).collect();
        let more = if others.len() > NAMED { ", ..." } else { "" };
        return Err(format!(
            "{} holds processes that are not openskill's ({}{more})",
            path.display(),
            named.join(", ")
        ));
    }
    match folder.make(LEAF) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let leaf = folder.sub(LEAF).map_err(failed)?;
    for pid in processes {
        match leaf.write(PROCESSES, &pid.to_string()) {
            // It has ended.
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
            moved => moved.map_err(failed)?,
        }
    }
    Ok(())
}

/// Whether a process is openskill's: it runs the same program, or is a child of this process.
fn is_openskill(pid: i32) -> bool {
    let program = |process: &str| {
        let found = std::fs::metadata(format!("/proc/{process}/exe")).ok()?;
        Some((found.dev(), found.ino()))
    };
    tree::parent(pid) == Some(tree::own_pid())
        || program(&pid.to_string()).is_some_and(|it| program("self") == Some(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like a group of v2.
    fn group(name: &str, controllers: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("openskill-delegation-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("cgroup.controllers"), controllers).unwrap();
        std::fs::write(path.join(ENABLED), "").unwrap();
        path
    }

    #[test]
    fn all_required_controllers_are_enabled_at_once() {
        let path = group("enabled", "cpuset cpu io memory hugetlb pids\n");
        assert_eq!(prepare(&path, &["memory", "pids"], &[]).unwrap(), path);
        assert_eq!(std::fs::read_to_string(path.join(ENABLED)).unwrap(), "+memory +pids");
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn from_the_leaf_the_group_above_is_prepared() {
        let path = group("above", "memory pids\n");
        std::fs::create_dir(path.join(LEAF)).unwrap();
        assert_eq!(prepare(&path.join(LEAF), &["memory", "pids"], &["cpu"]).unwrap(), path);
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_controller_that_is_not_there_is_named() {
        let path = group("lacking", "cpu pids\n");
        let reason = prepare(&path, &["memory", "pids"], &[]).unwrap_err();
        assert!(reason.ends_with(" has no controller memory, it has: cpu pids"), "{reason}");
        assert_eq!(std::fs::read_to_string(path.join(ENABLED)).unwrap(), "", "nothing was written");
        std::fs::remove_dir_all(path).unwrap();
    }
}
