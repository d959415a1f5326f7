//! The skills that can be called: what all workers have, taken together.
//!
//! A snapshot is immutable. A call looks one skill up in the current one; each change of a worker makes a new one.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use openskill_proto::v1::{ArgumentRules, CatalogChange, ChangeKind, Skill, SkillStatus};
use tokio::sync::watch;

use crate::arguments::{Definition, Rules, nearest};
use crate::export::Forms;
use crate::export::rank::Document;
use crate::workers::pick::Candidate;
use crate::workers::{Worker, Workers};

mod definitions;

use definitions::Definitions;

/// A skill and the workers that can run it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) skill: Skill,
    /// The skill's schema and rules, compiled.
    pub(crate) definition: Arc<Definition>,
    /// The workers that can run it. Empty if the skill is declared but can't run anywhere.
    pub(crate) candidates: Vec<Candidate>,
    told: Arc<Told>,
}

/// How a skill is told of, made when it is first asked for and kept while the skill stays what it is.
#[derive(Debug, Default)]
struct Told {
    document: OnceLock<Document>,
    forms: Forms,
}

impl Entry {
    fn new(skill: Skill, definition: Arc<Definition>, candidates: Vec<Candidate>) -> Self {
        Self { skill, definition, candidates, told: Arc::default() }
    }

    /// With what is told of an older one, if it is the same in everything.
    fn after(mut self, older: Option<&Arc<Self>>) -> Self {
        if let Some(older) = older.filter(|older| older.skill == self.skill) {
            self.told = Arc::clone(&older.told);
        }
        self
    }

    /// The skill as words, to be found by.
    pub(crate) fn document(&self) -> &Document {
        let skill = &self.skill;
        self.told
            .document
            .get_or_init(|| Document::new(&skill.id, &skill.toolset, &skill.description, self.definition.schema()))
    }

    /// The skill as providers take tools.
    pub(crate) fn forms(&self) -> &Forms {
        &self.told.forms
    }
}

/// How long a skill that went is expected back.
const LATELY: Duration = Duration::from_secs(30);

/// Skills by id.
pub(crate) type Snapshot = BTreeMap<String, Arc<Entry>>;

/// The catalog.
#[derive(Debug)]
pub(crate) struct Catalog {
    current: ArcSwap<Snapshot>,
    definitions: Definitions,
    changes: watch::Sender<u64>,
    /// Skills that went with their workers, and when: they may be back soon.
    departed: std::sync::Mutex<HashMap<String, Instant>>,
    /// Held while a snapshot is made, so that an older view of the workers never replaces a newer one.
    building: std::sync::Mutex<()>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            current: ArcSwap::default(),
            definitions: Definitions::default(),
            changes: watch::Sender::new(0),
            departed: std::sync::Mutex::default(),
            building: std::sync::Mutex::default(),
        }
    }
}

impl Catalog {
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Entry>> {
        self.current.load().get(id).cloned()
    }

    /// The skill whose id is most like this one, if any is near.
    pub(crate) fn nearest(&self, id: &str) -> Option<String> {
        let snapshot = self.current.load();
        nearest(id, snapshot.keys().map(String::as_str)).map(str::to_owned)
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// How many skills can be called.
    pub(crate) fn callable(&self) -> usize {
        self.current.load().values().filter(|entry| !entry.candidates.is_empty()).count()
    }

    /// Marks each new snapshot.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Compiles the definitions of skills that a worker is about to offer, so that they can be called as soon as it is up.
    pub(crate) fn learn(&self, skills: &[Skill]) {
        skills.iter().for_each(|skill| drop(self.definitions.get(skill)));
    }

    /// Whether the skill was offered a moment ago by a worker that is away now: it is being restarted, say.
    pub(crate) fn had_lately(&self, id: &str) -> bool {
        let departed = self.departed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        departed.get(id).is_some_and(|at| at.elapsed() < LATELY)
    }

    fn note_departed(&self, now: &Snapshot) {
        let mut departed = self.departed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        departed.retain(|id, at| at.elapsed() < LATELY && !now.contains_key(id));
        let before = self.current.load();
        // A skill that its worker does not offer any more is meant to be gone.
        let went = |entry: &&Arc<Entry>| entry.candidates.iter().any(|it| !it.worker.is_serving());
        let gone = before.values().filter(|entry| !now.contains_key(&entry.skill.id)).filter(went);
        departed.extend(gone.map(|entry| (entry.skill.id.clone(), Instant::now())));
    }

    /// Makes a new snapshot of what the workers have now.
    pub(crate) fn rebuild(&self, workers: &Workers) {
        let _guard = self.building.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let workers = workers.all();
        let snapshot = merge(&workers, &self.definitions, &self.current.load());
        // Also those of offers that are not shown now: in a rolling update they may be again.
        let states: Vec<_> = workers.iter().filter_map(|worker| worker.serving()).collect();
        let offered = states.iter().flat_map(|state| &state.skills);
        self.definitions.keep(offered.chain(snapshot.values().map(|entry| &entry.skill)));
        self.note_departed(&snapshot);
        self.current.store(Arc::new(snapshot));
        workers.iter().filter(|worker| worker.is_serving()).for_each(|worker| worker.list());
        self.changes.send_modify(|change| *change += 1);
    }
}

/// All workers' skills. Where definitions differ, as in a rolling update, the newest one that can run is shown; calls go
/// to every worker that can run the skill.
fn merge(workers: &[Arc<Worker>], definitions: &Definitions, before: &Snapshot) -> Snapshot {
    let mut offers: HashMap<String, Vec<(Skill, Arc<Worker>)>> = HashMap::new();
    for worker in workers {
        for skill in worker.serving().iter().flat_map(|state| &state.skills) {
            offers.entry(skill.id.clone()).or_default().push((skill.clone(), Arc::clone(worker)));
        }
    }
    let merged = offers.into_iter().filter_map(|(id, offers)| {
        let entry = merge_one(offers, definitions)?.after(before.get(&id));
        Some((id, Arc::new(entry)))
    });
    merged.collect()
}

fn merge_one(offers: Vec<(Skill, Arc<Worker>)>, definitions: &Definitions) -> Option<Entry> {
    let runs = |skill: &Skill| skill.status() == SkillStatus::Available;
    let best = offers.iter().max_by_key(|(skill, _)| (runs(skill), version_key(&skill.version)))?;
    let mut skill = best.0.clone();
    // A call may go to any of them, so what is promised of one has to hold for all.
    skill.idempotent = offers.iter().all(|(skill, _)| skill.idempotent);
    skill.destructive = offers.iter().any(|(skill, _)| skill.destructive);
    let careful = ArgumentRules::default();
    let rules = skill.argument_rules.get_or_insert_default();
    for other in offers.iter().map(|(skill, _)| skill.argument_rules.as_ref().unwrap_or(&careful)) {
        rules.policy = rules.policy.max(other.policy);
        rules.drop_unknown &= other.drop_unknown;
        rules.fill_defaults &= other.fill_defaults;
    }
    let candidate = |worker: Arc<Worker>| Candidate { latency: worker.latency_of(&skill.id), worker };
    let able = offers.into_iter().filter(|(skill, _)| runs(skill));
    let mut candidates: Vec<_> = able.map(|(_, worker)| candidate(worker)).collect();
    let definition = match definitions.get(&skill) {
        Ok(definition) => definition,
        Err(refused) => {
            // A skill whose calls can't be checked is not called.
            tracing::error!(skill_id = skill.id, reason = refused.to_string(), "a skill's schema can't be used");
            skill.set_status(SkillStatus::Unavailable);
            skill.status_reason = refused.to_string();
            candidates.clear();
            Arc::new(Definition::without_schema(Rules::default()))
        }
    };
    skill.workers = candidates.len() as u32;
    Some(Entry::new(skill, definition, candidates))
}

/// Versions in their numbers' order, so that 0.10.0 is newer than 0.9.0, and a pre-release older than its release.
fn version_key(version: &str) -> (Vec<u64>, bool, String) {
    let released = version.split_once('-').is_none();
    let numbers = version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect();
    (numbers, released, version.to_owned())
}

/// What turns `before` into `after`, in the order of ids.
pub(crate) fn difference(before: &Snapshot, after: &Snapshot) -> Vec<CatalogChange> {
    let change = |kind: ChangeKind, skill: &Skill| CatalogChange {
        kind: kind.into(),
        skill: Some(skill.clone()),
        ..CatalogChange::default()
    };
    let gone = before.values().filter(|entry| !after.contains_key(&entry.skill.id));
    let mut changes: Vec<_> = gone.map(|entry| change(ChangeKind::Removed, &entry.skill)).collect();
    for (id, entry) in after {
        match before.get(id) {
            None => changes.push(change(ChangeKind::Added, &entry.skill)),
            Some(old) if old.skill != entry.skill => changes.push(change(ChangeKind::Updated, &entry.skill)),
            Some(_) => {}
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(id: &str, version: &str) -> Skill {
        let status = SkillStatus::Available.into();
        Skill { id: id.to_owned(), version: version.to_owned(), status, ..Skill::default() }
    }

    fn snapshot(skills: &[Skill]) -> Snapshot {
        let definition = Arc::new(Definition::without_schema(Rules::default()));
        let entry = |skill: &Skill| Arc::new(Entry::new(skill.clone(), Arc::clone(&definition), Vec::new()));
        skills.iter().map(|skill| (skill.id.clone(), entry(skill))).collect()
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        assert!(version_key("0.10.0") > version_key("0.9.0"));
        assert!(version_key("1.0.0") > version_key("0.99"));
        assert!(version_key("1.0.0") > version_key("1.0.0-rc1"));
    }

    #[test]
    fn what_is_told_of_a_skill_is_kept_until_that_changes() {
        let definition = Arc::new(Definition::without_schema(Rules::default()));
        let entry = |skill: Skill| Entry::new(skill, Arc::clone(&definition), Vec::new());
        let older = Arc::new(entry(skill("a", "1")));
        let keeps = |skill: Skill| Arc::ptr_eq(&entry(skill).after(Some(&older)).told, &older.told);
        assert!(keeps(skill("a", "1")));
        assert!(!keeps(Skill { description: "Does more.".to_owned(), ..skill("a", "1") }));
        assert!(!keeps(Skill { input_schema_json: "{}".to_owned(), ..skill("a", "1") }));
    }

    #[test]
    fn a_difference_names_what_came_changed_and_went() {
        let before = snapshot(&[skill("a", "1"), skill("b", "1"), skill("c", "1")]);
        let after = snapshot(&[skill("b", "1"), skill("c", "2"), skill("d", "1")]);
        let changes: Vec<_> =
            difference(&before, &after).into_iter().map(|it| (it.kind(), it.skill.unwrap().id)).collect();
        assert_eq!(
            changes,
            [
                (ChangeKind::Removed, "a".to_owned()),
                (ChangeKind::Updated, "c".to_owned()),
                (ChangeKind::Added, "d".to_owned())
            ]
        );
        assert!(difference(&after, &after).is_empty());
    }
}
