//! Merges the skills of all workers into one catalog.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use openskill_proto::v1::{Approval, ArgumentRules, Skill, SkillStatus, SkillVersion};
use openskill_skill::versions::compare;
use openskill_telemetry::metrics::SkillMetrics;

use super::agents::Agents;
use super::definition_hash::definition_hash;
use super::definitions::Definitions;
use super::entry::{Entry, find_served};
use super::snapshot::Snapshot;
use super::traffic::{RulesById, VersionShare, resolve};
use crate::arguments::{Definition, Rules};
use crate::workers::candidate::Candidate;
use crate::workers::worker::Worker;

/// The maximum number of versions of one skill. If workers offer more, the oldest are left out.
const MAX_SKILL_VERSIONS: usize = 64;

/// A skill that a worker offers.
#[derive(Clone)]
struct Offer {
    skill: Skill,
    worker: Arc<Worker>,
}

impl Offer {
    fn can_run(&self) -> bool {
        self.skill.status() == SkillStatus::Available
    }

    /// Orders offers by what callers prefer: one that can run, and a newer version.
    fn compare(&self, other: &Self) -> Ordering {
        let runs = self.can_run().cmp(&other.can_run());
        runs.then_with(|| compare(&self.skill.version, &other.skill.version))
    }
}

/// Merges the skills of all workers.
pub(super) struct Merger<'a> {
    pub(super) definitions: &'a Definitions,
    pub(super) agents: &'a Agents,
    pub(super) series: &'a SkillMetrics,
}

impl Merger<'_> {
    /// Merges the skills of all workers. `rules`: how operators divide calls among versions.
    pub(super) fn merge(&self, workers: &[Arc<Worker>], rules: &RulesById, before: &Snapshot) -> Snapshot {
        let mut offers: HashMap<String, Vec<Offer>> = HashMap::new();
        for worker in workers {
            for skill in worker.serving().iter().flat_map(|state| &state.skills) {
                let offer = Offer { skill: skill.clone(), worker: Arc::clone(worker) };
                offers.entry(skill.id.clone()).or_default().push(offer);
            }
        }
        // Sort by id, so that the choice of skills with separate metrics is deterministic.
        let offers: BTreeMap<_, _> = offers.into_iter().collect();
        let merged = offers.into_iter().filter_map(|(id, offers)| {
            let (rule, before) = (rules.get(&id).map(Vec::as_slice), before.get(&id));
            let entry = self.merge_skill(offers, rule, before)?.after(before);
            if entry.has_suspended_rule() && !before.is_some_and(|it| it.has_suspended_rule()) {
                tracing::warn!(
                    skill_id = id,
                    "no version of the traffic rule can run: calls without a version are refused"
                );
            }
            Some((id, Arc::new(entry)))
        });
        merged.collect()
    }

    /// Merges the offers of one skill, which are grouped by worker.
    ///
    /// Without a traffic rule, lists the newest version that can run. Calls go to every worker that can run the skill,
    /// in its newest version, as in a rolling update. Under a rule, lists the version with the largest share, and calls
    /// go to the versions by their shares. If none of them can run, the skill is unavailable.
    fn merge_skill(
        &self,
        mut offers: Vec<Offer>,
        rule: Option<&[VersionShare]>,
        before: Option<&Arc<Entry>>,
    ) -> Option<Entry> {
        let mut names: BTreeSet<String> = offers.iter().map(|it| it.skill.version.clone()).collect();
        if names.len() == 1 && rule.is_none() {
            return self.merge_offers(newest_of_each_worker(offers), "");
        }
        if names.len() > MAX_SKILL_VERSIONS {
            let mut newest = Vec::from_iter(names);
            newest.sort_by(|one, other| compare(other, one));
            names = newest.into_iter().take(MAX_SKILL_VERSIONS).collect();
            offers.retain(|it| names.contains(&it.skill.version));
        }
        let version = |name: &String| {
            let own = offers.iter().filter(|it| it.skill.version == *name).cloned().collect();
            let earlier = before.and_then(|it| it.version(name));
            Some(Arc::new(self.merge_offers(own, name)?.after(earlier.as_ref()).into_version()))
        };
        let mut versions: Vec<_> = names.iter().filter_map(version).collect();
        versions.sort_by(|one, other| compare(&other.skill.version, &one.skill.version));
        let shares = rule.map(|rule| resolve(rule, &versions));
        let takes_calls = |version: &str| shares.iter().flatten().any(|it| it.entry.skill.version == version);
        let largest = shares.iter().flatten().max_by(|one, other| {
            let (newer, older) = (&one.entry.skill.version, &other.entry.skill.version);
            one.percent.cmp(&other.percent).then_with(|| compare(newer, older))
        });
        let mut listed = match largest {
            Some(share) => {
                let taking = offers.iter().filter(|it| takes_calls(&it.skill.version)).cloned().collect();
                self.merge_offers(taking, &share.entry.skill.version)?
            }
            None => self.merge_offers(newest_of_each_worker(offers), "")?,
        };
        if let Some(rule) = rule.filter(|_| largest.is_none()) {
            suspend(&mut listed, rule);
        }
        listed.skill.versions = describe_versions(&versions, rule);
        Some(listed.with_versions(versions, shares))
    }

    /// Merges offers, which are grouped by worker, into an entry that lists the best one: of `preferred`, if that
    /// version is not empty.
    fn merge_offers(&self, offers: Vec<Offer>, preferred: &str) -> Option<Entry> {
        let is_preferred = |it: &Offer| it.can_run() && it.skill.version == preferred;
        let best = offers
            .iter()
            .max_by(|one, other| is_preferred(one).cmp(&is_preferred(other)).then_with(|| one.compare(other)))?;
        let mut skill = best.skill.clone();
        // Hash the best worker's announcement before the merge below changes fields that depend on other workers.
        skill.definition_hash = definition_hash(&skill);
        skill.versions.clear();
        // A call may go to any of these workers, so a promise must hold for all.
        let all = || offers.iter().map(|it| &it.skill);
        skill.idempotent = all().all(|skill| skill.idempotent);
        skill.destructive = all().any(|skill| skill.destructive);
        skill.read_only = !skill.destructive && all().all(|skill| skill.read_only);
        skill.repeatable = all().all(|skill| skill.repeatable);
        skill.untrusted = all().any(|skill| skill.untrusted);
        let asks = all().any(Skill::needs_approval);
        skill.set_approval(if asks { Approval::Ask } else { Approval::Never });
        let careful = ArgumentRules::default();
        let rules = skill.argument_rules.get_or_insert_default();
        for other in all().map(|skill| skill.argument_rules.as_ref().unwrap_or(&careful)) {
            rules.policy = rules.policy.max(other.policy);
            rules.drop_unknown &= other.drop_unknown;
            rules.fill_defaults &= other.fill_defaults;
        }
        let able = offers.into_iter().filter(Offer::can_run);
        let candidate = |Offer { skill, worker }: Offer| Candidate {
            latency: worker.latency_of(&skill.id),
            worker,
            definition_hash: definition_hash(&skill).into(),
        };
        let mut candidates: Vec<_> = able.map(candidate).collect();
        candidates.dedup_by(|one, other| Arc::ptr_eq(&one.worker, &other.worker));
        let definition = match self.definitions.get(&skill) {
            Ok(definition) => definition,
            Err(reason) => {
                // A skill whose calls can't be validated is unavailable. The reason quotes the schema, so it is listed
                // with the skill, and logged only at level DEBUG.
                if openskill_telemetry::log::admits("a schema can't be compiled") {
                    let reason_bytes = reason.len();
                    tracing::error!(
                        skill_id = skill.id,
                        reason_bytes,
                        "skill unavailable: its schema can't be compiled"
                    );
                    tracing::debug!(skill_id = skill.id, reason, "the schema could not be compiled");
                }
                skill.set_status(SkillStatus::Unavailable);
                skill.status_reason = reason;
                candidates.clear();
                Arc::new(Definition::without_schema(Rules::default()))
            }
        };
        let agent = skill.agent.clone().map(Arc::new);
        if let Some(reason) = self.agents.withhold(&mut skill) {
            skill.set_status(SkillStatus::Unavailable);
            skill.status_reason = reason;
            candidates.clear();
        }
        skill.workers = candidates.len() as u32;
        let series = self.series.get(&skill.id, &skill.runner);
        Some(Entry::new(skill, definition, candidates, series).with_agent(agent))
    }
}

/// Makes a skill unavailable, because no version of its traffic rule can run.
fn suspend(listed: &mut Entry, rule: &[VersionShare]) {
    listed.candidates.clear();
    let (skill, versions) = (&mut listed.skill, rule.iter().map(|it| it.version.as_str()));
    let (id, versions) = (&skill.id, Vec::from_iter(versions).join(", "));
    skill.status_reason =
        format!("no version of its traffic rule can run: {versions}; `openskill traffic {id} --clear` ends the rule");
    skill.set_status(SkillStatus::Unavailable);
    skill.workers = 0;
}

/// Keeps the newest version of each worker that can run there. Offers are grouped by worker.
fn newest_of_each_worker(offers: Vec<Offer>) -> Vec<Offer> {
    let mut newest: Vec<Offer> = Vec::with_capacity(offers.len());
    for offer in offers {
        match newest.last_mut().filter(|it| Arc::ptr_eq(&it.worker, &offer.worker)) {
            Some(last) if last.compare(&offer).is_ge() => {}
            Some(last) => *last = offer,
            None => newest.push(offer),
        }
    }
    newest
}

/// Describes the versions of a skill, newest first, and then those that only its traffic rule names.
fn describe_versions(versions: &[Arc<Entry>], rule: Option<&[VersionShare]>) -> Vec<SkillVersion> {
    let served = |share: &VersionShare| find_served(&share.version, versions);
    let describe = |entry: &Arc<Entry>| {
        let is_own = |share: &&VersionShare| served(share).is_some_and(|it| Arc::ptr_eq(it, entry));
        let skill = &entry.skill;
        SkillVersion {
            version: skill.version.clone(),
            workers: skill.workers,
            weight: rule.map(|rule| rule.iter().filter(is_own).map(|it| it.percent).sum()),
            status: skill.status,
            status_reason: skill.status_reason.clone(),
        }
    };
    let missing = rule.iter().copied().flatten().filter(|share| served(share).is_none()).map(|share| SkillVersion {
        version: share.version.clone(),
        workers: 0,
        weight: Some(share.percent),
        status: SkillStatus::Unavailable.into(),
        status_reason: "the traffic rule names it, but no worker serves it".to_owned(),
    });
    versions.iter().map(describe).chain(missing).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::catalog::traffic::{RuleFault, check, pick, roll_back};
    use crate::workers::source::Endpoint;

    pub(in crate::catalog) fn worker() -> Arc<Worker> {
        Arc::new(Worker::new(Endpoint::Tcp("nobody:1".to_owned()), 1, None))
    }

    pub(in crate::catalog) fn version(version: &str) -> Skill {
        Skill { version: version.to_owned(), status: SkillStatus::Available.into(), ..Skill::default() }
    }

    pub(in crate::catalog) fn merged(offers: Vec<(Skill, Arc<Worker>)>, rule: Option<&[VersionShare]>) -> Arc<Entry> {
        let (definitions, agents, series) = (Definitions::default(), Agents::default(), SkillMetrics::new(1));
        let merger = Merger { definitions: &definitions, agents: &agents, series: &series };
        let offers = offers.into_iter().map(|(skill, worker)| Offer { skill, worker }).collect();
        Arc::new(merger.merge_skill(offers, rule, None).unwrap())
    }

    pub(in crate::catalog) fn rule(shares: &[(&str, u32)]) -> Vec<VersionShare> {
        shares.iter().map(|(it, percent)| VersionShare { version: (*it).to_owned(), percent: *percent }).collect()
    }

    fn offered(skills: [Skill; 2]) -> Skill {
        merged(skills.into_iter().map(|skill| (skill, worker())).collect(), None).skill.clone()
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
        let entry = merged(vec![(version("2.0.0"), worker()), (version("1.0.0"), worker())], None);
        let narrowed = entry.in_definition(&definition_hash(&version("2.0.0"))).unwrap();
        assert_eq!((entry.candidates.len(), narrowed.candidates.len()), (2, 1));
        assert!(entry.in_definition(&definition_hash(&version("1.0.0"))).is_none(), "prepared by another definition");
    }

    #[test]
    fn without_a_rule_a_worker_with_two_versions_runs_only_its_newest() {
        let (both, old) = (worker(), worker());
        let destructive = Skill { destructive: true, ..version("1.0") };
        let unusable = Skill { status: SkillStatus::Unavailable.into(), ..version("3.0") };
        let offers = vec![
            (destructive, Arc::clone(&both)),
            (version("2.0"), Arc::clone(&both)),
            (unusable, both),
            (version("1.0"), old),
        ];
        let entry = merged(offers, None);
        assert_eq!((entry.skill.version.as_str(), entry.candidates.len(), entry.skill.destructive), ("2.0", 2, false));
        let versions: Vec<_> = entry.skill.versions.iter().map(|it| (it.version.as_str(), it.workers)).collect();
        assert_eq!(versions, [("3.0", 0), ("2.0", 1), ("1.0", 2)]);
        assert_eq!(entry.version("1").unwrap().candidates.len(), 2);
        assert!(entry.version("1").unwrap().skill.destructive);
    }

    #[test]
    fn a_rule_divides_calls_and_its_largest_share_is_listed() {
        let both = worker();
        let offers = || {
            vec![
                (version("1.2.3"), Arc::clone(&both)),
                (Skill { untrusted: true, ..version("2.0") }, Arc::clone(&both)),
            ]
        };
        let entry = merged(offers(), Some(&rule(&[("1.2", 75), ("2.0", 25)])));
        assert_eq!((entry.skill.version.as_str(), entry.skill.workers), ("1.2.3", 1));
        assert!(entry.skill.untrusted, "a call may go to 2.0");
        let answers = |point| pick(entry.shares(), point).unwrap().skill.version.clone();
        let old = (0..1000).filter(|it| answers(f64::from(*it) / 1000.0) == "1.2.3").count();
        assert_eq!(old, 750);
        let weights: Vec<_> = entry.skill.versions.iter().map(|it| (it.version.as_str(), it.weight)).collect();
        assert_eq!(weights, [("2.0", Some(25)), ("1.2.3", Some(75))]);
        // A version that nobody serves leaves its calls to the others; without any, none gets calls.
        let canary = merged(offers(), Some(&rule(&[("1.2", 10), ("3.0", 90)])));
        assert_eq!(pick(canary.shares(), 0.99).unwrap().skill.version, "1.2.3");
        let gone = merged(offers(), Some(&rule(&[("3.0", 100)])));
        assert!(gone.has_suspended_rule() && gone.shares().is_empty());
        assert_eq!((gone.candidates.len(), gone.skill.versions.len()), (0, 3));
        assert!(gone.skill.status_reason.contains("can run: 3.0; `openskill traffic"), "{gone:?}");
        assert!(roll_back(&gone).is_some(), "an operator may choose another version");
    }

    #[test]
    fn a_running_call_keeps_to_its_version_and_its_definition() {
        let untrusted = Skill { untrusted: true, ..version("1.0") };
        let entry = merged(vec![(version("1.0"), worker()), (untrusted, worker()), (version("2.0"), worker())], None);
        let count = |version, hash: &str| entry.restrict(version, hash).map(|it| it.candidates.len());
        assert_eq!((count("", ""), count("1.0", ""), count("1", "")), (Some(3), Some(2), None));
        let approved = entry.version("1.0").unwrap().skill.definition_hash.clone();
        assert_eq!((count("1.0", &approved), count("2.0", &approved)), (Some(1), None));
    }

    #[test]
    fn of_many_versions_the_newest_are_kept() {
        let offers = (0..=MAX_SKILL_VERSIONS).map(|it| (version(&format!("1.{it}")), worker())).collect();
        let entry = merged(offers, None);
        assert_eq!((entry.versions().len(), entry.candidates.len()), (MAX_SKILL_VERSIONS, MAX_SKILL_VERSIONS));
        assert_eq!(entry.versions().last().unwrap().skill.version, "1.1");
    }

    #[test]
    fn a_rollback_sends_all_calls_to_the_version_before_the_newest_that_gets_any() {
        let offers = || ["1.0", "1.1", "2.0"].map(|it| (version(it), worker())).to_vec();
        for (now, then) in [
            (None, Some("1.1")),
            (Some(rule(&[("1.0", 90), ("2.0", 10)])), Some("1.1")),
            (Some(rule(&[("1.1", 100)])), Some("1.0")),
            (Some(rule(&[("1.0", 100)])), None),
        ] {
            let rolled = roll_back(&merged(offers(), now.as_deref()));
            assert_eq!(rolled, then.map(|it| rule(&[(it, 100)])), "{now:?}");
        }
        let entry = merged(offers(), None);
        let fault = |shares: &[(&str, u32)]| check(&rule(shares), &entry).unwrap_err();
        assert_eq!(fault(&[("1", 50), ("3", 50)]), RuleFault::NotServed("3".to_owned()));
        assert!(matches!(fault(&[("1", 50), ("2", 40)]), RuleFault::Malformed(_)));
    }
}
