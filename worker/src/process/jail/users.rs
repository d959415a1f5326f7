//! Which user a run gets, where the worker is root.

use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::identity::{NoUser, User};

/// The setting: who skills are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkillUsers {
    /// All are this user.
    One(User),
    /// Each run has a user of its own where files of the allowed root can be shown as that user's; else all are
    /// [`SHARED`].
    Own,
}

/// The user of skills that share one.
pub(super) const SHARED: User = User { uid: 65534, gid: 65534 };

/// Users of their own: a range that no distribution gives to accounts, containers or services.
const FIRST: u32 = 1_900_000_000;
const COUNT: u32 = 65_536;

impl FromStr for SkillUsers {
    type Err = NoUser;

    fn from_str(text: &str) -> Result<Self, NoUser> {
        if text == "own" { Ok(Self::Own) } else { text.parse().map(Self::One) }
    }
}

/// Gives users to runs.
#[derive(Debug)]
pub(super) struct Users {
    setting: SkillUsers,
    next: AtomicU32,
}

impl Users {
    /// Two workers of one machine begin at different numbers.
    pub(super) fn new(setting: SkillUsers) -> Self {
        Self { setting, next: AtomicU32::new(std::process::id().wrapping_mul(97)) }
    }

    /// The user that skills have who get none of their own.
    pub(super) fn shared(&self) -> User {
        match self.setting {
            SkillUsers::One(user) => user,
            SkillUsers::Own => SHARED,
        }
    }

    /// Whether each run gets one of its own. `maps`: the allowed root can be shown as belonging to it.
    pub(super) fn are_own(&self, maps: bool) -> bool {
        maps && self.setting == SkillUsers::Own
    }

    /// The user of the next run. It is used again after 65,536 others: nothing of a run outlives its namespaces but files
    /// of the allowed root, and those belong to the owner of the root.
    pub(super) fn next(&self, maps: bool) -> User {
        if !self.are_own(maps) {
            return self.shared();
        }
        let number = FIRST + self.next.fetch_add(1, Ordering::Relaxed) % COUNT;
        User { uid: number, gid: number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_a_user_of_its_own_where_files_can_be_mapped() {
        let users = Users::new("own".parse().unwrap());
        assert_ne!(users.next(true), users.next(true));
        assert!((FIRST..FIRST + COUNT).contains(&users.next(true).uid));
        assert_eq!(users.next(false), SHARED);
        let one = Users::new("1000:100".parse().unwrap());
        assert_eq!(one.next(true), User { uid: 1000, gid: 100 });
        assert!("0".parse::<SkillUsers>().is_err());
    }
}
