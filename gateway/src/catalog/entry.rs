//! One skill in the catalog.

use std::sync::{Arc, OnceLock};

use jsonschema::Validator;
use openskill_proto::v1::{AgentDefinition, Skill};
use openskill_skill::versions::{find, matches};
use openskill_telemetry::metrics::SkillSeries;
use openskill_text::tools::ToolDocument;

use crate::arguments::{Definition, compile_schema};
use crate::call::principal::Principal;
use crate::export::Forms;
use crate::workers::candidate::Candidate;

/// A skill, and the workers that can run it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) skill: Skill,
    /// The skill's schema and rules, compiled.
    pub(crate) definition: Arc<Definition>,
    /// The workers that can run it. Empty if the skill is declared but can't run anywhere.
    pub(crate) candidates: Vec<Candidate>,
    /// The metrics of its calls.
    pub(crate) series: Arc<SkillSeries>,
    /// The agent's definition with its instructions. None if the skill is not an agent that this gateway runs.
    pub(crate) agent: Option<Arc<AgentDefinition>>,
    /// The versions of the skill, newest first. Empty if there is one and no traffic rule, and in the entry of a version.
    versions: Vec<Arc<Entry>>,
    /// Where calls without a version go under a traffic rule. None without a rule, and empty if none of its versions can
    /// run.
    traffic: Option<Vec<Share>>,
    /// The name of the skill's circuits: its id, or `id@version` if this is one of several versions.
    circuit: String,
    exports: Arc<Exports>,
}

/// A version that gets calls without a version, and its share.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    pub(crate) entry: Arc<Entry>,
    pub(crate) percent: u32,
}

/// Data for tool exports, computed on first use and kept until the skill changes.
#[derive(Debug, Default)]
struct Exports {
    document: OnceLock<ToolDocument>,
    forms: Forms,
    /// None if the skill has no usable output schema.
    output: OnceLock<Option<Validator>>,
}

impl Entry {
    pub(crate) fn new(
        skill: Skill,
        definition: Arc<Definition>,
        candidates: Vec<Candidate>,
        series: Arc<SkillSeries>,
    ) -> Self {
        let (versions, traffic, agent, exports) = Default::default();
        let circuit = skill.id.clone();
        Self { skill, definition, candidates, series, agent, versions, traffic, circuit, exports }
    }

    /// Makes this the entry of one of several versions. Calls of a version that fail do not close the others.
    pub(super) fn into_version(self) -> Self {
        Self { circuit: format!("{}@{}", self.skill.id, self.skill.version), ..self }
    }

    /// Sets the versions, newest first, and the shares of the traffic rule, if there is one.
    pub(super) fn with_versions(self, versions: Vec<Arc<Self>>, traffic: Option<Vec<Share>>) -> Self {
        Self { versions, traffic, ..self }
    }

    /// The versions, newest first. Empty if there is one and no traffic rule.
    pub(crate) fn versions(&self) -> &[Arc<Self>] {
        &self.versions
    }

    /// Returns the entry of each version, newest first. Without versions, this one.
    pub(crate) fn each_version(&self) -> impl Iterator<Item = &Self> {
        let only = self.versions.is_empty().then_some(self);
        only.into_iter().chain(self.versions.iter().map(|it| &**it))
    }

    /// Where calls without a version go. Empty if there is no traffic rule: then each worker runs its newest version.
    pub(crate) fn shares(&self) -> &[Share] {
        self.traffic.as_deref().unwrap_or_default()
    }

    /// Whether there is a traffic rule, but none of its versions can run. Its calls without a version are refused.
    pub(super) fn has_suspended_rule(&self) -> bool {
        self.traffic.as_ref().is_some_and(Vec::is_empty)
    }

    /// The name of the skill's circuits.
    pub(crate) fn circuit(&self) -> &str {
        &self.circuit
    }

    /// Returns the entry of the version that a caller means: this one, or the newest that begins with the same
    /// components.
    pub(crate) fn version(self: &Arc<Self>, wanted: &str) -> Option<Arc<Self>> {
        if self.versions.is_empty() {
            return matches(wanted, &self.skill.version).then(|| Arc::clone(self));
        }
        find_served(wanted, &self.versions).cloned()
    }

    /// Sets the agent's definition. None if the skill is not an agent.
    pub(super) fn with_agent(self, agent: Option<Arc<AgentDefinition>>) -> Self {
        Self { agent, ..self }
    }

    /// Reuses an older entry's export data if the skill is unchanged.
    pub(super) fn after(mut self, older: Option<&Arc<Self>>) -> Self {
        if let Some(older) = older.filter(|older| older.skill == self.skill) {
            self.exports = Arc::clone(&older.exports);
        }
        self
    }

    /// Restricts this entry to the version and the definition that a running call was routed to. Each may be empty: any.
    /// None if no worker has them.
    pub(crate) fn restrict(self: &Arc<Self>, version: &str, hash: &str) -> Option<Arc<Self>> {
        let entry = match version {
            "" => Arc::clone(self),
            exact => self.version(exact).filter(|it| it.skill.version == exact)?,
        };
        if hash.is_empty() { Some(entry) } else { entry.in_definition(hash) }
    }

    /// Returns the versions that this worker process can run.
    pub(crate) fn versions_at<'a>(&'a self, instance: &'a str) -> impl Iterator<Item = &'a str> {
        self.each_version().filter(|it| it.runs_at(instance)).map(|it| it.skill.version.as_str())
    }

    /// Whether this worker process can run it.
    pub(crate) fn runs_at(&self, instance: &str) -> bool {
        self.candidates.iter().any(|it| it.worker.is_instance(instance))
    }

    /// Restricts this entry to the workers that run this definition. None if the skill has a different definition.
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

    /// Restricts this entry to a reader who may see only some skills: an agent's list of tools omits the others, and so
    /// does the list of versions.
    pub(super) fn for_reader(self: &Arc<Self>, reader: &Principal, exists: impl Fn(&str) -> bool) -> Arc<Self> {
        let mut tools = self.skill.agent.iter().flat_map(|agent| &agent.tools);
        let mut hidden = self.versions.iter().map(|it| &it.skill).filter(|it| !reader.may_call(it)).peekable();
        if tools.all(|id| exists(id)) && hidden.peek().is_none() {
            return Arc::clone(self);
        }
        let mut shown = Self::clone(self);
        hidden.for_each(|it| shown.skill.versions.retain(|shown| shown.version != it.version));
        if let Some(agent) = &mut shown.skill.agent {
            agent.tools.retain(|id| exists(id));
        }
        Arc::new(shown)
    }

    /// Returns the skill as a document for search.
    pub(crate) fn document(&self) -> &ToolDocument {
        let skill = &self.skill;
        self.exports
            .document
            .get_or_init(|| ToolDocument::new(&skill.id, &skill.toolset, &skill.description, self.definition.schema()))
    }

    /// Returns the skill as a tool definition of each provider.
    pub(crate) fn forms(&self) -> &Forms {
        &self.exports.forms
    }

    /// Explains why `data`, JSON text, does not match the skill's output schema. None if it matches, or the skill
    /// has no such schema.
    pub(crate) fn misfit(&self, data: &str) -> Option<String> {
        // Ignore a schema that can't be compiled: the skill works without it.
        let compile = || compile_schema(&serde_json::from_str(&self.skill.output_schema_json).ok()?).ok();
        let validator = self.exports.output.get_or_init(compile).as_ref()?;
        let data = serde_json::from_str(data).unwrap_or_default();
        let error = validator.validate(&data).err()?;
        let place = Some(error.instance_path().to_string()).filter(|it| !it.is_empty());
        Some(format!("at {}: {error}", place.as_deref().unwrap_or("its root")))
    }
}

/// Finds the served version that a caller or a traffic rule means.
pub(super) fn find_served<'a>(wanted: &str, versions: &'a [Arc<Entry>]) -> Option<&'a Arc<Entry>> {
    find(wanted, versions, |it| (&it.skill.version, !it.candidates.is_empty()))
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
        let series = openskill_telemetry::metrics::SkillMetrics::new(1).get("a", "http");
        let entry = |skill: Skill| Entry::new(skill, Arc::clone(&definition), Vec::new(), Arc::clone(&series));
        let older = Arc::new(entry(skill("a", "1")));
        let keeps = |skill: Skill| Arc::ptr_eq(&entry(skill).after(Some(&older)).exports, &older.exports);
        assert!(keeps(skill("a", "1")));
        assert!(!keeps(Skill { description: "Does more.".to_owned(), ..skill("a", "1") }));
        assert!(!keeps(Skill { input_schema_json: "{}".to_owned(), ..skill("a", "1") }));
    }
}
