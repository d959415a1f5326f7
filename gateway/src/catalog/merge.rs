//! Merges the skills of all workers into one catalog.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use openskill_proto::v1::{Approval, ArgumentRules, Skill, SkillStatus};
use openskill_telemetry::metrics::SkillMetrics;

use super::agents::Agents;
use super::definition_hash::definition_hash;
use super::definitions::Definitions;
use super::entry::Entry;
use super::snapshot::Snapshot;
use crate::arguments::{Definition, Rules};
use crate::workers::candidate::Candidate;
use crate::workers::worker::Worker;

/// Merges the skills of all workers. If definitions differ, as in a rolling update, lists the newest one that can
/// run. Calls go to every worker that can run the skill.
pub(super) fn merge(
    workers: &[Arc<Worker>],
    definitions: &Definitions,
    agents: &Agents,
    series: &SkillMetrics,
    before: &Snapshot,
) -> Snapshot {
    let mut offers: HashMap<String, Vec<(Skill, Arc<Worker>)>> = HashMap::new();
    for worker in workers {
        for skill in worker.serving().iter().flat_map(|state| &state.skills) {
            offers.entry(skill.id.clone()).or_default().push((skill.clone(), Arc::clone(worker)));
        }
    }
    // Sort by id, so that the choice of skills with separate metrics is deterministic.
    let offers: BTreeMap<_, _> = offers.into_iter().collect();
    let merged = offers.into_iter().filter_map(|(id, offers)| {
        let entry = merge_one(offers, definitions, agents, series)?.after(before.get(&id));
        Some((id, Arc::new(entry)))
    });
    merged.collect()
}

fn merge_one(
    offers: Vec<(Skill, Arc<Worker>)>,
    definitions: &Definitions,
    agents: &Agents,
    series: &SkillMetrics,
) -> Option<Entry> {
    let runs = |skill: &Skill| skill.status() == SkillStatus::Available;
    let best = offers.iter().max_by_key(|(skill, _)| (runs(skill), version_key(&skill.version)))?;
    let mut skill = best.0.clone();
    // Hash the best worker's announcement before the merge below changes fields that depend on other workers.
    skill.definition_hash = definition_hash(&skill);
    // A call may go to any of these workers, so a promise must hold for all.
    skill.idempotent = offers.iter().all(|(skill, _)| skill.idempotent);
    skill.destructive = offers.iter().any(|(skill, _)| skill.destructive);
    skill.read_only = !skill.destructive && offers.iter().all(|(skill, _)| skill.read_only);
    skill.repeatable = offers.iter().all(|(skill, _)| skill.repeatable);
    skill.untrusted = offers.iter().any(|(skill, _)| skill.untrusted);
    let asks = offers.iter().any(|(skill, _)| skill.needs_approval());
    skill.set_approval(if asks { Approval::Ask } else { Approval::Never });
    let careful = ArgumentRules::default();
    let rules = skill.argument_rules.get_or_insert_default();
    for other in offers.iter().map(|(skill, _)| skill.argument_rules.as_ref().unwrap_or(&careful)) {
        rules.policy = rules.policy.max(other.policy);
        rules.drop_unknown &= other.drop_unknown;
        rules.fill_defaults &= other.fill_defaults;
    }
    let able = offers.into_iter().filter(|(skill, _)| runs(skill));
    let candidate = |(offer, worker): (Skill, Arc<Worker>)| Candidate {
        latency: worker.latency_of(&offer.id),
        worker,
        definition_hash: definition_hash(&offer).into(),
    };
    let mut candidates: Vec<_> = able.map(candidate).collect();
    let definition = match definitions.get(&skill) {
        Ok(definition) => definition,
        Err(reason) => {
            // A skill whose calls can't be validated is unavailable. The reason quotes the schema, so it is listed
            // with the skill, and logged only at level DEBUG.
            if openskill_telemetry::log::admits("a schema can't be compiled") {
                let reason_bytes = reason.len();
                tracing::error!(skill_id = skill.id, reason_bytes, "skill unavailable: its schema can't be compiled");
                tracing::debug!(skill_id = skill.id, reason, "the schema could not be compiled");
            }
            skill.set_status(SkillStatus::Unavailable);
            skill.status_reason = reason;
            candidates.clear();
            Arc::new(Definition::without_schema(Rules::default()))
        }
    };
    let agent = skill.agent.clone().map(Arc::new);
    if let Some(reason) = agents.withhold(&mut skill) {
        skill.set_status(SkillStatus::Unavailable);
        skill.status_reason = reason;
        candidates.clear();
    }
    skill.workers = candidates.len() as u32;
    let series = series.get(&skill.id, &skill.runner);
    Some(Entry::new(skill, definition, candidates, series).with_agent(agent))
}

/// Orders versions by their numbers: 0.10.0 is newer than 0.9.0, and a pre-release is older than its release.
fn version_key(version: &str) -> (Vec<u64>, bool, String) {
    let released = version.split_once('-').is_none();
    let numbers = version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect();
    (numbers, released, version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::source::Endpoint;

    fn offered(skills: [Skill; 2]) -> Skill {
        let worker = Arc::new(Worker::new(Endpoint::Tcp("nobody:1".to_owned()), 1, None));
        let offers = skills.into_iter().map(|skill| (skill, Arc::clone(&worker))).collect();
        merge_one(offers, &Definitions::default(), &Agents::default(), &SkillMetrics::new(1)).unwrap().skill.clone()
    }

    #[test]
    fn what_an_agent_may_rely_on_holds_for_every_worker() {
        let harmless = Skill { read_only: true, repeatable: true, ..Skill::default() };
        let careful = Skill { untrusted: true, approval: Approval::Ask.into(), ..Skill::default() };
        // A worker of an older version does not send these fields.
        let silent = Skill { destructive: true, ..Skill::default() };
        for offers in [[harmless.clone(), careful.clone()], [careful, harmless.clone()]] {
            let skill = offered(offers);
            assert!(!skill.read_only && !skill.repeatable && skill.untrusted, "{skill:?}");
            assert_eq!(skill.approval(), Approval::Ask);
        }
        assert_eq!(offered([harmless.clone(), silent]).approval(), Approval::Ask);
        let alike = offered([harmless.clone(), harmless]);
        assert!(alike.read_only && alike.repeatable && !alike.untrusted);
        assert_eq!(alike.approval(), Approval::Never);
    }

    #[test]
    fn a_call_that_expects_a_definition_goes_to_no_worker_with_another_one() {
        let worker = || Arc::new(Worker::new(Endpoint::Tcp("nobody:1".to_owned()), 1, None));
        let skill = |version: &str| Skill {
            version: version.to_owned(),
            status: SkillStatus::Available.into(),
            ..Skill::default()
        };
        let offers = vec![(skill("2.0.0"), worker()), (skill("1.0.0"), worker())];
        let entry = merge_one(offers, &Definitions::default(), &Agents::default(), &SkillMetrics::new(1)).map(Arc::new);
        let entry = entry.unwrap();
        let narrowed = entry.in_definition(&definition_hash(&skill("2.0.0"))).unwrap();
        assert_eq!((entry.candidates.len(), narrowed.candidates.len()), (2, 1));
        assert!(entry.in_definition(&definition_hash(&skill("1.0.0"))).is_none(), "prepared by another definition");
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        assert!(version_key("0.10.0") > version_key("0.9.0"));
        assert!(version_key("1.0.0") > version_key("0.99"));
        assert!(version_key("1.0.0") > version_key("1.0.0-rc1"));
    }
}
