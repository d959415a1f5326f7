//! A jail on the supervisor's side: set up before the fork, entered by the child.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use landlock::RulesetCreated;

use super::calls::Filter;
use super::identity::{Identity, User};
use super::plan::{Plan, Walls};
use super::{files, temp};
use crate::manifest::Network;

/// A jail that is set up as far as that is possible before the fork. Dropping it removes the temporary directory.
pub(in crate::process) struct Prepared {
    temp: Option<temp::Folder>,
    others: u64,
    walls: Option<Ready>,
    resolve_by_tcp: bool,
}

/// What the child does to enter it.
pub(in crate::process) struct Ready {
    identity: Identity,
    rules: Option<RulesetCreated>,
    filter: Option<Filter>,
}

/// Sets up a jail. `root`: the allowed root, if the plan says that it comes.
///
/// # Errors
/// A folder is missing, or the system can no longer do what it could when the worker started. Nothing may run then.
pub(in crate::process) fn prepare(plan: Option<&Plan>, root: Option<OwnedFd>) -> io::Result<Prepared> {
    if plan.is_some_and(Plan::takes_root) != root.is_some() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let root = root.as_ref().map(OwnedFd::as_fd);
    let Some(plan) = plan else {
        return Ok(Prepared { temp: None, others: 0, walls: None, resolve_by_tcp: false });
    };
    let owner = plan.walls.as_ref().and_then(|it| it.identity.user);
    let temp = temp::Folder::make(&plan.temp, owner)?;
    let walls = plan.walls.as_ref().map(|it| ready(it, root, Some(temp.path()))).transpose()?;
    let resolve_by_tcp = plan.walls.as_ref().is_some_and(|it| matches!(it.network, Network::Connect(_)));
    Ok(Prepared { temp: Some(temp), others: plan.others, walls, resolve_by_tcp })
}

fn ready(walls: &Walls, root: Option<BorrowedFd<'_>>, temp: Option<&Path>) -> io::Result<Ready> {
    let rules = walls.landlock.then(|| files::rules(walls, root, temp)).transpose()?;
    let filter = walls.calls.then(|| Filter::compile(&walls.network, walls.owner())).transpose()?;
    Ok(Ready { identity: walls.identity, rules, filter })
}

impl Prepared {
    /// What the jail adds to the environment of the process.
    pub(in crate::process) fn environment(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let temp = self.temp.as_ref().map(|folder| ("TMPDIR", folder.path()));
        temp.into_iter().chain(self.resolve_by_tcp.then_some(("RES_OPTIONS", Path::new("use-vc"))))
    }

    /// The user that the process will have, if it is not the supervisor's.
    pub(in crate::process) fn user(&self) -> Option<User> {
        self.walls.as_ref().and_then(|it| it.identity.user)
    }

    /// Removes the temporary directory of one child of a fork server.
    pub(in crate::process) fn end_fork(&self, name: &str) {
        if let Some(folder) = self.temp.as_ref().filter(|_| !name.is_empty()) {
            temp::empty(&folder.path().join(name));
        }
    }

    /// How many processes of the user do not count towards the limit.
    pub(in crate::process) fn others(&self) -> u64 {
        self.others
    }

    /// What the child does, once.
    pub(in crate::process) fn take(&mut self) -> Option<Ready> {
        self.walls.take()
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
