//! Sets a jailed process's user: a separate one if the worker is root, without capabilities.

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use serde::{Deserialize, Serialize};

/// The numeric ids of a user and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The user id. Never 0, and never 2^32-1, which has a special meaning.
    pub uid: u32,
    /// The group id, with the same restrictions.
    pub gid: u32,
}

/// The text does not name a user, or it names root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a nonzero numeric UID or UID:GID")]
pub struct NoUser;

/// setresuid(2) interprets this number as "do not change".
const LEAVE: u32 = u32::MAX;

impl std::str::FromStr for User {
    type Err = NoUser;

    fn from_str(text: &str) -> Result<Self, NoUser> {
        let number = |part: &str| part.parse().ok().filter(|it| ![0, LEAVE].contains(it)).ok_or(NoUser);
        let (uid, gid) = text.split_once(':').unwrap_or((text, text));
        Ok(Self { uid: number(uid)?, gid: number(gid)? })
    }
}

/// The user that a process changes to, and the only capability that it may keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// `None` if the user does not change.
    pub(crate) user: Option<User>,
    /// Whether the process bypasses file permissions (CAP_DAC_OVERRIDE), like the worker. Only for a process that
    /// Landlock restricts.
    pub(crate) override_files: bool,
    /// Whether the process creates namespaces for its children (CAP_SYS_ADMIN in its user namespace). Only for a
    /// fork server, whose children drop the capability before their script runs. Never together with
    /// `override_files`; see `Plan::may_fork`.
    pub(crate) divides: bool,
}

impl Identity {
    /// Changes to that user irrevocably. Only makes system calls. The process must have one thread.
    pub(super) fn enter(&self) -> io::Result<()> {
        let mut kept = CapabilitySet::empty();
        kept.set(CapabilitySet::DAC_OVERRIDE, self.override_files);
        kept.set(CapabilitySet::SYS_ADMIN, self.divides);
        // Do this first, because it requires a capability. Without that capability, nothing needs to be dropped,
        // because the bounding set grants nothing under no_new_privs.
        for number in 0..CapabilitySet::all().bits().count_ones() {
            let capability = CapabilitySet::from_bits_retain(1 << number);
            if !kept.contains(capability) && remove_capability_from_bounding_set(capability).is_err() {
                break;
            }
        }
        let _ = clear_ambient_capability_set();
        if let Some(User { uid, gid }) = self.user {
            if !kept.is_empty() {
                set_keep_capabilities(true)?;
            }
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            set_thread_groups(&[])?;
            set_thread_res_gid(gid, gid, gid)?;
            set_thread_res_uid(uid, uid, uid)?;
        }
        set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: kept })?;
        // The programs that the process starts also inherit it.
        for capability in kept.iter() {
            configure_capability_in_ambient_set(capability, true)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_a_number_or_two_and_never_root() {
        assert_eq!("65534".parse(), Ok(User { uid: 65534, gid: 65534 }));
        assert_eq!("1000:100".parse(), Ok(User { uid: 1000, gid: 100 }));
        for bad in ["", "0", "0:1", "1:0", "nobody", "1:2:3", "-1", "4294967295", "1:"] {
            assert!(bad.parse::<User>().is_err(), "{bad}");
        }
    }
}
