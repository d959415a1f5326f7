//! Who a jailed process is: a user of its own where the worker is root, and no capability.

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use serde::{Deserialize, Serialize};

/// A user and its group, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The user's id; never 0 and never 2^32-1, which has a meaning of its own.
    pub uid: u32,
    /// The group's id; the same holds.
    pub gid: u32,
}

/// A text that names no user, or root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not UID or UID:GID, numbers other than 0")]
pub struct NoUser;

/// A number that setresuid(2) reads as "leave it".
const LEAVE: u32 = u32::MAX;

impl std::str::FromStr for User {
    type Err = NoUser;

    fn from_str(text: &str) -> Result<Self, NoUser> {
        let number = |part: &str| part.parse().ok().filter(|it| ![0, LEAVE].contains(it)).ok_or(NoUser);
        let (uid, gid) = text.split_once(':').unwrap_or((text, text));
        Ok(Self { uid: number(uid)?, gid: number(gid)? })
    }
}

/// The user a process becomes, and the one capability it may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// None: it stays who it is.
    pub(crate) user: Option<User>,
    /// It passes file permissions (CAP_DAC_OVERRIDE), as the worker does: only for one that Landlock bounds.
    pub(crate) override_files: bool,
    /// It makes namespaces for its children (CAP_SYS_ADMIN of its own user namespace): a fork server, whose children give it
    /// up before their script runs. Never together with the other one: see `Plan::may_fork`.
    pub(crate) divides: bool,
}

impl Identity {
    /// Becomes that user, for good. Only system calls. The process has one thread.
    pub(super) fn enter(&self) -> io::Result<()> {
        let mut kept = CapabilitySet::empty();
        kept.set(CapabilitySet::DAC_OVERRIDE, self.override_files);
        kept.set(CapabilitySet::SYS_ADMIN, self.divides);
        // First, as it takes a capability itself. Without that one there is nothing to lose: the set is no gain under
        // no_new_privs.
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
        if !kept.is_empty() {
            // The programs it starts have it too.
            for capability in kept.iter() {
                configure_capability_in_ambient_set(capability, true)?;
            }
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
