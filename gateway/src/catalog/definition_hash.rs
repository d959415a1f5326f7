//! Hashes a skill's definition. Callers approve one definition. Pure.

use std::collections::BTreeMap;

use openskill_proto::trace::hex;
use openskill_proto::v1::Skill;
use prost::Message as _;
use sha2::{Digest as _, Sha256};

/// The length of the truncated hash, in bytes. Long enough to resist collisions.
const LENGTH: usize = 16;

/// Hashes everything that a worker announces about a skill, except whether the skill can run there now. The version
/// is not enough: a manifest without one always has `0.0.0`.
pub(super) fn definition_hash(skill: &Skill) -> String {
    let mut definition = skill.clone();
    (definition.status, definition.workers) = (0, 0);
    definition.status_reason.clear();
    definition.definition_hash.clear();
    definition.versions.clear();
    // On the wire, a map has no defined order.
    let aliases = definition.argument_rules.as_mut().map(|rules| std::mem::take(&mut rules.aliases));
    let aliases: BTreeMap<_, _> = aliases.unwrap_or_default().into_iter().collect();
    let mut hash = Sha256::new_with_prefix(definition.encode_to_vec());
    hash.update(format!("{aliases:?}"));
    hex(&hash.finalize()[..LENGTH])
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::{ArgumentRules, SkillStatus};

    use super::*;

    #[test]
    fn a_definition_has_another_hash_if_anything_but_its_status_differs() {
        let aliases = |names: &[&str]| ArgumentRules {
            aliases: names.iter().map(|it| ((*it).to_owned(), "path".to_owned())).collect(),
            ..ArgumentRules::default()
        };
        let names = ["file", "folder", "place", "where"];
        let skill = Skill { id: "wipe".to_owned(), argument_rules: Some(aliases(&names)), ..Skill::default() };
        let same = Skill {
            status: SkillStatus::Unavailable.into(),
            status_reason: "no python".to_owned(),
            workers: 2,
            definition_hash: "forged".to_owned(),
            argument_rules: Some(aliases(&names)),
            ..skill.clone()
        };
        assert_eq!(definition_hash(&skill), definition_hash(&same));
        for other in [
            Skill { version: "2.0.0".to_owned(), ..skill.clone() },
            Skill { input_schema_json: "{}".to_owned(), ..skill.clone() },
            Skill { destructive: true, ..skill.clone() },
            Skill { argument_rules: Some(aliases(&names[..3])), ..skill.clone() },
        ] {
            assert_ne!(definition_hash(&skill), definition_hash(&other), "{other:?}");
        }
    }
}
