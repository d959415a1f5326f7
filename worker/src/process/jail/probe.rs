//! What this kernel gives, found out by trying: a child puts up each wall around itself and runs against it.
//!
//! Asking would not do. A container's own filter may forbid what the kernel could do, and root may be no root at all.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{WaitOptions, geteuid, getppid, test_kill_process, waitpid};
use serde::{Deserialize, Serialize};

use super::calls::{Filter, Makes, Owner};
use super::files::{self, Place};
use super::identity::{Identity, User};
use super::mount;
use super::namespaces::{Side, leave, split};
use super::plan::Walls;
use super::view::{self, TempOptions, View};
use crate::manifest::Network;

/// The argument of `openskill supervise` that makes it the child of a probe. A user follows.
pub(crate) const ARGUMENT: &str = "probe";

/// What was found to hold here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The worker is root.
    pub root: bool,
    /// A process can become the skills' user.
    pub own_user: bool,
    /// The ABI of Landlock; 0: there is none.
    pub landlock: u32,
    /// Landlock refuses TCP where it is not allowed.
    pub tcp: bool,
    /// Landlock refuses signals to others.
    pub signals: bool,
    /// System calls can be filtered.
    pub calls: bool,
    /// A process can have namespaces of its own.
    pub namespaces: Namespaces,
    /// The allowed root can be shown as belonging to the skills' user.
    pub maps_users: bool,
}

/// Whether a process can have namespaces of its own, and a root of its own in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Namespaces {
    /// It can.
    Given,
    /// They cannot be made: an errno. A setting of the kernel, or a container's filter, forbids it.
    NotMade(i32),
    /// The root cannot be furnished: an errno. The kernel is older than 5.12, or a container's `/proc` is masked.
    NotFurnished(i32),
}

impl Default for Namespaces {
    fn default() -> Self {
        Self::NotMade(0)
    }
}

impl std::fmt::Display for Namespaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reason = |errno: &i32| std::io::Error::from_raw_os_error(*errno);
        match self {
            Self::Given => write!(f, "namespaces of its own"),
            Self::NotMade(errno) => write!(
                f,
                "no namespaces, as clone(2) fails: {}; the kernel's settings or the container's seccomp profile forbid them",
                reason(errno)
            ),
            Self::NotFurnished(errno) => write!(
                f,
                "no namespaces, as mounts in them fail: {}; the kernel is older than 5.12, or the container masks /proc",
                reason(errno)
            ),
        }
    }
}

impl Facts {
    /// The first ABI of Landlock that bounds every way of changing a file's content.
    pub const ALL_OF_FILES: u32 = 3;

    /// Tries it, in a child of this process: `supervisor` is the openskill binary. Takes some milliseconds.
    /// `root` is the allowed root.
    pub fn find(supervisor: &Path, user: User, root: &Path) -> Self {
        let child = Command::new(supervisor)
            .args([crate::process::protocol::ARGUMENT, ARGUMENT, &format!("{}:{}", user.uid, user.gid)])
            .arg(root)
            .env_clear()
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let facts = child.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
        facts.unwrap_or_else(|| {
            tracing::error!("what the kernel gives for a jail could not be found out: skills run without one");
            Self::default()
        })
    }
}

/// The child of a probe: `openskill supervise probe UID:GID ROOT`.
pub(crate) fn main(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let user = arguments.next().and_then(|it| it.parse().ok());
    let (Some(user), Some(root)) = (user, arguments.next()) else { return ExitCode::FAILURE };
    // Tells its parent and ends: nothing else runs in this process, so walls that stay are no harm.
    let text = serde_json::to_vec(&run_against(user, Path::new(&root))).unwrap_or_default();
    match std::io::stdout().write_all(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run_against(user: User, root: &Path) -> Facts {
    let namespaces = try_namespaces(user);
    let maps_users = namespaces == Namespaces::Given && maps(root, user);
    let mut facts = Facts { root: geteuid().is_root(), namespaces, maps_users, ..Facts::default() };
    let identity = |user| Identity { user, override_files: false, divides: false };
    let walls = |network| Walls {
        identity: identity(None),
        namespaces: false,
        landlock: true,
        calls: true,
        counted: false,
        readable: Vec::new(),
        root: None,
        root_mode: None,
        map_root: false,
        writable: Vec::new(),
        names: Vec::new(),
        network,
        sandbox: None,
    };
    // The order is another than in a jail: what a wall refuses must not be refused by an earlier one.
    let _ = rustix::thread::set_no_new_privs(true);
    if let Ok(status) = files::rules(&walls(Network::None), None, Place::Host(None), true).and_then(files::enter)
        && is_refused(std::fs::read_dir("/"))
    {
        facts.landlock = files::abi(&status);
        facts.tcp = is_refused(TcpListener::bind(("127.0.0.1", 0)));
        facts.signals = getppid().is_some_and(|parent| test_kill_process(parent).is_err());
    }
    if facts.root {
        facts.own_user = identity(Some(user)).enter().is_ok() && geteuid().as_raw() == user.uid;
    }
    if let Ok(filter) = Filter::compile(&Network::None, Owner::Worker, Makes::Nothing, false) {
        facts.calls = filter.enter().is_ok() && is_refused(std::os::unix::net::UnixDatagram::unbound());
    }
    facts
}

/// Whether a mount of this folder can show it as another user's.
fn maps(folder: &Path, user: User) -> bool {
    std::fs::File::open(folder).and_then(|folder| mount::mapped(folder, user)).is_ok()
}

/// Makes namespaces, furnishes them, and looks, as the skills' user, whether nothing else is there.
fn try_namespaces(user: User) -> Namespaces {
    let errno = |error: &std::io::Error| error.raw_os_error().unwrap_or(0);
    match split(true, |_| Ok(())) {
        Err(error) => Namespaces::NotMade(errno(&error)),
        Ok(Side::Inside) => {
            let user = geteuid().is_root().then_some(user);
            let temp = TempOptions::new(1 << 20, user);
            let entered = view::enter(&View {
                readable: &[],
                writable: &[],
                root: None,
                root_is_mount: false,
                names: &[],
                user: None,
                zero: true,
                writes_proc: false,
                temp: &temp,
                settings: &[],
            });
            let become_user = || Identity { user, override_files: false, divides: false }.enter();
            let alone = entered.and_then(|()| become_user()).and_then(|()| match Path::new("/proc/2").exists() {
                true => Err(std::io::ErrorKind::Other.into()),
                false => std::fs::write(Path::new(view::TEMP).join("probe"), "x"),
            });
            // Only the number gets out.
            let code = alone.map_or_else(|error| errno(&error).clamp(1, 255), |()| 0);
            leave(code)
        }
        Ok(Side::Outside(child)) => match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => match status.exit_status() {
                Some(0) => Namespaces::Given,
                code => Namespaces::NotFurnished(code.unwrap_or(0)),
            },
            _ => Namespaces::NotFurnished(0),
        },
    }
}

fn is_refused<T>(tried: std::io::Result<T>) -> bool {
    tried.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}
