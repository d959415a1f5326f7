//! What this kernel gives, found out by trying: a child puts up each wall around itself and runs against it.
//!
//! Asking would not do. A container's own filter may forbid what the kernel could do, and root may be no root at all.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{geteuid, getppid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::calls::{Filter, Owner};
use super::files;
use super::identity::{Identity, User};
use super::plan::Walls;
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
}

impl Facts {
    /// The first ABI of Landlock that bounds every way of changing a file's content.
    pub const ALL_OF_FILES: u32 = 3;

    /// Tries it, in a child of this process: `supervisor` is the openskill binary. Takes some milliseconds.
    pub fn find(supervisor: &Path, user: User) -> Self {
        let child = Command::new(supervisor)
            .args([crate::process::protocol::ARGUMENT, ARGUMENT, &format!("{}:{}", user.uid, user.gid)])
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

/// The child of a probe: `openskill supervise probe UID:GID`.
pub(crate) fn main(user: Option<&str>) -> ExitCode {
    let Some(user) = user.and_then(|it| it.parse().ok()) else { return ExitCode::FAILURE };
    // Tells its parent and ends: nothing else runs in this process, so walls that stay are no harm.
    let text = serde_json::to_vec(&run_against(user)).unwrap_or_default();
    match std::io::stdout().write_all(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run_against(user: User) -> Facts {
    let mut facts = Facts { root: geteuid().is_root(), ..Facts::default() };
    let identity = |user| Identity { user, override_files: false };
    let walls = |network| Walls {
        identity: identity(None),
        landlock: true,
        calls: true,
        readable: Vec::new(),
        root: None,
        writable: Vec::new(),
        network,
    };
    // The order is another than in a jail: what a wall refuses must not be refused by an earlier one.
    let _ = rustix::thread::set_no_new_privs(true);
    if let Ok(status) = files::rules(&walls(Network::None), None, None).and_then(files::enter)
        && is_refused(std::fs::read_dir("/"))
    {
        facts.landlock = files::abi(&status);
        facts.tcp = is_refused(TcpListener::bind(("127.0.0.1", 0)));
        facts.signals = getppid().is_some_and(|parent| test_kill_process(parent).is_err());
    }
    if facts.root {
        facts.own_user = identity(Some(user)).enter().is_ok() && geteuid().as_raw() == user.uid;
    }
    if let Ok(filter) = Filter::compile(&Network::None, Owner::Worker) {
        facts.calls = filter.enter().is_ok() && is_refused(std::os::unix::net::UnixDatagram::unbound());
    }
    facts
}

fn is_refused<T>(tried: std::io::Result<T>) -> bool {
    tried.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}
