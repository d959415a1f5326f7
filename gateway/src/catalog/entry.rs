//! A skill of the catalog.

use std::sync::{Arc, OnceLock};

use jsonschema::Validator;
use openskill_metrics::SkillSeries;
use openskill_proto::v1::{AgentDefinition, Skill};
use openskill_rank::rank::Document;

use crate::arguments::{Definition, compile_schema};
use crate::export::Forms;
use crate::workers::candidate::Candidate;

/// A skill and the workers that can run it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) skill: Skill,
    /// The skill's schema and rules, compiled.
    pub(crate) definition: Arc<Definition>,
    /// The workers that can run it. None if the skill is declared but can run nowhere.
    pub(crate) candidates: Vec<Candidate>,
    /// What is counted of its calls.
    pub(crate) series: Arc<SkillSeries>,
    /// Set if the skill is an agent, which this gateway runs: its definition with the instructions.
    pub(crate) agent: Option<Arc<AgentDefinition>>,
    exports: Arc<Exports>,
}

/// What tool exports need of a skill, made on first use and kept until the skill changes.
#[derive(Debug, Default)]
struct Exports {
    document: OnceLock<Document>,
    forms: Forms,
    /// None if there is no usable schema of the data.
    output: OnceLock<Option<Validator>>,
}

impl Entry {
    pub(crate) fn new(
        skill: Skill,
        definition: Arc<Definition>,
        candidates: Vec<Candidate>,
        series: Arc<SkillSeries>,
    ) -> Self {
        Self { skill, definition, candidates, series, agent: None, exports: Arc::default() }
    }

    /// The same, of an agent if this is one.
    pub(super) fn of_agent(self, agent: Option<Arc<AgentDefinition>>) -> Self {
        Self { agent, ..self }
    }

    /// Keeps what an older entry made for exports, if the skill is the same.
    pub(super) fn after(mut self, older: Option<&Arc<Self>>) -> Self {
        if let Some(older) = older.filter(|older| older.skill == self.skill) {
            self.exports = Arc::clone(&older.exports);
        }
        self
    }

    /// The same with the workers that run this definition alone. None if the skill has another one.
    pub(super) fn in_definition(self: &Arc<Self>, hash: &str) -> Option<Arc<Self>> {
        if self.skill.definition_hash != hash {
            return None;
        }
        if self.candidates.iter().all(|it| *it.definition_hash == *hash) {
            return Some(Arc::clone(self));
        }
        let mut narrowed = Self::clone(self);
        narrowed.candidates.retain(|it| *it.definition_hash == *hash);
        Some(Arc::new(narrowed))
    }

    /// The same as readers see it for whom only some skills exist: an agent's list of tools has no others.
    pub(super) fn with_tools(self: &Arc<Self>, exists: impl Fn(&str) -> bool) -> Arc<Self> {
        let mut tools = self.skill.agent.iter().flat_map(|agent| &agent.tools);
        if tools.all(|id| exists(id)) {
            return Arc::clone(self);
        }
        let mut shown = Self::clone(self);
        if let Some(agent) = &mut shown.skill.agent {
            agent.tools.retain(|id| exists(id));
        }
        Arc::new(shown)
    }

    /// The skill as words, for search.
    pub(crate) fn document(&self) -> &Document {
        let skill = &self.skill;
        self.exports
            .document
            .get_or_init(|| Document::new(&skill.id, &skill.toolset, &skill.description, self.definition.schema()))
    }

    /// The skill as a tool definition of each provider.
    pub(crate) fn forms(&self) -> &Forms {
        &self.exports.forms
    }
}

impl Entry {
    /// Why `data`, JSON text, does not fit the skill's schema of its data. None if it fits, or there is no schema.
    pub(crate) fn misfit(&self, data: &str) -> Option<String> {
        let validator = self.exports.output.get_or_init(|| compiled(&self.skill.output_schema_json)).as_ref()?;
        let data = serde_json::from_str(data).unwrap_or_default();
        let error = validator.validate(&data).err()?;
        let place = Some(error.instance_path().to_string()).filter(|it| !it.is_empty());
        Some(format!("at {}: {error}", place.as_deref().unwrap_or("its root")))
    }
}

fn compiled(schema: &str) -> Option<Validator> {
    // A schema that can't be compiled is not listed as broken: the skill works without it.
    serde_json::from_str(schema).ok().and_then(|schema| compile_schema(&schema).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Rules;

    fn skill(id: &str, version: &str) -> Skill {
        Skill { id: id.to_owned(), version: version.to_owned(), ..Skill::default() }
    }

    #[test]
    fn exports_are_kept_until_the_skill_changes() {
        let definition = Arc::new(Definition::without_schema(Rules::default()));
        let series = openskill_metrics::Skills::new(1).get("a", "http");
        let entry = |skill: Skill| Entry::new(skill, Arc::clone(&definition), Vec::new(), Arc::clone(&series));
        let older = Arc::new(entry(skill("a", "1")));
        let keeps = |skill: Skill| Arc::ptr_eq(&entry(skill).after(Some(&older)).exports, &older.exports);
        assert!(keeps(skill("a", "1")));
        assert!(!keeps(Skill { description: "Does more.".to_owned(), ..skill("a", "1") }));
        assert!(!keeps(Skill { input_schema_json: "{}".to_owned(), ..skill("a", "1") }));
    }
}
