//! The supervisor's side of a jail, which it prepares before the fork. The child enters it.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;

use landlock::RulesetCreated;
use rustix::io::{FdFlags, fcntl_setfd};
use serde::Serialize;

use super::calls::Filter;
use super::files::PathView;
use super::identity::Identity;
use super::plan::{Plan, Walls};
use super::system::KERNEL;
use super::view::{self, FileSystemView};
use super::{files, temp};
use crate::jail::requirement::Network;

/// Tells a fork server how to put each of its children into namespaces.
const ENV_PER_FORK: &str = "OPENSKILL_APART";

/// A jail that is prepared as far as possible before the fork. Dropping it removes the temporary directory.
#[derive(Default)]
pub(crate) struct Prepared {
    /// The temporary folder on the worker's file system. `None` if it is in memory, in the process's own mount
    /// namespace, or if the process has no plan.
    folder: Option<temp::TempFolder>,
    /// The variables that the jail adds to the process's environment.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// How many of the user's processes do not count towards the limit.
    pub(crate) others: u64,
    /// The steps for the child, which takes them.
    pub(crate) walls: Option<Ready>,
    /// The Landlock rules that each child of a fork server enforces. Only the program needs this descriptor.
    pub(crate) fork_rules: Option<OwnedFd>,
}

/// The parts of the jail that the child itself enters.
pub(crate) struct Ready {
    pub(crate) identity: Identity,
    rules: Option<RulesetCreated>,
    filter: Option<Filter>,
}

/// How a fork server puts its children into their own namespaces, in the format that `fork/namespaces.py` reads.
#[derive(Serialize)]
struct ForkSettings {
    /// The path and the options with which each child mounts its temporary folder.
    temp: &'static str,
    temp_options: String,
    /// The path at which each child mounts its `/proc`.
    proc: String,
    /// The descriptor of the Landlock rules.
    rules: Option<i32>,
    /// The system call filter that each child adds, in hexadecimal.
    filter: String,
}

/// Prepares a jail. `root`: the allowed root, if the plan requires it. If the plan has namespaces, the calling
/// process must already be inside them.
///
/// # Errors
/// Fails if a folder is missing, or if the system no longer supports what it supported when the worker started.
/// Then nothing may run.
pub(crate) fn prepare(plan: Option<&Plan>, root: Option<OwnedFd>, forks: bool) -> io::Result<Prepared> {
    let walls = plan.and_then(|it| it.walls.as_ref());
    if walls.is_some_and(|it| it.root.is_some()) != root.is_some() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if forks && !plan.is_none_or(Plan::may_fork) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let root = root.as_ref().map(OwnedFd::as_fd);
    let Some(plan) = plan else { return Ok(Prepared::default()) };
    let mut prepared = match walls.filter(|it| it.namespaces) {
        Some(walls) => in_namespaces(plan, walls, root, forks)?,
        None => {
            let temp = temp::TempFolder::make(&plan.temp, walls.and_then(|it| it.identity.user))?;
            let paths = PathView::Host(Some(temp.path()));
            let walls = walls.map(|it| ready(it, root, paths, forks)).transpose()?;
            let environment = vec![("TMPDIR", temp.path().to_string_lossy().into_owned())];
            Prepared { folder: Some(temp), environment, walls, ..Prepared::default() }
        }
    };
    if walls.is_some_and(|it| matches!(it.network, Network::Connect(_))) {
        prepared.environment.push(("RES_OPTIONS", "use-vc".to_owned()));
    }
    prepared.others = plan.others;
    Ok(prepared)
}

/// Restores the owner's permissions on the allowed root to `mode`, which the worker saw first. A skill with the
/// same root may have removed them. Ignores errors.
pub(crate) fn restore_mode(root: &OwnedFd, mode: u32) {
    let Ok(about) = rustix::fs::fstat(root) else { return };
    let owners = 0o700;
    if about.st_mode & owners != mode & owners {
        let itself = format!("/proc/self/fd/{}", root.as_raw_fd());
        let _ = std::fs::set_permissions(itself, std::fs::Permissions::from_mode(mode & 0o7777));
    }
}

fn in_namespaces(plan: &Plan, walls: &Walls, root: Option<BorrowedFd<'_>>, forks: bool) -> io::Result<Prepared> {
    let temp = view::temp_options(plan.temp_bytes, walls.identity.user);
    view::enter(&FileSystemView { walls, root, temp: &temp, forks })?;
    let mut ready = ready(walls, root, PathView::Own, forks)?;
    let mut environment = vec![("TMPDIR", view::TEMP.to_owned())];
    let mut fork_rules: Option<OwnedFd> = None;
    if forks {
        ready.identity.divides = true;
        fork_rules = ready.rules.take().and_then(Into::into);
        // Landlock's file rules would prevent it from mounting anything for its children, so the children enforce
        // these rules themselves.
        ready.rules = if walls.landlock { files::ports(walls)? } else { None };
        ready.filter = walls.calls.then(|| Filter::for_fork_server(&walls.network)).transpose()?;
        environment.push((ENV_PER_FORK, fork_settings(walls, fork_rules.as_ref(), &temp)?));
    }
    Ok(Prepared { environment, walls: Some(ready), fork_rules, ..Prepared::default() })
}

/// Returns the settings of a fork server, which inherits the descriptor of the rules.
fn fork_settings(walls: &Walls, rules: Option<&OwnedFd>, temp: &[(&str, String)]) -> io::Result<String> {
    if let Some(rules) = rules {
        fcntl_setfd(rules, FdFlags::empty())?;
    }
    let settings = ForkSettings {
        temp: view::TEMP,
        temp_options: temp.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","),
        proc: format!("{KERNEL}/proc"),
        rules: rules.map(|it| it.as_raw_fd()),
        filter: if walls.calls { Filter::for_fork()?.hexadecimal() } else { String::new() },
    };
    Ok(serde_json::to_string(&settings)?)
}

fn ready(walls: &Walls, root: Option<BorrowedFd<'_>>, paths: PathView<'_>, forks: bool) -> io::Result<Ready> {
    // A meter measures the memory of a fork server's calls.
    let counted = walls.counted && !forks;
    let rules = walls.landlock.then(|| files::rules(walls, root, paths, counted)).transpose()?;
    let filter =
        walls.calls.then(|| Filter::compile(&walls.network, walls.owner(), walls.makes(), counted)).transpose()?;
    Ok(Ready { identity: walls.identity, rules, filter })
}

impl Prepared {
    /// Removes the temporary directory of a fork server's child.
    pub(crate) fn end_fork(&self, name: &str) {
        if let (Some(folder), false) = (&self.folder, name.is_empty()) {
            temp::empty(&folder.path().join(name));
        }
    }
}

impl Ready {
    /// Confines the calling process irrevocably. Only makes system calls, without allocations or locks.
    ///
    /// # Errors
    /// Fails if one of the walls could not be set up. Then nothing may run.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        self.identity.enter()?;
        if let Some(rules) = self.rules.take() {
            files::enter(rules)?;
        }
        self.filter.as_ref().map_or(Ok(()), Filter::enter)
    }
}
