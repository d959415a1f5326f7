//! The skills that can be called: what all workers offer, merged.
//!
//! A snapshot is immutable. A call looks its skill up in the current one; each change of a worker makes a new one.
//!
//! - [`entry`]: one skill; [`snapshot`]: all of them at one moment; [`mod@merge`]: how a snapshot is made
//! - [`shelf`]: what MCP clients find beside skills
//! - [`agents`]: whether skills that are agents can run here; [`definitions`]: compiled schemas; [`lookup`]: the skill of a call
//! - [`mod@definition_hash`]: names a definition, for approvals
//! - [`suggestion`]: a first call to try

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use openskill_metrics::Skills;
use openskill_proto::v1::Skill;
use tokio::sync::watch;

use crate::arguments::nearest;
use crate::call::principal::Principal;
use crate::workers::fleet::Fleet;

pub(crate) mod agents;
mod definition_hash;
mod definitions;
pub(crate) mod entry;
pub(crate) mod lookup;
mod merge;
pub(crate) mod shelf;
pub(crate) mod snapshot;
pub(crate) mod suggestion;

use agents::Agents;
use definitions::Definitions;
use entry::Entry;
use merge::merge;
use shelf::Shelf;
use snapshot::Snapshot;

/// How long a skill whose workers went away is expected back.
const RECENTLY: Duration = Duration::from_secs(30);

/// The catalog.
#[derive(Debug)]
pub(crate) struct Catalog {
    current: ArcSwap<Snapshot>,
    shelf: ArcSwap<Shelf>,
    definitions: Definitions,
    agents: Agents,
    series: Arc<Skills>,
    changes: watch::Sender<u64>,
    /// Skills that left with their workers. They may be back soon.
    departed: std::sync::Mutex<HashMap<String, Departed>>,
    /// Held while a snapshot is made, so that an older view of the workers never replaces a newer one.
    building: std::sync::Mutex<()>,
}

/// What is remembered of a skill that left.
#[derive(Debug)]
struct Departed {
    at: Instant,
    toolset: String,
    is_destructive: bool,
}

impl Departed {
    fn is_expected(&self) -> bool {
        self.at.elapsed() < RECENTLY
    }
}

impl Catalog {
    /// Without skills yet. `series` is what is counted of each.
    pub(crate) fn new(agents: Agents, series: Arc<Skills>) -> Self {
        Self {
            current: ArcSwap::default(),
            shelf: ArcSwap::default(),
            definitions: Definitions::default(),
            agents,
            series,
            changes: watch::Sender::new(0),
            departed: std::sync::Mutex::default(),
            building: std::sync::Mutex::default(),
        }
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Entry>> {
        self.current.load().get(id).cloned()
    }

    /// The skill, if it exists for this principal.
    pub(crate) fn get_for(&self, id: &str, principal: &Principal) -> Option<Arc<Entry>> {
        self.get(id).filter(|entry| principal.may_call(&entry.skill))
    }

    /// The id most similar to this one, if one is near, of the skills that exist for this principal.
    pub(crate) fn nearest_for(&self, id: &str, principal: &Principal) -> Option<String> {
        let snapshot = self.current.load();
        let ids = snapshot.values().filter(|entry| principal.may_call(&entry.skill)).map(|it| it.skill.id.as_str());
        nearest(id, ids).map(str::to_owned)
    }

    /// The skills that exist for this principal.
    pub(crate) fn snapshot_for(&self, principal: &Principal) -> Arc<Snapshot> {
        let all = self.snapshot();
        if principal.sees_all() {
            return all;
        }
        let exists = |id: &str| all.get(id).is_some_and(|entry| principal.may_call(&entry.skill));
        let own = all.iter().filter(|(id, _)| exists(id));
        Arc::new(own.map(|(id, entry)| (id.clone(), entry.with_tools(exists))).collect())
    }

    /// The skill as this principal sees it, if it exists for it.
    pub(crate) fn shown_to(&self, id: &str, principal: &Principal) -> Option<Arc<Entry>> {
        let entry = self.get_for(id, principal)?;
        if principal.sees_all() {
            return Some(entry);
        }
        Some(entry.with_tools(|id| self.get_for(id, principal).is_some()))
    }

    /// What MCP clients find beside skills.
    pub(crate) fn shelf(&self) -> Arc<Shelf> {
        self.shelf.load_full()
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// How many skills can be called.
    pub(crate) fn callable(&self) -> usize {
        snapshot::callable(&self.current.load())
    }

    /// How often the catalog has changed.
    pub(crate) fn change(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Notifies of each new snapshot.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Compiles the schemas of skills that a worker is about to offer, so that they can be called as soon as it is up.
    pub(crate) fn compile(&self, skills: &[Skill]) {
        skills.iter().for_each(|skill| drop(self.definitions.get(skill)));
    }

    /// Whether a worker that is gone now offered the skill a moment ago: it restarts, say.
    fn had_recently(&self, id: &str) -> bool {
        let departed = self.departed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        departed.get(id).is_some_and(Departed::is_expected)
    }

    /// The same of a skill that existed for this principal.
    pub(crate) fn had_recently_for(&self, id: &str, principal: &Principal) -> bool {
        let departed = self.departed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let existed = |it: &Departed| principal.allows(id, &it.toolset, it.is_destructive);
        departed.get(id).is_some_and(|it| it.is_expected() && existed(it))
    }

    /// `now` are the skills that are offered.
    fn note_departed(&self, now: &HashSet<&str>) {
        let mut departed = self.departed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        departed.retain(|id, it| it.is_expected() && !now.contains(id.as_str()));
        let before = self.current.load();
        // A skill that its worker no longer offers was removed on purpose.
        let left = |entry: &&Arc<Entry>| entry.candidates.iter().any(|it| !it.worker.is_serving());
        let gone = before.values().filter(|entry| !now.contains(entry.skill.id.as_str())).filter(left);
        departed.extend(gone.map(|entry| {
            let (skill, at) = (&entry.skill, Instant::now());
            let departed = Departed { at, toolset: skill.toolset.clone(), is_destructive: skill.destructive };
            (skill.id.clone(), departed)
        }));
    }

    /// Makes a new snapshot of what the workers offer now.
    pub(crate) fn rebuild(&self, fleet: &Fleet) {
        let _guard = self.building.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let workers = fleet.all();
        let states: Vec<_> = workers.iter().filter_map(|worker| worker.serving()).collect();
        let offered = || states.iter().flat_map(|state| &state.skills);
        let ids: HashSet<&str> = offered().map(|skill| skill.id.as_str()).collect();
        self.note_departed(&ids);
        // First those that are gone, so that there is room for those that come.
        self.series.keep(|id| ids.contains(id) || self.had_recently(id));
        let snapshot = merge(&workers, (&self.definitions, &self.agents, &self.series), &self.current.load());
        // Also of offers that are not listed now: in a rolling update they may be again.
        self.definitions.keep(offered().chain(snapshot.values().map(|entry| &entry.skill)));
        // Stored first: who finds a skill of a server finds the server's prompts and resources, too.
        self.shelf.store(Arc::new(Shelf::merge(&workers)));
        self.current.store(Arc::new(snapshot));
        workers.iter().filter(|worker| worker.is_serving()).for_each(|worker| worker.mark_listed());
        self.changes.send_modify(|change| *change += 1);
    }
}
