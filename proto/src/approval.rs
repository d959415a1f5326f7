//! Whether skill calls need a user's approval.

use crate::v1::{Approval, Skill};

impl Skill {
    /// Whether an agent needs its user's approval before each call. If the worker does not say, only destructive
    /// skills need it.
    pub fn needs_approval(&self) -> bool {
        match self.approval() {
            Approval::Ask => true,
            Approval::Never => false,
            Approval::Unspecified => self.destructive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_does_not_say_follows_from_the_harm_it_may_do() {
        let asks = |approval: Approval, destructive| {
            Skill { approval: approval.into(), destructive, ..Skill::default() }.needs_approval()
        };
        assert!(asks(Approval::Unspecified, true) && !asks(Approval::Unspecified, false));
        assert!(asks(Approval::Ask, false) && !asks(Approval::Never, true));
    }
}
