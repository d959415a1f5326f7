//! The seccomp filter, which restricts a jailed process's system calls. It covers what Landlock does not see.
//!
//! It is an allowlist for each kind of process. All other calls fail as if they did not exist. A refused call
//! returns an error that programs can handle: `ENOSYS` where they have an alternative (io_uring, clone3),
//! `EOPNOTSUPP` as on a file system without extended attributes, `EACCES` for the network, and otherwise `EPERM`.
//! A system call of a foreign architecture kills the process.
//!
//! - `profile`: the kinds of process
//! - `allowed`: the calls by purpose, some of them only for some processes; `conditions`: arguments that are refused in
//!   allowed calls
//! - `refused`: calls that no process may make, with the error and the reason
//!
//! Each number in [`numbers`](super::numbers) is in exactly one group. Any other number belongs to a newer kernel
//! or to no call.

use std::io;

use seccompiler::{BpfProgram, apply_filter};

mod allowed;
mod conditions;
mod profile;
mod refused;

use profile::Profile;
use profile::errno::ENOSYS;

pub(super) use profile::{FileOwner, Makes};

use super::program::Rules;
use crate::jail::requirement::Network;

/// A compiled filter, ready for installation.
pub(super) struct Filter(BpfProgram);

impl Filter {
    /// Compiles the filter for a process. `counted`: whether the kernel, rather than a meter, counts all its
    /// memory.
    pub(super) fn compile(network: &Network, owner: FileOwner, makes: Makes, counted: bool) -> io::Result<Self> {
        Self::from_rules(&rules(&Profile { network, owner, makes, counted }))
    }

    /// Compiles the filter for a fork server, which creates mounts and namespaces for its children. A meter
    /// measures their memory.
    pub(super) fn for_fork_server(network: &Network) -> io::Result<Self> {
        Self::from_rules(&rules(&fork_server(network)))
    }

    /// Compiles the filter that each child of a fork server adds to the inherited one when it has its namespaces.
    /// It refuses what the fork server may do but the child may not. The kernel enforces both filters.
    pub(super) fn for_fork() -> io::Result<Self> {
        Self::from_rules(&addition())
    }

    /// Returns the program as the kernel reads it (`struct sock_filter[]`), in hexadecimal.
    pub(super) fn hexadecimal(&self) -> String {
        let bytes = self.0.iter().flat_map(|it| {
            let [low, high] = it.code.to_ne_bytes();
            [low, high, it.jt, it.jf].into_iter().chain(it.k.to_ne_bytes())
        });
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }

    fn from_rules(rules: &Rules) -> io::Result<Self> {
        rules.compile().map(Self).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Installs the filter irrevocably. Only makes system calls.
    pub(super) fn enter(&self) -> io::Result<()> {
        apply_filter(&self.0).map_err(|error| match error {
            seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
            _ => io::Error::from(io::ErrorKind::PermissionDenied),
        })
    }
}

const fn fork_server(network: &Network) -> Profile<'_> {
    Profile { network, owner: FileOwner::Itself, makes: Makes::Namespaces, counted: false }
}

/// Returns the rules that a child adds to its fork server's rules. The network is the same for both.
fn addition() -> Rules {
    let server = fork_server(&Network::None);
    rules(&Profile { makes: Makes::Nothing, ..server }).beyond(&rules(&server))
}

/// Returns the rules of a profile.
fn rules(profile: &Profile<'_>) -> Rules {
    let mut rules = Rules::refusing(ENOSYS);
    for group in allowed::ALWAYS {
        rules.allow(group.calls);
    }
    for granted in allowed::BY_PROFILE {
        match (granted.to)(profile) {
            true => rules.allow(granted.group.calls),
            false => rules.refuse(granted.otherwise, granted.group.calls),
        }
    }
    for (errno, group) in refused::NEVER {
        rules.refuse(*errno, group.calls);
    }
    conditions::add(&mut rules, profile);
    rules
}

#[cfg(test)]
mod tests;
