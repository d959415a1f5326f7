//! Whether a call needs the user's approval. Decided here and never by the model. Pure.

use openskill_proto::v1::{Approval, Skill};

use crate::entry::Mode;

/// What a call needs before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing.
    Nothing,
    /// The user's approval, for this reason.
    Approval(&'static str),
    /// It can't run in this mode.
    OtherMode,
}

/// What the conversation allows so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// The mode of the turn.
    pub(crate) mode: Mode,
    /// The model read text of strangers, which may have told it what to do.
    pub(crate) is_tainted: bool,
    /// The user allowed the skill in this version for the conversation.
    pub(crate) is_granted: bool,
}

/// What a call of this skill needs.
pub(crate) fn need(skill: &Skill, standing: Standing) -> Need {
    if standing.mode == Mode::ReadOnly {
        return if skill.read_only { Need::Nothing } else { Need::OtherMode };
    }
    // A skill that isn't marked may write or send.
    if standing.is_tainted && !skill.read_only {
        return Need::Approval("the conversation holds text of strangers, and this call may change or send something");
    }
    let asks = match skill.approval() {
        Approval::Never => false,
        Approval::Ask => true,
        Approval::Unspecified => skill.destructive,
    };
    if !asks || standing.is_granted || standing.mode == Mode::Auto {
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

    fn standing(mode: Mode) -> Standing {
        Standing { mode, is_tainted: false, is_granted: false }
    }

    fn destructive() -> Skill {
        Skill { destructive: true, ..Skill::default() }
    }

    #[test]
    fn a_destructive_skill_asks_until_it_is_granted() {
        assert!(matches!(need(&destructive(), standing(Mode::Ask)), Need::Approval(_)));
        assert_eq!(need(&destructive(), Standing { is_granted: true, ..standing(Mode::Ask) }), Need::Nothing);
        assert_eq!(need(&destructive(), standing(Mode::Auto)), Need::Nothing);
        assert_eq!(need(&Skill::default(), standing(Mode::Ask)), Need::Nothing);
    }

    #[test]
    fn taint_asks_in_every_mode_and_whatever_was_granted() {
        let never = Skill { approval: Approval::Never.into(), ..Skill::default() };
        for mode in [Mode::Ask, Mode::Auto] {
            let tainted = Standing { is_tainted: true, is_granted: true, mode };
            assert!(matches!(need(&destructive(), tainted), Need::Approval(_)));
            assert!(matches!(need(&never, tainted), Need::Approval(_)));
            let read_only = Skill { read_only: true, ..Skill::default() };
            assert_eq!(need(&read_only, tainted), Need::Nothing);
        }
    }

    #[test]
    fn read_only_mode_runs_what_is_marked_and_nothing_else() {
        let read_only = Skill { read_only: true, ..Skill::default() };
        assert_eq!(need(&read_only, standing(Mode::ReadOnly)), Need::Nothing);
        assert_eq!(need(&Skill::default(), standing(Mode::ReadOnly)), Need::OtherMode);
    }
}
