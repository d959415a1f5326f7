//! Probes which features this kernel supports: a child sets up each wall around itself and tests it.
//!
//! Asking the kernel what it supports is not enough. A container's filter may forbid supported features, and root
//! may not have root's capabilities.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{WaitOptions, geteuid, getppid, test_kill_process, waitpid};
use serde::{Deserialize, Serialize};

use super::calls::{FileOwner, Filter, Makes};
use super::files::{self, PathView};
use super::identity::{Identity, User};
use super::mount;
use super::namespaces::{Side, leave, split};
use super::plan::Walls;
use super::view::{self, FileSystemView};
use crate::jail::requirement::Network;

/// The argument that makes `openskill supervise` the child of a probe. A user follows it.
pub(crate) const ARGUMENT: &str = "probe";

/// The features that this system supports, as probed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemSupport {
    /// Whether the worker is root.
    pub root: bool,
    /// Whether a process can become the skills' user.
    pub own_user: bool,
    /// Landlock's ABI, or 0 if it is unavailable.
    pub landlock: u32,
    /// Whether Landlock refuses TCP connections that are not allowed.
    pub tcp: bool,
    /// Whether Landlock refuses signals to processes outside.
    pub signals: bool,
    /// Whether the kernel can filter system calls.
    pub calls: bool,
    /// Whether a process can have its own namespaces with its own root.
    pub namespaces: Namespaces,
    /// Whether the allowed root can appear to belong to the skills' user.
    pub maps_users: bool,
}

/// Whether a process can have its own namespaces with its own root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Namespaces {
    /// A process can have them.
    Given,
    /// Creating namespaces fails with this errno, because a kernel setting or a container's filter forbids it.
    NotMade(i32),
    /// Setting up the root fails with this errno, because the kernel is older than 5.12 or a container's `/proc`
    /// is masked.
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
            Self::Given => write!(f, "its own namespaces"),
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

impl SystemSupport {
    /// The first Landlock ABI that covers all ways to change a file's content.
    pub const ALL_OF_FILES: u32 = 3;

    /// Probes what the system supports, in a child of this process. Takes some milliseconds. `supervisor`: the
    /// openskill binary. `root`: the allowed root.
    pub fn find(supervisor: &Path, user: User, root: &Path) -> Self {
        let child = Command::new(supervisor)
            .args([crate::protocol::ARGUMENT, ARGUMENT, &format!("{}:{}", user.uid, user.gid)])
            .arg(root)
            .env_clear()
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let facts = child.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
        facts.unwrap_or_else(|| {
            tracing::error!("the kernel's support for jails could not be determined: skills run without a jail");
            Self::default()
        })
    }
}

/// Runs the child of a probe: `openskill supervise probe UID:GID ROOT`.
pub(crate) fn main(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let user = arguments.next().and_then(|it| it.parse().ok());
    let (Some(user), Some(root)) = (user, arguments.next()) else { return ExitCode::FAILURE };
    // This process only reports to its parent and exits, so remaining walls do no harm.
    let text = serde_json::to_vec(&run_against(user, Path::new(&root))).unwrap_or_default();
    if std::io::stdout().write_all(&text).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_against(user: User, root: &Path) -> SystemSupport {
    let namespaces = try_namespaces(user);
    let maps_users = namespaces == Namespaces::Given && maps(root, user);
    let mut facts = SystemSupport { root: geteuid().is_root(), namespaces, maps_users, ..SystemSupport::default() };
    // The order differs from that in a jail, so that no earlier wall refuses what a later test needs.
    let _ = rustix::thread::set_no_new_privs(true);
    if let Ok(status) = files::rules(&Walls::default(), None, PathView::Host(None), true).and_then(files::enter)
        && is_refused(std::fs::read_dir("/"))
    {
        facts.landlock = files::abi(&status);
        facts.tcp = is_refused(TcpListener::bind(("127.0.0.1", 0)));
        facts.signals = getppid().is_some_and(|parent| test_kill_process(parent).is_err());
    }
    if facts.root {
        facts.own_user =
            Identity { user: Some(user), ..Identity::default() }.enter().is_ok() && geteuid().as_raw() == user.uid;
    }
    if let Ok(filter) = Filter::compile(&Network::None, FileOwner::Worker, Makes::Nothing, false) {
        facts.calls = filter.enter().is_ok() && is_refused(std::os::unix::net::UnixDatagram::unbound());
    }
    facts
}

/// Returns whether a mount of this folder can show its files as another user's.
fn maps(folder: &Path, user: User) -> bool {
    std::fs::File::open(folder).and_then(|folder| mount::copy_id_mapped(folder, user)).is_ok()
}

/// Creates namespaces, sets up a root in them, and checks as the skills' user that nothing else is visible.
fn try_namespaces(user: User) -> Namespaces {
    let errno = |error: &std::io::Error| error.raw_os_error().unwrap_or(0);
    match split(true, |_| Ok(())) {
        Err(error) => Namespaces::NotMade(errno(&error)),
        Ok(Side::Inside) => {
            let user = geteuid().is_root().then_some(user);
            let temp = view::temp_options(1 << 20, user);
            let walls = Walls { counted: true, ..Walls::default() };
            let entered = view::enter(&FileSystemView { walls: &walls, root: None, temp: &temp, forks: false });
            let become_user = || Identity { user, ..Identity::default() }.enter();
            let alone = entered.and_then(|()| become_user()).and_then(|()| match Path::new("/proc/2").exists() {
                true => Err(std::io::ErrorKind::Other.into()),
                false => std::fs::write(Path::new(view::TEMP).join("probe"), "x"),
            });
            // The exit code can only report a number.
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
