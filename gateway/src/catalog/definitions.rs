//! Caches compiled definitions while some skill in the catalog uses them.
//!
//! Compiling takes a hundred times as long as the rest of a new snapshot, and most worker changes leave the skills
//! unchanged.

use std::collections::HashMap;
use std::sync::Arc;

use openskill_proto::v1::Skill;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::arguments::{Definition, Rules};

/// A hash of everything that a compiled definition depends on.
type Key = [u8; 32];

/// A definition, or why the schema can't be used.
type Compiled = Result<Arc<Definition>, String>;

/// Definitions by the hash of their inputs.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    by_key: Mutex<HashMap<Key, Compiled>>,
}

impl Definitions {
    /// Returns the definition of a skill, compiled on first use.
    ///
    /// # Errors
    /// Its schema can't be used.
    pub(super) fn get(&self, skill: &Skill) -> Compiled {
        let rules = rules(skill);
        let key = key(skill, &rules);
        if let Some(compiled) = self.by_key.lock().get(&key) {
            return compiled.clone();
        }
        // Compile outside the lock, because it is slow.
        let compiled = match skill.input_schema_json.as_str() {
            "" => Ok(Definition::without_schema(rules)),
            schema => Definition::compile(schema, rules, &skill.example_inputs_json),
        };
        let compiled = compiled.map(Arc::new);
        self.by_key.lock().insert(key, compiled.clone());
        compiled
    }

    /// Drops the definitions that none of these skills use.
    pub(super) fn keep<'a>(&self, skills: impl Iterator<Item = &'a Skill>) {
        let keys: std::collections::HashSet<Key> = skills.map(|skill| key(skill, &rules(skill))).collect();
        self.by_key.lock().retain(|key, _| keys.contains(key));
    }
}

fn key(skill: &Skill, rules: &Rules) -> Key {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    };
    add(&skill.input_schema_json);
    skill.example_inputs_json.iter().for_each(|example| add(example));
    add(&format!("{rules:?}"));
    hash.finalize().into()
}

/// Returns a skill's repair rules. For a worker that sends none, the default is the cautious choice.
fn rules(skill: &Skill) -> Rules {
    let sent = skill.argument_rules.clone().unwrap_or_default();
    Rules { fill_optional: !skill.runner.starts_with("mcp:"), ..sent.into() }
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::ArgumentRules;

    use super::*;
    use crate::arguments::Policy;

    #[test]
    fn the_tools_of_mcp_servers_know_their_defaults() {
        let schema = r#"{"type": "object", "properties": {"limit": {"default": 10}}}"#.to_owned();
        let prepared = |runner: &str| {
            let argument_rules = Some(ArgumentRules { fill_defaults: true, ..ArgumentRules::default() });
            let (runner, input_schema_json) = (runner.to_owned(), schema.clone());
            let skill = Skill { runner, input_schema_json, argument_rules, ..Skill::default() };
            let definition = Definitions::default().get(&skill).unwrap();
            definition.prepare("{}", Policy::Repair).unwrap().text.into_owned()
        };
        for runner in ["cli:python", "cli:exec", "http", "docker", "inproc", "session:python", "agent"] {
            assert_eq!(prepared(runner), r#"{"limit":10}"#, "{runner}");
        }
        assert_eq!([prepared("mcp:stdio"), prepared("mcp:http")], ["{}", "{}"]);
    }

    #[test]
    fn a_definition_is_compiled_once_for_all_skills_that_are_made_of_the_same() {
        let skill = |schema: &str| Skill { input_schema_json: schema.to_owned(), ..Skill::default() };
        let definitions = Definitions::default();
        let (one, other) = (skill(r#"{"type": "object"}"#), skill(r#"{"type": "object", "properties": {}}"#));
        let first = definitions.get(&one).unwrap();
        assert!(Arc::ptr_eq(&first, &definitions.get(&one).unwrap()));
        assert!(!Arc::ptr_eq(&first, &definitions.get(&other).unwrap()));
        assert!(definitions.get(&skill("{")).is_err());
        definitions.keep(std::iter::once(&other));
        assert!(!Arc::ptr_eq(&first, &definitions.get(&one).unwrap()), "it was forgotten");
    }
}
