//! The seccomp filter, which restricts a jailed process's system calls. It covers what Landlock does not see.
//!
//! It is an allowlist for each kind of process. All other calls fail as if they did not exist. A refused call
//! returns an error that programs can handle: `ENOSYS` where they have an alternative (io_uring, clone3),
//! `EOPNOTSUPP` as on a file system without extended attributes, `EACCES` for the network, and otherwise `EPERM`.
//! A system call of a foreign architecture kills the process.
//!
//! - `profile`: the kinds of process
//! - `groups.json`: all calls of x86_64 and aarch64 up to the newest that was reviewed, in groups by purpose, with the
//!   reason why a group is allowed or refused; `groups`: who may make a group's calls
//! - `conditions`: arguments that are refused in allowed calls
//!
//! Each call is in exactly one group. A number that is in none belongs to a newer kernel or to no call.

use std::collections::HashMap;
use std::io;

use seccompiler::{BpfProgram, apply_filter};

mod conditions;
mod groups;
mod profile;

use profile::{Profile, Refusal};

pub(super) use profile::{FileOwner, Makes};

use super::program::Rules;
use crate::jail::requirement::Network;

/// A compiled filter, ready for installation.
pub(super) struct Filter(BpfProgram);

impl Filter {
    /// Compiles the filter for a process. `counted`: whether the kernel, rather than a meter, counts all its
    /// memory.
    pub(super) fn compile(network: &Network, owner: FileOwner, makes: Makes, counted: bool) -> io::Result<Self> {
        Self::from_rules(&rules(&Profile { network, owner, makes, counted })?)
    }

    /// Compiles the filter for a fork server, which creates mounts and namespaces for its children. A meter
    /// measures their memory.
    pub(super) fn for_fork_server(network: &Network) -> io::Result<Self> {
        Self::from_rules(&rules(&fork_server(network))?)
    }

    /// Compiles the filter that each child of a fork server adds to the inherited one when it has its namespaces.
    /// It refuses what the fork server may do but the child may not. The kernel enforces both filters.
    pub(super) fn for_fork() -> io::Result<Self> {
        Self::from_rules(&addition()?)
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
fn addition() -> io::Result<Rules> {
    let server = fork_server(&Network::None);
    Ok(rules(&Profile { makes: Makes::Nothing, ..server })?.beyond(&rules(&server)?))
}

/// Returns the rules of a profile.
///
/// # Errors
/// Fails if the groups are not valid, or lack a call that has a condition. Then nothing may run.
fn rules(profile: &Profile<'_>) -> io::Result<Rules> {
    let groups = groups::read()?;
    let mut rules = Rules::refusing(Refusal::Enosys as u32);
    let mut numbers = HashMap::new();
    for group in &groups {
        let calls: Vec<i64> = group.numbers().map(|(_, number)| number).collect();
        match group.admits(profile)? {
            true => rules.allow(&calls),
            false => rules.refuse(group.otherwise as u32, &calls),
        }
        numbers.extend(group.numbers());
    }
    let mut is_complete = true;
    conditions::add(profile, &mut |refusal, call, tests| match numbers.get(call) {
        Some(number) => rules.refuse_if(refusal as u32, *number, tests),
        None => is_complete = false,
    });
    if is_complete { Ok(rules) } else { Err(io::ErrorKind::InvalidData.into()) }
}

#[cfg(test)]
mod tests;
