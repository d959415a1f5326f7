//! What a jail allows: decided by the worker, sent to the supervisor.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::calls::{Makes, Owner};
use super::identity::{Identity, User};
use crate::manifest::Network;
use crate::process::bounds::{Bounds, Controller, Together};

/// The jail of a process: the worker decides it, the supervisor sets it up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The folder beneath which the private folder for temporary files is made, for a process without a root of its own.
    pub(super) temp: PathBuf,
    /// The size of a temporary folder in memory, in bytes.
    pub(super) temp_bytes: u64,
    /// What counts the whole tree, and what the tree may have.
    pub(super) controller: Controller,
    pub(super) bounds: Bounds,
    /// How many processes the user has besides, which the limit on processes is not about.
    pub(super) others: u64,
    /// None: there are none, as the manifest wishes.
    pub(super) walls: Option<Walls>,
}

impl Plan {
    /// What the process may change besides its own folder; none if nothing keeps it to that.
    pub(crate) fn writable(&self) -> Option<impl Iterator<Item = &PathBuf>> {
        self.walls.as_ref().filter(|it| it.landlock).map(|it| it.root.iter().chain(&it.writable))
    }

    /// The same for a process that also reads this folder: an absolute path without links.
    pub(crate) fn reading(mut self, folder: PathBuf) -> Self {
        if let Some(walls) = &mut self.walls {
            walls.readable.push(folder);
        }
        self
    }

    /// The same for a program that makes a sandbox of its own, and is alone in a network of its own, in which it may use this
    /// port of its loopback address. It finds these files, beside copies of the system's settings: paths below `/etc`, and what
    /// they hold.
    ///
    /// # Errors
    /// There are no namespaces here, or no walls: the reason.
    pub(crate) fn with_sandbox(mut self, port: u16, settings: Vec<(PathBuf, String)>) -> Result<Self, String> {
        match &mut self.walls {
            Some(walls) if walls.namespaces && walls.network == Network::None && walls.calls => {
                walls.sandbox = Some(Sandbox { port, settings });
                Ok(self)
            }
            Some(walls) if !walls.namespaces => Err("processes can't have namespaces of their own here".to_owned()),
            Some(_) => Err("system calls can't be filtered here (seccomp)".to_owned()),
            None => Err("its jail is off".to_owned()),
        }
    }

    /// Whether a filter bounds its system calls.
    pub(crate) fn filters_calls(&self) -> bool {
        self.walls.as_ref().is_some_and(|it| it.calls)
    }

    /// Whether its network is to have a loopback address.
    pub(in crate::process) fn has_loopback(&self) -> bool {
        self.walls.as_ref().is_some_and(|it| it.sandbox.is_some())
    }

    /// Whether the descriptor of the allowed root goes with it.
    pub(in crate::process) fn takes_root(&self) -> bool {
        self.walls.as_ref().is_some_and(|it| it.root.is_some())
    }

    /// What counts the tree, and what it may have.
    pub(in crate::process) fn bounds(&self) -> (&Controller, Bounds) {
        (&self.controller, self.bounds)
    }

    /// The size of its temporary folder, if that is in memory.
    pub(in crate::process) fn temp_bytes(&self) -> u64 {
        self.temp_bytes
    }

    /// How many processes of one fork server, at most `most`, fit into the memory limit together.
    pub(crate) fn fit(&self, most: usize) -> usize {
        Together { one: self.bounds, temp_bytes: self.temp_bytes, most }.fit(&self.controller)
    }

    /// Whether the process gets namespaces of its own; with a network of its own unless the skill may use the worker's.
    pub(in crate::process) fn namespaces(&self) -> Option<OwnNetwork> {
        let walls = self.walls.as_ref().filter(|it| it.namespaces)?;
        Some(OwnNetwork(walls.network == Network::None))
    }

    /// The mode that the allowed root had when it was first seen.
    pub(in crate::process) fn root_mode(&self) -> Option<u32> {
        self.walls.as_ref().and_then(|it| it.root_mode)
    }

    /// The user whom the allowed root is to belong to, where it belongs to another.
    pub(in crate::process) fn mapped_root(&self) -> Option<User> {
        self.walls.as_ref().filter(|it| it.map_root).and_then(|it| it.identity.user)
    }

    /// Whether a fork server may run it. One that gives its children namespaces can't be kept to its files by Landlock, and
    /// so must not pass file permissions: it could make a mount writable and change anything that it shows.
    pub(crate) fn may_fork(&self) -> bool {
        self.walls.as_ref().is_none_or(|it| !(it.namespaces && it.identity.override_files))
    }

    /// The user that the process will have, if it is not the worker's.
    pub(in crate::process) fn user(&self) -> Option<User> {
        self.walls.as_ref().and_then(|it| it.identity.user)
    }
}

/// Whether a network namespace is among the namespaces of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::process) struct OwnNetwork(pub(in crate::process) bool);

/// What a process may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Walls {
    pub(super) identity: Identity,
    /// Whether it gets namespaces of its own, and in them a root of its own.
    pub(super) namespaces: bool,
    /// Whether Landlock is there.
    pub(super) landlock: bool,
    /// Whether system calls can be filtered.
    pub(super) calls: bool,
    /// Whether the kernel counts its memory: what looking does not show is refused otherwise.
    pub(super) counted: bool,
    /// Folders and files to read and to run, besides those of the system.
    pub(super) readable: Vec<PathBuf>,
    /// What the process calls its allowed root, which it may do anything in. The folder itself comes as a descriptor.
    pub(super) root: Option<PathBuf>,
    /// The mode of the root when it was first seen: a skill that owns the root may have closed it to others.
    pub(super) root_mode: Option<u32>,
    /// In its own mount namespace, the root belongs to the process's user; on disk it stays its owner's.
    pub(super) map_root: bool,
    /// Further folders to do anything in.
    pub(super) writable: Vec<PathBuf>,
    /// Further names of these, and of what the process starts with. They may lead through links.
    pub(super) names: Vec<PathBuf>,
    pub(super) network: Network,
    pub(super) sandbox: Option<Sandbox>,
}

/// What a process gets that makes a sandbox of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sandbox {
    /// Of its own loopback address, which it may use.
    pub(super) port: u16,
    /// Files below `/etc` that it finds in its root, and what they hold.
    pub(super) settings: Vec<(PathBuf, String)>,
}

impl Walls {
    pub(super) fn makes(&self) -> Makes {
        if self.sandbox.is_some() { Makes::Sandbox } else { Makes::Nothing }
    }

    pub(super) fn owner(&self) -> Owner {
        match self.identity {
            // Nothing is there that the call may not change anyway.
            _ if self.namespaces => Owner::Itself,
            Identity { user: None, .. } => Owner::Worker,
            Identity { override_files: true, .. } => Owner::Overriding,
            Identity { .. } => Owner::Itself,
        }
    }
}
