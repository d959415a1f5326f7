//! A jail on the supervisor's side: set up before the fork, entered by the child.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;

use landlock::RulesetCreated;
use rustix::io::{FdFlags, fcntl_setfd};
use serde::Serialize;

use super::calls::Filter;
use super::files::Place;
use super::identity::{Identity, User};
use super::plan::{Plan, Walls};
use super::system::KERNEL;
use super::view::{self, TempOptions, View};
use super::{files, mount, temp};
use crate::manifest::Network;

/// Names what a fork server needs to give each of its children namespaces of its own.
const ENV_APART: &str = "OPENSKILL_APART";

/// A jail that is set up as far as that is possible before the fork. Dropping it removes the temporary directory.
#[derive(Default)]
pub(in crate::process) struct Prepared {
    temp: Temp,
    others: u64,
    walls: Option<Ready>,
    resolve_by_tcp: bool,
    apart: Option<Apart>,
}

/// The temporary folder of the process.
#[derive(Default)]
enum Temp {
    #[default]
    None,
    /// On the worker's file system.
    Folder(temp::Folder),
    /// In memory, in the process's own mount namespace.
    Own,
}

/// What the child does to enter it.
pub(in crate::process) struct Ready {
    identity: Identity,
    rules: Option<RulesetCreated>,
    filter: Option<Filter>,
}

/// What a fork server is told, for the children that it puts into namespaces of their own.
struct Apart {
    settings: ForkSettings,
    /// The rules of Landlock that each child puts in force.
    rules: Option<OwnedFd>,
}

/// As `fork/namespaces.py` reads it.
#[derive(Serialize)]
struct ForkSettings {
    /// Where each child mounts its temporary folder, and with which options.
    temp: &'static str,
    temp_options: String,
    /// Where each child mounts its `/proc`.
    proc: String,
    /// The descriptor of the rules.
    rules: Option<i32>,
    /// A filter of system calls in hexadecimal, that each child adds.
    filter: String,
}

/// Sets up a jail. `root`: the allowed root, if the plan says that it comes. The calling process is inside of its namespaces already, if the plan has any.
///
/// # Errors
/// A folder is missing, or the system can no longer do what it could when the worker started. Nothing may run then.
pub(in crate::process) fn prepare(plan: Option<&Plan>, root: Option<OwnedFd>, forks: bool) -> io::Result<Prepared> {
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
    let temp = temp::Folder::make(&plan.temp, owner)?;
    let place = Place::Host(Some(temp.path()));
    let walls = plan.walls.as_ref().map(|it| ready(it, root, place, forks)).transpose()?;
    Ok(Prepared { temp: Temp::Folder(temp), walls, ..prepared })
}

/// Gives its owner back what the owner could do in the allowed root when the worker first saw it: `mode`. A skill with the
/// same root may have taken it away. As far as this process may.
pub(in crate::process) fn restore_mode(root: &OwnedFd, mode: u32) {
    let Ok(about) = rustix::fs::fstat(root) else { return };
    let owners = 0o700;
    if about.st_mode & owners != mode & owners {
        let itself = format!("/proc/self/fd/{}", root.as_raw_fd());
        let _ = std::fs::set_permissions(itself, std::fs::Permissions::from_mode(mode & 0o7777));
    }
}

/// A mount of the allowed root in which it belongs to the skills' user, for `prepare` in place of the root's descriptor.
///
/// # Errors
/// The file system has no such mounts, though that of the worker's allowed root has.
pub(in crate::process) fn map_root(root: &OwnedFd, user: User) -> io::Result<OwnedFd> {
    mount::mapped(root, user)
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
    view::enter(&View {
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
    let mut ready = ready(walls, root, Place::Own, forks)?;
    let mut apart = None;
    if forks {
        ready.identity.divides = true;
        let rules = ready.rules.take().and_then(Into::into);
        // Bounded in its files it could make no mounts for its children; they put the rules in force.
        ready.rules = if walls.landlock { files::ports(walls)? } else { None };
        ready.filter = walls.calls.then(|| Filter::of_fork_server(&walls.network)).transpose()?;
        apart = Some(Apart::new(walls, rules, &temp)?);
    }
    Ok(Prepared { temp: Temp::Own, walls: Some(ready), apart, ..prepared })
}

fn ready(walls: &Walls, root: Option<BorrowedFd<'_>>, place: Place<'_>, forks: bool) -> io::Result<Ready> {
    // The calls of a fork server are measured.
    let counted = walls.counted && !forks;
    let rules = walls.landlock.then(|| files::rules(walls, root, place, counted)).transpose()?;
    let filter =
        walls.calls.then(|| Filter::compile(&walls.network, walls.owner(), walls.makes(), counted)).transpose()?;
    Ok(Ready { identity: walls.identity, rules, filter })
}

impl Apart {
    fn new(walls: &Walls, rules: Option<OwnedFd>, temp: &TempOptions) -> io::Result<Self> {
        if let Some(rules) = &rules {
            fcntl_setfd(rules, FdFlags::empty())?;
        }
        let settings = ForkSettings {
            temp: view::TEMP,
            temp_options: temp.text(),
            proc: format!("{}/proc", KERNEL),
            rules: rules.as_ref().map(|it| it.as_raw_fd()),
            filter: if walls.calls { Filter::of_fork()?.hexadecimal() } else { String::new() },
        };
        Ok(Self { settings, rules })
    }
}

impl Prepared {
    /// What the jail adds to the environment of the process.
    pub(in crate::process) fn environment(&self) -> Vec<(&'static str, String)> {
        let temp = match &self.temp {
            Temp::None => None,
            Temp::Folder(folder) => Some(folder.path().to_string_lossy().into_owned()),
            Temp::Own => Some(view::TEMP.to_owned()),
        };
        let apart = self.apart.as_ref().and_then(|it| serde_json::to_string(&it.settings).ok());
        let temp = temp.map(|it| ("TMPDIR", it));
        let resolver = self.resolve_by_tcp.then(|| ("RES_OPTIONS", "use-vc".to_owned()));
        temp.into_iter().chain(resolver).chain(apart.map(|it| (ENV_APART, it))).collect()
    }

    /// The user that the process will have, if it is not the supervisor's.
    pub(in crate::process) fn user(&self) -> Option<User> {
        self.walls.as_ref().and_then(|it| it.identity.user)
    }

    /// Removes the temporary directory of one child of a fork server.
    pub(in crate::process) fn end_fork(&self, name: &str) {
        if let (Temp::Folder(folder), false) = (&self.temp, name.is_empty()) {
            temp::empty(&folder.path().join(name));
        }
    }

    /// Whether the process has namespaces of its own.
    pub(in crate::process) fn is_apart(&self) -> bool {
        matches!(self.temp, Temp::Own)
    }

    /// How many processes of the user do not count towards the limit.
    pub(in crate::process) fn others(&self) -> u64 {
        self.others
    }

    /// What the child does, once.
    pub(in crate::process) fn take(&mut self) -> Option<Ready> {
        self.walls.take()
    }

    /// The program was started: what only it needs is closed here.
    pub(in crate::process) fn started(&mut self) {
        if let Some(apart) = &mut self.apart {
            apart.rules = None;
        }
    }
}

impl Ready {
    /// Confines the calling process, for good. Only system calls: no allocation, no lock.
    ///
    /// # Errors
    /// One of the walls could not be set up. Nothing may run then.
    pub(in crate::process) fn enter(&mut self) -> io::Result<()> {
        self.identity.enter()?;
        if let Some(rules) = self.rules.take() {
            files::enter(rules)?;
        }
        self.filter.as_ref().map_or(Ok(()), Filter::enter)
    }
}
