//! Rules for repairing arguments that do not match a skill's schema.

use std::collections::BTreeMap;

use openskill_proto::v1::{ArgumentPolicy, ArgumentRules};

/// Whether arguments may be repaired. Ordered from lenient to strict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Makes the repairs that [`Kind`](super::Kind) lists.
    #[default]
    Repair,
    /// Changes and adds nothing, and rejects every deviation.
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

/// The repair rules of one skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The most lenient policy that a call to this skill may use.
    pub policy: Policy,
    /// Alternative names that models use for parameters, each with the parameter that it stands for.
    pub aliases: BTreeMap<String, String>,
    /// Whether keys that the schema does not declare, and empty objects that it does not allow, may be dropped.
    pub drop_unknown: bool,
    /// Whether a missing parameter may be filled with its declared default.
    pub fill_defaults: bool,
    /// Whether `fill_defaults` includes optional parameters. Not for tools of MCP servers, which know their own
    /// defaults.
    pub fill_optional: bool,
}

impl From<ArgumentRules> for Rules {
    fn from(sent: ArgumentRules) -> Self {
        Self {
            policy: sent.policy().into(),
            aliases: sent.aliases.into_iter().collect(),
            drop_unknown: sent.drop_unknown,
            fill_defaults: sent.fill_defaults,
            fill_optional: true,
        }
    }
}

impl Default for Rules {
    /// The rules of a skill that is not destructive and declares no aliases.
    fn default() -> Self {
        let aliases = BTreeMap::new();
        Self { policy: Policy::Repair, aliases, drop_unknown: true, fill_defaults: true, fill_optional: true }
    }
}
