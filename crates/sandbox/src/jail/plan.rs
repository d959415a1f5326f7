//! Describes what a jail allows. The worker decides this and sends it to the supervisor.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::calls::{FileOwner, Makes};
use super::identity::Identity;
use crate::bounds::{Controller, ForkServerBounds, TreeBounds};
use crate::jail::requirement::Network;

/// The jail of a process. The worker creates the plan, and the supervisor executes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The folder in which the private temporary folder is created, for a process without its own root.
    pub(super) temp: PathBuf,
    /// The maximum size of a temporary folder in memory, in bytes.
    pub(crate) temp_bytes: u64,
    /// Counts the whole process tree and enforces its limits.
    pub(crate) controller: Controller,
    pub(crate) bounds: TreeBounds,
    /// The number of the user's other processes, which do not count against the limit on processes.
    pub(super) others: u64,
    /// `None` if the manifest requests no walls.
    pub(crate) walls: Option<Walls>,
}

impl Plan {
    /// Returns the paths that the process may change, besides its temporary folder. Returns `None` if Landlock
    /// does not restrict it.
    pub fn writable(&self) -> Option<impl Iterator<Item = &PathBuf>> {
        self.walls.as_ref().filter(|it| it.landlock).map(|it| it.root.iter().chain(&it.writable))
    }

    /// Adds a folder that the process may read: an absolute path without links.
    pub fn reading(mut self, folder: PathBuf) -> Self {
        if let Some(walls) = &mut self.walls {
            walls.readable.push(folder);
        }
        self
    }

    /// Allows the program to create its own sandbox. It gets a network without other processes, in which it may
    /// use this port of its loopback address. Its root contains these files, which are paths below `/etc` with
    /// their content, in addition to copies of the system's settings.
    ///
    /// # Errors
    /// Returns the reason if the plan has no namespaces or no walls.
    pub fn with_sandbox(mut self, port: u16, settings: Vec<(PathBuf, String)>) -> Result<Self, String> {
        match &mut self.walls {
            Some(walls) if walls.namespaces && walls.network == Network::None && walls.calls => {
                walls.sandbox = Some(Sandbox { port, settings });
                Ok(self)
            }
            Some(walls) if !walls.namespaces => Err("processes can't have their own namespaces here".to_owned()),
            Some(_) => Err("system calls can't be filtered here (seccomp)".to_owned()),
            None => Err("its jail is off".to_owned()),
        }
    }

    /// Returns whether a filter restricts its system calls.
    pub fn filters_calls(&self) -> bool {
        self.walls.as_ref().is_some_and(|it| it.calls)
    }

    /// Returns how many processes of one fork server fit into the memory limit together, at most `most`.
    pub fn fit(&self, most: usize) -> usize {
        ForkServerBounds { one: self.bounds, temp_bytes: self.temp_bytes, most }.fit(self.controller.memory_there())
    }

    /// Returns whether a fork server may run the process. Landlock can't restrict the files of a fork server that
    /// creates namespaces for its children. So this server must not bypass file permissions: it could make a mount
    /// writable and change everything in it.
    pub fn may_fork(&self) -> bool {
        self.walls.as_ref().is_none_or(|it| !(it.namespaces && it.identity.override_files))
    }
}

/// What a process may access.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Walls {
    pub(crate) identity: Identity,
    /// Whether it gets its own namespaces and, in them, its own root.
    pub(crate) namespaces: bool,
    /// Whether Landlock restricts it, which requires that the kernel provides Landlock.
    pub(super) landlock: bool,
    /// Whether the kernel can filter system calls.
    pub(super) calls: bool,
    /// Whether the kernel counts its memory. If not, it can't use memory that a meter does not see.
    pub(super) counted: bool,
    /// The folders and files that it may read and run, in addition to the system's.
    pub(super) readable: Vec<PathBuf>,
    /// The path of its allowed root, which it may change. The folder itself is passed as a descriptor.
    pub(crate) root: Option<PathBuf>,
    /// The root's mode when it was first seen. A skill that owns the root may have removed permissions since.
    pub(crate) root_mode: Option<u32>,
    /// Whether the root belongs to the process's user in its mount namespace. The owner on disk does not change.
    pub(crate) map_root: bool,
    /// Additional folders that it may change.
    pub(super) writable: Vec<PathBuf>,
    /// Additional names of these folders and of paths in its command. They may lead through links.
    pub(super) names: Vec<PathBuf>,
    pub(crate) network: Network,
    pub(crate) sandbox: Option<Sandbox>,
}

/// The settings of a process that creates its own sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sandbox {
    /// The port of its own loopback address that it may use.
    pub(super) port: u16,
    /// Files below `/etc` in its root, with their content.
    pub(super) settings: Vec<(PathBuf, String)>,
}

impl Walls {
    pub(super) fn makes(&self) -> Makes {
        if self.sandbox.is_some() { Makes::Sandbox } else { Makes::Nothing }
    }

    pub(super) fn owner(&self) -> FileOwner {
        match self.identity {
            // Its user owns nothing in the root except what the call may change anyway.
            _ if self.namespaces => FileOwner::Itself,
            Identity { user: None, .. } => FileOwner::Worker,
            Identity { override_files: true, .. } => FileOwner::Overriding,
            Identity { .. } => FileOwner::Itself,
        }
    }
}
