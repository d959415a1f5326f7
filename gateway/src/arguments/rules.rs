//! What may be done to arguments that do not match a skill's schema.

use std::collections::BTreeMap;

use openskill_proto::v1::ArgumentPolicy;

/// Whether arguments may be repaired. Ordered: the greater policy is the stricter one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Make the repairs listed by [`Kind`](super::Kind).
    #[default]
    Repair,
    /// Change nothing: reject every deviation.
    Strict,
}

impl From<ArgumentPolicy> for Policy {
    fn from(policy: ArgumentPolicy) -> Self {
        match policy {
            ArgumentPolicy::Strict => Self::Strict,
            ArgumentPolicy::Repair | ArgumentPolicy::Unspecified => Self::Repair,
        }
    }
}

/// The rules of one skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The least strict policy that a call to this skill may use.
    pub policy: Policy,
    /// Other names that models use for parameters: alias to parameter.
    pub aliases: BTreeMap<String, String>,
    /// Whether keys that the schema does not declare, and empty objects that it does not allow, may be dropped.
    pub drop_unknown: bool,
    /// Whether a missing required parameter may be filled with its declared default.
    pub fill_defaults: bool,
}

impl Default for Rules {
    /// The rules of a skill that is not destructive and declares no aliases.
    fn default() -> Self {
        Self { policy: Policy::Repair, aliases: BTreeMap::new(), drop_unknown: true, fill_defaults: true }
    }
}
