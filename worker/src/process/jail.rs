//! The jail around a skill's process: what it may reach, however it tries.
//!
//! Three walls, each for what the others do not see, put up by the supervisor in the child just before the program:
//!
//! - a user of its own (`identity`), where the worker is root, and no capability
//! - Landlock (`files`): which files it may read and write, which TCP ports it may connect to, whom it may signal
//! - system calls (`calls`, `program`, by `numbers`): the network beyond TCP, namespaces, mounts, tracing, and the ways around
//!   Landlock
//!
//! And, jailed or not, a private folder for temporary files (`temp`, emptied by `removal`).
//!
//! What the kernel gives is found out once, by trying it ([`probe`]). [`jailer`] decides from it what each skill gets, or
//! that a skill which asks for more does not run. See `docs/runners/jail.md`.

use std::io;
use std::path::{Path, PathBuf};

use landlock::RulesetCreated;
use serde::{Deserialize, Serialize};

use crate::manifest::Network;

mod calls;
mod files;
mod identity;
pub(crate) mod jailer;
mod numbers;
pub(crate) mod probe;
mod program;
mod reach;
mod removal;
pub(crate) mod temp;

pub use identity::User;
pub(crate) use jailer::Jailer;
pub use probe::Facts;

use calls::{Filter, Owner};
use identity::Identity;

/// What a process gets, decided by the worker, carried out by the supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The folder beneath which the private folder for temporary files is made.
    temp: PathBuf,
    /// How many processes the user has besides, which the limit on processes is not about.
    others: u64,
    /// None: there are none, as the manifest wishes.
    walls: Option<Walls>,
}

impl Plan {
    /// What the process may change besides its own folder; none if nothing keeps it to that.
    pub(crate) fn writable(&self) -> Option<&[PathBuf]> {
        self.walls.as_ref().filter(|it| it.landlock).map(|it| it.writable.as_slice())
    }

    /// The user that the process will have, if it is not the worker's.
    pub(super) fn user(&self) -> Option<User> {
        self.walls.as_ref().and_then(|it| it.identity.user)
    }
}

/// What a process may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Walls {
    identity: Identity,
    /// Whether Landlock is there.
    landlock: bool,
    /// Whether system calls can be filtered.
    calls: bool,
    /// Folders and files to read and to run, besides those of the system.
    readable: Vec<PathBuf>,
    /// Folders to do anything in.
    writable: Vec<PathBuf>,
    network: Network,
}

impl Walls {
    fn owner(&self) -> Owner {
        match self.identity {
            Identity { user: None, .. } => Owner::Worker,
            Identity { override_files: true, .. } => Owner::Overriding,
            Identity { .. } => Owner::Itself,
        }
    }
}

/// A jail that stands ready: all that can be done before the fork is done. Dropping it removes the temporary folder.
pub(super) struct Prepared {
    temp: Option<temp::Folder>,
    others: u64,
    walls: Option<Ready>,
    resolve_by_tcp: bool,
}

/// What the child does.
pub(super) struct Ready {
    identity: Identity,
    rules: Option<RulesetCreated>,
    filter: Option<Filter>,
}

/// Makes a jail ready.
///
/// # Errors
/// A folder is missing, or the system can't do what it could when the worker began. Nothing is to run then.
pub(super) fn prepare(plan: Option<&Plan>) -> io::Result<Prepared> {
    let Some(plan) = plan else {
        return Ok(Prepared { temp: None, others: 0, walls: None, resolve_by_tcp: false });
    };
    let owner = plan.walls.as_ref().and_then(|it| it.identity.user);
    let temp = temp::Folder::make(&plan.temp, owner)?;
    let walls = plan.walls.as_ref().map(|it| ready(it, Some(temp.path()))).transpose()?;
    let resolve_by_tcp = plan.walls.as_ref().is_some_and(|it| matches!(it.network, Network::Connect(_)));
    Ok(Prepared { temp: Some(temp), others: plan.others, walls, resolve_by_tcp })
}

fn ready(walls: &Walls, temp: Option<&Path>) -> io::Result<Ready> {
    let rules = walls.landlock.then(|| files::rules(walls, temp)).transpose()?;
    let filter = walls.calls.then(|| Filter::compile(&walls.network, walls.owner())).transpose()?;
    Ok(Ready { identity: walls.identity, rules, filter })
}

impl Prepared {
    /// What the process gets into its environment.
    pub(super) fn environment(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let temp = self.temp.as_ref().map(|folder| ("TMPDIR", folder.path()));
        temp.into_iter().chain(self.resolve_by_tcp.then_some(("RES_OPTIONS", Path::new("use-vc"))))
    }

    /// The user that the process will have, if it is not the supervisor's.
    pub(super) fn user(&self) -> Option<User> {
        self.walls.as_ref().and_then(|it| it.identity.user)
    }

    /// Removes what a child of a fork server left there, in the folder of this name.
    pub(super) fn end_fork(&self, name: &str) {
        if let Some(folder) = self.temp.as_ref().filter(|_| !name.is_empty()) {
            temp::empty(&folder.path().join(name));
        }
    }

    /// How many processes of the user do not count.
    pub(super) fn others(&self) -> u64 {
        self.others
    }

    /// What the child does, once.
    pub(super) fn take(&mut self) -> Option<Ready> {
        self.walls.take()
    }
}

impl Ready {
    /// Puts up the walls around the calling process, for good. Only system calls: no allocation, no lock.
    ///
    /// # Errors
    /// One of them could not be put up. Nothing may run then.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        self.identity.enter()?;
        if let Some(rules) = self.rules.take() {
            files::enter(rules)?;
        }
        self.filter.as_ref().map_or(Ok(()), Filter::enter)
    }
}
