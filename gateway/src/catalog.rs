//! The skills that can be called: the skills of all workers, merged.
//!
//! A snapshot is immutable. A call uses the current one, and each change of a worker creates a new one.
//!
//! - [`entry`]: one skill; [`snapshot`]: all of them at one moment; [`mod@merge`]: creates a snapshot
//! - [`offerings`]: prompts and resources for MCP clients
//! - [`agents`]: whether skills that are agents can run here; [`definitions`]: compiled schemas; [`lookup`]: finds
//!   the skill of a call
//! - [`mod@definition_hash`]: identifies a definition, for approvals
//! - [`suggestion`]: suggests a first call
//! - [`traffic`]: divides calls among the versions of a skill

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use openskill_proto::v1::Skill;
use openskill_skill::versions::split;
use openskill_telemetry::metrics::SkillMetrics;
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
pub(crate) mod offerings;
pub(crate) mod snapshot;
pub(crate) mod suggestion;
pub(crate) mod traffic;

use agents::Agents;
use definitions::Definitions;
use entry::Entry;
use merge::Merger;
use offerings::McpOfferings;
use snapshot::Snapshot;
use traffic::TrafficRules;

/// How long a skill is expected to return after its workers are gone.
const RECENTLY: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Catalog {
    current: ArcSwap<Snapshot>,
    offerings: ArcSwap<McpOfferings>,
    definitions: Definitions,
    agents: Agents,
    series: Arc<SkillMetrics>,
    pub(crate) traffic: TrafficRules,
    changes: watch::Sender<u64>,
    /// Skills that disappeared with their workers. They may return soon.
    recently_removed: parking_lot::Mutex<HashMap<String, RecentlyRemoved>>,
    /// Locked while a snapshot is built, so that older data about the workers never replaces newer data.
    building: parking_lot::Mutex<()>,
}

/// A skill whose workers disappeared recently.
#[derive(Debug)]
struct RecentlyRemoved {
    at: Instant,
    toolset: String,
    is_destructive: bool,
}

impl RecentlyRemoved {
    fn is_expected(&self) -> bool {
        self.at.elapsed() < RECENTLY
    }
}

impl Catalog {
    /// Creates an empty catalog. `series` are the metrics of each skill.
    pub(crate) fn new(agents: Agents, series: Arc<SkillMetrics>, traffic: TrafficRules) -> Self {
        Self {
            current: ArcSwap::default(),
            offerings: ArcSwap::default(),
            definitions: Definitions::default(),
            agents,
            series,
            traffic,
            changes: watch::Sender::new(0),
            recently_removed: parking_lot::Mutex::default(),
            building: parking_lot::Mutex::default(),
        }
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Entry>> {
        self.current.load().get(id).cloned()
    }

    /// Returns the skill, if this principal may see it.
    pub(crate) fn get_for(&self, id: &str, principal: &Principal) -> Option<Arc<Entry>> {
        self.get(id).filter(|entry| principal.may_call(&entry.skill))
    }

    /// Returns the most similar id among the skills that this principal may see. None if no id is similar enough.
    pub(crate) fn nearest_for(&self, id: &str, principal: &Principal) -> Option<String> {
        let snapshot = self.current.load();
        let ids = snapshot.values().filter(|entry| principal.may_call(&entry.skill)).map(|it| it.skill.id.as_str());
        nearest(id, ids).map(str::to_owned)
    }

    /// Returns the skills that this principal may see.
    pub(crate) fn snapshot_for(&self, principal: &Principal) -> Arc<Snapshot> {
        let all = self.snapshot();
        if principal.sees_all() {
            return all;
        }
        let exists = |id: &str| all.get(id).is_some_and(|entry| principal.may_call(&entry.skill));
        let own = all.iter().filter(|(id, _)| exists(id));
        Arc::new(own.map(|(id, entry)| (id.clone(), entry.for_reader(principal, exists))).collect())
    }

    /// Returns the skill `id`, or the version `id@version`, as this principal sees it, if it may.
    pub(crate) fn shown_to(&self, name: &str, principal: &Principal) -> Option<Arc<Entry>> {
        let (id, version) = split(name);
        let mut entry = self.get_for(id, principal)?;
        if !version.is_empty() {
            entry = entry.version(version).filter(|it| principal.may_call(&it.skill))?;
        }
        if principal.sees_all() {
            return Some(entry);
        }
        Some(entry.for_reader(principal, |id| self.get_for(id, principal).is_some()))
    }

    /// The prompts and resources for MCP clients.
    pub(crate) fn offerings(&self) -> Arc<McpOfferings> {
        self.offerings.load_full()
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Counts the skills that can be called.
    pub(crate) fn callable(&self) -> usize {
        snapshot::callable(&self.current.load())
    }

    /// The number of changes of the catalog so far.
    pub(crate) fn change(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Subscribes to new snapshots.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Compiles the schemas of skills that a worker is about to offer, so that they can be called as soon as the
    /// worker is up.
    pub(crate) fn compile(&self, skills: &[Skill]) {
        skills.iter().for_each(|skill| drop(self.definitions.get(skill)));
    }

    /// Whether a worker that disappeared recently, for example to restart, offered the skill, and this principal
    /// could see it.
    pub(crate) fn had_recently_for(&self, id: &str, principal: &Principal) -> bool {
        let recently_removed = self.recently_removed.lock();
        let existed = |it: &RecentlyRemoved| principal.allows(id, &it.toolset, it.is_destructive);
        recently_removed.get(id).is_some_and(|it| it.is_expected() && existed(it))
    }

    /// Records the skills that disappeared with their workers. `now` are the currently offered skills.
    fn note_removed(&self, now: &HashSet<&str>) {
        let mut recently_removed = self.recently_removed.lock();
        recently_removed.retain(|id, it| it.is_expected() && !now.contains(id.as_str()));
        let before = self.current.load();
        // A skill that a running worker no longer offers was removed on purpose.
        let left = |entry: &&Arc<Entry>| entry.candidates.iter().any(|it| !it.worker.is_serving());
        let gone = before.values().filter(|entry| !now.contains(entry.skill.id.as_str())).filter(left);
        recently_removed.extend(gone.map(|entry| {
            let (skill, at) = (&entry.skill, Instant::now());
            let recently_removed =
                RecentlyRemoved { at, toolset: skill.toolset.clone(), is_destructive: skill.destructive };
            (skill.id.clone(), recently_removed)
        }));
    }

    /// Builds a new snapshot from the skills that the workers currently offer.
    pub(crate) fn rebuild(&self, fleet: &Fleet) {
        let _guard = self.building.lock();
        let workers = fleet.all();
        let states: Vec<_> = workers.iter().filter_map(|worker| worker.serving()).collect();
        let offered = || states.iter().flat_map(|state| &state.skills);
        let ids: HashSet<&str> = offered().map(|skill| skill.id.as_str()).collect();
        self.note_removed(&ids);
        // Drop removed skills first, to make room for new ones.
        let is_expected = |id: &str| self.recently_removed.lock().get(id).is_some_and(RecentlyRemoved::is_expected);
        self.series.keep(|id| ids.contains(id) || is_expected(id));
        let merger = Merger { definitions: &self.definitions, agents: &self.agents, series: &self.series };
        let snapshot = merger.merge(&workers, &self.traffic.current(), &self.current.load());
        // Also keep definitions of unlisted offers: in a rolling update they may be listed again.
        self.definitions.keep(offered().chain(snapshot.values().map(|entry| &entry.skill)));
        // Store them before the skills, so that a client that sees a server's skill also finds its prompts and
        // resources.
        self.offerings.store(Arc::new(McpOfferings::merge(&workers)));
        self.current.store(Arc::new(snapshot));
        workers.iter().filter(|worker| worker.is_serving()).for_each(|worker| worker.mark_listed());
        self.changes.send_modify(|change| *change += 1);
    }
}
