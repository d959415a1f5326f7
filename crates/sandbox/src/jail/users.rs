//! Assigns a user to each run if the worker is root.

use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::identity::{NoUser, User};

/// The setting that selects the users of skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkillUsers {
    /// All skills run as this user.
    One(User),
    /// Each run has its own user, if the allowed root's files can appear to belong to it. Otherwise all skills run
    /// as [`SHARED`].
    Own,
}

/// The user that skills without their own user share.
pub(super) const SHARED: User = User { uid: 65534, gid: 65534 };

/// The first of the users for single runs. No distribution assigns this range to accounts, containers or services.
const FIRST: u32 = 1_900_000_000;
const COUNT: u32 = 65_536;

impl FromStr for SkillUsers {
    type Err = NoUser;

    fn from_str(text: &str) -> Result<Self, NoUser> {
        if text == "own" { Ok(Self::Own) } else { text.parse().map(Self::One) }
    }
}

/// Assigns users to runs.
#[derive(Debug)]
pub(super) struct Users {
    setting: SkillUsers,
    next: AtomicU32,
}

impl Users {
    /// Creates an assigner. Its first number differs between the workers on a machine.
    pub(super) fn new(setting: SkillUsers) -> Self {
        Self { setting, next: AtomicU32::new(std::process::id().wrapping_mul(97)) }
    }

    /// Returns the user of skills that do not get their own.
    pub(super) fn shared_user(&self) -> User {
        match self.setting {
            SkillUsers::One(user) => user,
            SkillUsers::Own => SHARED,
        }
    }

    /// Returns whether each run gets its own user. `maps`: whether the allowed root can appear to belong to it.
    pub(super) fn are_own(&self, maps: bool) -> bool {
        maps && self.setting == SkillUsers::Own
    }

    /// Returns the next run's user. A user is reused after 65,536 other runs. A run leaves nothing outside its
    /// namespaces except files in the allowed root, which belong to the root's owner.
    pub(super) fn next(&self, maps: bool) -> User {
        if !self.are_own(maps) {
            return self.shared_user();
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
