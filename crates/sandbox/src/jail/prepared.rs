//! The supervisor's side of a jail, which it prepares before the fork. The child enters it.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;

use landlock::RulesetCreated;
use rustix::io::{FdFlags, fcntl_setfd};
use serde::Serialize;

use super::calls::Filter;
use super::files::PathView;
use super::identity::{Identity, User};
use super::plan::{Plan, Walls};
use super::system::KERNEL;
use super::view::{self, FileSystemView, TempOptions};
use super::{files, mount, temp};
use crate::jail::requirement::Network;

/// Tells a fork server how to put each of its children into namespaces.
const ENV_PER_FORK: &str = "OPENSKILL_APART";

/// A jail that is prepared as far as possible before the fork. Dropping it removes the temporary directory.
#[derive(Default)]
pub(crate) struct Prepared {
    temp: Temp,
    others: u64,
    walls: Option<Ready>,
    resolve_by_tcp: bool,
    per_fork: Option<PerForkIsolation>,
}

/// The kind of a process's temporary folder.
#[derive(Default)]
enum Temp {
    #[default]
    None,
    /// A folder on the worker's file system.
    Folder(temp::TempFolder),
    /// A folder in memory, in the process's own mount namespace.
    Own,
}

/// The parts of the jail that the child itself enters.
pub(crate) struct Ready {
    identity: Identity,
    rules: Option<RulesetCreated>,
    filter: Option<Filter>,
}

/// The resources that a fork server needs to put its children into their own namespaces.
struct PerForkIsolation {
    settings: ForkSettings,
    /// The Landlock rules that each child enforces.
    rules: Option<OwnedFd>,
}

/// The settings in the format that `fork/namespaces.py` reads.
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
    if plan.is_some_and(Plan::takes_root) != root.is_some() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if forks && !plan.is_none_or(Plan::may_fork) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let root = root.as_ref().map(OwnedFd::as_fd);
    let Some(plan) = plan else { return Ok(Prepared::default()) };
    let resolve_by_tcp = plan.walls.as_ref().is_some_and(|it| matches!(it.network, Network::Connect(_)));
    let prepared = Prepared { others: plan.others, resolve_by_tcp, ..Prepared::default() };
    if let Some(walls) = plan.walls.as_ref().filter(|it| it.namespaces) {
        return in_namespaces(plan, walls, root, forks, prepared);
    }
    let owner = plan.walls.as_ref().and_then(|it| it.identity.user);
    let temp = temp::TempFolder::make(&plan.temp, owner)?;
    let paths = PathView::Host(Some(temp.path()));
    let walls = plan.walls.as_ref().map(|it| ready(it, root, paths, forks)).transpose()?;
    Ok(Prepared { temp: Temp::Folder(temp), walls, ..prepared })
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

/// Mounts the allowed root so that it appears to belong to the skills' user. Pass the result to `prepare` instead
/// of the root's descriptor.
///
/// # Errors
/// Fails if the file system does not support such mounts, although the worker's allowed root supports them.
pub(crate) fn map_root(root: &OwnedFd, user: User) -> io::Result<OwnedFd> {
    mount::copy_id_mapped(root, user)
}

fn in_namespaces(
    plan: &Plan,
    walls: &Walls,
    root: Option<BorrowedFd<'_>>,
    forks: bool,
    prepared: Prepared,
) -> io::Result<Prepared> {
    let temp = TempOptions::new(plan.temp_bytes, walls.identity.user);
    let shown = root.zip(walls.root.as_deref());
    let (readable, writable, names) = (&walls.readable, &walls.writable, &walls.names);
    let (root_is_mount, temp_folder) = (walls.map_root, &temp);
    view::enter(&FileSystemView {
        readable,
        writable,
        root: shown,
        root_is_mount,
        names,
        user: walls.identity.user,
        zero: walls.counted && !forks,
        writes_proc: forks || walls.sandbox.is_some(),
        temp: temp_folder,
        settings: walls.sandbox.as_ref().map(|it| it.settings.as_slice()).unwrap_or_default(),
    })?;
    let mut ready = ready(walls, root, PathView::Own, forks)?;
    let mut per_fork = None;
    if forks {
        ready.identity.divides = true;
        let rules = ready.rules.take().and_then(Into::into);
        // Landlock's file rules would prevent it from mounting anything for its children, so the children enforce
        // these rules themselves.
        ready.rules = if walls.landlock { files::ports(walls)? } else { None };
        ready.filter = walls.calls.then(|| Filter::for_fork_server(&walls.network)).transpose()?;
        per_fork = Some(PerForkIsolation::new(walls, rules, &temp)?);
    }
    Ok(Prepared { temp: Temp::Own, walls: Some(ready), per_fork, ..prepared })
}

fn ready(walls: &Walls, root: Option<BorrowedFd<'_>>, paths: PathView<'_>, forks: bool) -> io::Result<Ready> {
    // A meter measures the memory of a fork server's calls.
    let counted = walls.counted && !forks;
    let rules = walls.landlock.then(|| files::rules(walls, root, paths, counted)).transpose()?;
    let filter =
        walls.calls.then(|| Filter::compile(&walls.network, walls.owner(), walls.makes(), counted)).transpose()?;
    Ok(Ready { identity: walls.identity, rules, filter })
}

impl PerForkIsolation {
    fn new(walls: &Walls, rules: Option<OwnedFd>, temp: &TempOptions) -> io::Result<Self> {
        if let Some(rules) = &rules {
            fcntl_setfd(rules, FdFlags::empty())?;
        }
        let settings = ForkSettings {
            temp: view::TEMP,
            temp_options: temp.text(),
            proc: format!("{}/proc", KERNEL),
            rules: rules.as_ref().map(|it| it.as_raw_fd()),
            filter: if walls.calls { Filter::for_fork()?.hexadecimal() } else { String::new() },
        };
        Ok(Self { settings, rules })
    }
}

impl Prepared {
    /// Returns the variables that the jail adds to the process's environment.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let temp = match &self.temp {
            Temp::None => None,
            Temp::Folder(folder) => Some(folder.path().to_string_lossy().into_owned()),
            Temp::Own => Some(view::TEMP.to_owned()),
        };
        let per_fork = self.per_fork.as_ref().and_then(|it| serde_json::to_string(&it.settings).ok());
        let temp = temp.map(|it| ("TMPDIR", it));
        let resolver = self.resolve_by_tcp.then(|| ("RES_OPTIONS", "use-vc".to_owned()));
        temp.into_iter().chain(resolver).chain(per_fork.map(|it| (ENV_PER_FORK, it))).collect()
    }

    /// Returns the process's user, if it differs from the supervisor's user.
    pub(crate) fn user(&self) -> Option<User> {
        self.walls.as_ref().and_then(|it| it.identity.user)
    }

    /// Removes the temporary directory of a fork server's child.
    pub(crate) fn end_fork(&self, name: &str) {
        if let (Temp::Folder(folder), false) = (&self.temp, name.is_empty()) {
            temp::empty(&folder.path().join(name));
        }
    }

    /// Returns whether the process has its own namespaces.
    pub(crate) fn has_namespaces(&self) -> bool {
        matches!(self.temp, Temp::Own)
    }

    /// Returns how many of the user's processes do not count towards the limit.
    pub(crate) fn others(&self) -> u64 {
        self.others
    }

    /// Takes the steps for the child. Returns them only once.
    pub(crate) fn take(&mut self) -> Option<Ready> {
        self.walls.take()
    }

    /// Closes descriptors that only the program needs, after it was started.
    pub(crate) fn close_after_start(&mut self) {
        if let Some(per_fork) = &mut self.per_fork {
            per_fork.rules = None;
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
