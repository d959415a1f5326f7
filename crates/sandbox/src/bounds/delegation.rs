//! Meets v2's requirements for groups with limits: the parent group must enable the controllers, and a group that
//! enables controllers must not contain processes itself.
//!
//! cgroup-v2.rst, "Enabling and Disabling", "No Internal Process Constraint" and "Delegation".

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::folder::{CgroupFolder, PROCESSES};
use crate::tree;

/// The group that receives the worker's processes if they must leave a group so that it can enable controllers.
pub(super) const LEAF: &str = "openskill-worker";

const ENABLED: &str = "cgroup.subtree_control";

/// The number of attempts to move processes. Each also finds processes that were started since the previous one.
const TRIES: usize = 8;

/// The maximum number of processes that a reason names.
const NAMED: usize = 3;

/// Prepares `own`, this process's group, so that groups below it can use the `required` controllers, and the
/// `welcome` ones if possible. Returns the group in which to create them: `own`, or its parent if `own` is the
/// leaf.
///
/// If processes are in the way and all of them belong to openskill, moves them to a leaf. An operator who runs
/// only openskill in a group has delegated that group to it. If one of them belongs to another program, moves
/// nothing.
///
/// # Errors
/// Returns the reason, and what the operator can do about it.
pub(super) fn prepare(own: &Path, required: &[&str], welcome: &[&str]) -> Result<PathBuf, String> {
    let top = match own.parent() {
        Some(above) if own.ends_with(LEAF) => above,
        _ => own,
    };
    let failed = |error: io::Error| format!("{}: {error}", top.display());
    let folder = CgroupFolder::open(top).map_err(failed)?;
    let controllers = folder.read("cgroup.controllers").map_err(failed)?;
    let is_there = |it: &&str| controllers.split_whitespace().any(|has| has == *it);
    let lacking: Vec<_> = required.iter().copied().filter(|it| !is_there(it)).collect();
    if !lacking.is_empty() {
        let has = if controllers.trim().is_empty() { "none" } else { controllers.trim() };
        return Err(format!("{} has no controller {}; it has: {has}", top.display(), lacking.join(", ")));
    }
    for _ in 0..TRIES {
        match enable(&folder, required) {
            Ok(()) => {
                for controller in welcome {
                    let _ = enable(&folder, &[controller]);
                }
                return Ok(top.to_owned());
            }
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => {
                make_way(&folder, top)?;
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Err(format!("{}: processes are started there faster than they can be moved", top.display()))
}

/// Enables controllers for the groups inside a folder.
///
/// # Errors
/// Fails if the group does not have such a controller, or if it contains processes itself (`EBUSY`).
pub(super) fn enable(folder: &CgroupFolder, controllers: &[&str]) -> io::Result<()> {
    let all: Vec<_> = controllers.iter().map(|it| format!("+{it}")).collect();
    folder.write(ENABLED, &all.join(" "))
}

/// Moves all of a group's processes to its leaf, if all of them belong to openskill.
fn make_way(folder: &CgroupFolder, path: &Path) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let processes = folder.processes().map_err(failed)?;
    let others: Vec<_> = processes.iter().filter(|pid| !is_openskill(**pid)).collect();
    if !others.is_empty() {
        let named: Vec<_> = others.iter().take(NAMED).map(|pid| pid.to_string()).collect();
        let more = if others.len() > NAMED { ", ..." } else { "" };
        return Err(format!(
            "{} contains processes that are not openskill's ({}{more})",
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
            // The process has ended.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {}
            moved => moved.map_err(failed)?,
        }
    }
    Ok(())
}

/// Returns whether a process belongs to openskill, because it runs the same program or is a child of this process.
fn is_openskill(pid: i32) -> bool {
    tree::parent(pid) == Some(tree::own_pid()) || tree::runs_own_program(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a folder that looks like a v2 group.
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
        assert!(reason.ends_with(" has no controller memory; it has: cpu pids"), "{reason}");
        assert_eq!(std::fs::read_to_string(path.join(ENABLED)).unwrap(), "", "nothing was written");
        std::fs::remove_dir_all(path).unwrap();
    }
}
