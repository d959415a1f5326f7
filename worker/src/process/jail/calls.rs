//! Which system calls a jailed process may make: a filter (seccomp) for what Landlock does not see.
//!
//! It is a list of what is allowed, one for each kind of process: a call that is not named does not exist. A refusal is an error
//! number that programs know how to take: `ENOSYS` where they have another way (io_uring, clone3), `EOPNOTSUPP` as of a file
//! system without extended attributes, `EACCES` for the network, else `EPERM`. A foreign architecture's calls kill the process.
//!
//! - `profile`: the kinds of process
//! - `allowed`: the calls by what they are for, some of them for some processes; `conditions`: not with these arguments
//! - `refused`: what calls that no process may make are answered with, and why
//!
//! Each number of [`numbers`](super::numbers) is in one group. A number that is in none is a call of a newer kernel, or none.

use std::io;

use seccompiler::{BpfProgram, apply_filter};

mod allowed;
mod conditions;
mod profile;
mod refused;

use profile::Profile;
use profile::errno::ENOSYS;

pub(super) use profile::{Makes, Owner};

use super::program::Rules;
use crate::manifest::Network;

/// The filter, compiled.
pub(super) struct Filter(BpfProgram);

impl Filter {
    /// Compiles the filter for such a process. `counted`: by the kernel, in all its memory; else by looking.
    pub(super) fn compile(network: &Network, owner: Owner, makes: Makes, counted: bool) -> io::Result<Self> {
        Self::of(&rules(&Profile { network, owner, makes, counted }))
    }

    /// The filter of a fork server, which makes mounts and namespaces for its children. Their memory is measured
    /// by looking.
    pub(super) fn of_fork_server(network: &Network) -> io::Result<Self> {
        Self::of(&rules(&fork_server(network)))
    }

    /// What each child of a fork server adds to the filter it was born with, once it has its namespaces: what its own list
    /// lacks of that of the fork server. The kernel holds it to both.
    pub(super) fn of_fork() -> io::Result<Self> {
        Self::of(&addition())
    }

    /// The program, as the kernel reads it (`struct sock_filter[]`).
    pub(super) fn hexadecimal(&self) -> String {
        let bytes = self.0.iter().flat_map(|it| {
            let [low, high] = it.code.to_ne_bytes();
            [low, high, it.jt, it.jf].into_iter().chain(it.k.to_ne_bytes())
        });
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }

    fn of(rules: &Rules) -> io::Result<Self> {
        rules.compile().map(Self).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Puts it in place, for good. Only system calls.
    pub(super) fn enter(&self) -> io::Result<()> {
        apply_filter(&self.0).map_err(|error| match error {
            seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
            _ => io::Error::from(io::ErrorKind::PermissionDenied),
        })
    }
}

const fn fork_server(network: &Network) -> Profile<'_> {
    Profile { network, owner: Owner::Itself, makes: Makes::Namespaces, counted: false }
}

/// What the list of a call lacks of that of its fork server. The network makes no difference between the two.
fn addition() -> Rules {
    let server = fork_server(&Network::None);
    rules(&Profile { makes: Makes::Nothing, ..server }).beyond(&rules(&server))
}

/// The list of a profile.
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
