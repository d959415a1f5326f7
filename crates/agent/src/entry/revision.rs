//! The revision of a skill to which a decision applies.

use openskill_proto::v1::Skill;

/// A skill at the time of a decision about one of its calls. The decision applies only to this revision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SkillRevision {
    /// The skill id.
    pub skill_id: String,
    /// The skill version.
    pub version: String,
    /// The [`Skill::definition_hash`], because a skill can change without a new version. Empty in entries of
    /// earlier releases.
    pub hash: String,
}

impl From<&Skill> for SkillRevision {
    fn from(it: &Skill) -> Self {
        Self { skill_id: it.id.clone(), version: it.version.clone(), hash: it.definition_hash.clone() }
    }
}
