//! The groups of system calls in `groups.json`.

use std::collections::BTreeMap;
use std::io;

use serde::Deserialize;

use super::profile::{FileOwner, Makes, Profile, Refusal};
use crate::jail::program::{ABSENT, OWN_ARCHITECTURE};
use crate::jail::requirement::Network;

/// System calls that a process may make or not, together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group<'a> {
    /// What the calls do, and why they are allowed or refused.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and for the test that every group has one"))]
    pub(super) reason: &'a str,
    /// The processes that may make the calls. See [`Group::admits`].
    to: &'a str,
    /// How the calls fail in all other processes.
    #[serde(default)]
    pub(super) otherwise: Refusal,
    /// The calls with their numbers on x86_64 and aarch64. From 424 on, the numbers are the same on all architectures.
    #[serde(borrow)]
    pub(super) calls: BTreeMap<&'a str, [i64; 2]>,
}

/// Reads all groups.
///
/// # Errors
/// Fails if the file is not valid.
pub(super) fn read() -> io::Result<Vec<Group<'static>>> {
    Ok(serde_json::from_str(include_str!("groups.json"))?)
}

impl<'a> Group<'a> {
    /// Returns the calls with their numbers on this architecture.
    pub(super) fn numbers(&self) -> impl Iterator<Item = (&'a str, i64)> {
        self.calls.iter().map(|(name, all)| (*name, OWN_ARCHITECTURE.map_or(ABSENT, |(place, _)| all[place])))
    }

    /// Returns whether a process may make the calls.
    ///
    /// # Errors
    /// Fails if the group is for processes that do not exist.
    pub(super) fn admits(&self, it: &Profile<'_>) -> io::Result<bool> {
        Ok(match self.to {
            "everyone" => true,
            "nobody" => false,
            // A browser has its own network, which it shares with no other process.
            "network" => *it.network != Network::None || it.makes == Makes::Sandbox,
            "full network" => *it.network == Network::Full || it.makes == Makes::Sandbox,
            "no list of ports" => !matches!(it.network, Network::Connect(_)),
            "other user than the worker" => it.owner != FileOwner::Worker,
            "own files only" => it.owner == FileOwner::Itself,
            "held to permissions" => it.owner != FileOwner::Overriding,
            "counted memory" => it.counted,
            "fork server" => it.makes == Makes::Namespaces,
            "fork server or sandbox" => it.makes != Makes::Nothing,
            "sandbox" => it.makes == Makes::Sandbox,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        })
    }
}
