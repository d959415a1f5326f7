//! Which skill somebody decided on.

use openskill_proto::v1::Skill;

/// A skill as it was when somebody decided on a call of it. A decision holds for no other definition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Definition {
    /// The skill.
    pub skill_id: String,
    /// Its version.
    pub version: String,
    /// As [`Skill::definition_hash`]: a skill can change without a new version. Empty in entries of earlier releases.
    pub hash: String,
}

impl From<&Skill> for Definition {
    fn from(it: &Skill) -> Self {
        Self { skill_id: it.id.clone(), version: it.version.clone(), hash: it.definition_hash.clone() }
    }
}
