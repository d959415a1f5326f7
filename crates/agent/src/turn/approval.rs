//! Decides whether a call needs the user's approval. The model has no influence on this. Does no I/O.

use openskill_proto::v1::{Approval, Skill};

use crate::entry::Mode;

/// What a call requires before it may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// The call may run right away.
    Nothing,
    /// The call requires the user's approval, for this reason.
    Approval(&'static str),
    /// The call can't run in the current mode.
    OtherMode,
}

/// The inputs of the decision, apart from the skill.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ApprovalContext {
    pub(crate) mode: Mode,
    /// Whether the model has read untrusted text, which may contain instructions.
    pub(crate) is_tainted: bool,
    /// Whether the user allowed this revision of the skill for the conversation.
    pub(crate) is_granted: bool,
}

/// Returns what a call of this skill requires.
pub(crate) fn need(skill: &Skill, context: ApprovalContext) -> Need {
    if context.mode == Mode::ReadOnly {
        return if skill.read_only { Need::Nothing } else { Need::OtherMode };
    }
    // A skill that is not marked as read-only may write or send.
    if context.is_tainted && !skill.read_only {
        return Need::Approval(
            "the conversation contains text from strangers, and this call may change or send something",
        );
    }
    let asks = match skill.approval() {
        Approval::Never => false,
        Approval::Ask => true,
        Approval::Unspecified => skill.destructive,
    };
    if !asks || context.is_granted || context.mode == Mode::Auto {
        return Need::Nothing;
    }
    Need::Approval(if skill.destructive {
        "the skill may delete or overwrite data"
    } else {
        "the skill asks for approval of each call"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(mode: Mode) -> ApprovalContext {
        ApprovalContext { mode, is_tainted: false, is_granted: false }
    }

    fn destructive() -> Skill {
        Skill { destructive: true, ..Skill::default() }
    }

    #[test]
    fn a_destructive_skill_asks_until_it_is_granted() {
        assert!(matches!(need(&destructive(), context(Mode::Ask)), Need::Approval(_)));
        assert_eq!(need(&destructive(), ApprovalContext { is_granted: true, ..context(Mode::Ask) }), Need::Nothing);
        assert_eq!(need(&destructive(), context(Mode::Auto)), Need::Nothing);
        assert_eq!(need(&Skill::default(), context(Mode::Ask)), Need::Nothing);
    }

    #[test]
    fn taint_asks_in_every_mode_and_whatever_was_granted() {
        let never = Skill { approval: Approval::Never.into(), ..Skill::default() };
        for mode in [Mode::Ask, Mode::Auto] {
            let tainted = ApprovalContext { is_tainted: true, is_granted: true, mode };
            assert!(matches!(need(&destructive(), tainted), Need::Approval(_)));
            assert!(matches!(need(&never, tainted), Need::Approval(_)));
            let read_only = Skill { read_only: true, ..Skill::default() };
            assert_eq!(need(&read_only, tainted), Need::Nothing);
        }
    }

    #[test]
    fn read_only_mode_runs_what_is_marked_and_nothing_else() {
        let read_only = Skill { read_only: true, ..Skill::default() };
        assert_eq!(need(&read_only, context(Mode::ReadOnly)), Need::Nothing);
        assert_eq!(need(&Skill::default(), context(Mode::ReadOnly)), Need::OtherMode);
    }
}
