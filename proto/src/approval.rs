//! Whether calls of a skill need a user's approval.

use crate::v1::{Approval, Skill};

impl Skill {
    /// Whether an agent asks its user before each call. A worker that does not say asks for skills that are destructive.
    pub fn asks(&self) -> bool {
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
            Skill { approval: approval.into(), destructive, ..Skill::default() }.asks()
        };
        assert!(asks(Approval::Unspecified, true) && !asks(Approval::Unspecified, false));
        assert!(asks(Approval::Ask, false) && !asks(Approval::Never, true));
    }
}
