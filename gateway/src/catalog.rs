//! The skills that can be called: what all workers offer, merged.
//!
//! A snapshot is immutable. A call looks its skill up in the current one; each change of a worker makes a new one.
//!
//! - [`entry`]: one skill; [`snapshot`]: all of them at one moment; [`mod@merge`]: how a snapshot is made
//! - [`definitions`]: compiled schemas; [`lookup`]: the skill of a call

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use openskill_metrics::Skills;
use openskill_proto::v1::Skill;
use tokio::sync::watch;

use crate::arguments::nearest;
use crate::workers::fleet::Fleet;

mod definitions;
pub(crate) mod entry;
pub(crate) mod lookup;
mod merge;
pub(crate) mod snapshot;

use definitions::Definitions;
use entry::Entry;
use merge::merge;
use snapshot::Snapshot;

/// How long a skill whose workers went away is expected back.
const RECENTLY: Duration = Duration::from_secs(30);

/// The catalog.
#[derive(Debug)]
pub(crate) struct Catalog {
    current: ArcSwap<Snapshot>,
    definitions: Definitions,
    series: Arc<Skills>,
    changes: watch::Sender<u64>,
    /// Skills that left with their workers, and when. They may be back soon.
    departed: std::sync::Mutex<HashMap<String, Instant>>,
    /// Held while a snapshot is made, so that an older view of the workers never replaces a newer one.
    building: std::sync::Mutex<()>,
}

impl Catalog {
    /// Without skills yet. `series` is what is counted of each.
    pub(crate) fn new(series: Arc<Skills>) -> Self {
        Self {
            current: ArcSwap::default(),
            definitions: Definitions::default(),
            series,
            changes: watch::Sender::new(0),
            departed: std::sync::Mutex::default(),
            building: std::sync::Mutex::default(),
        }
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Entry>> {
        self.current.load().get(id).cloned()
    }

    /// The id most similar to this one, if one is near.
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

    /// Notifies of each new snapshot.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Compiles the schemas of skills that a worker is about to offer, so that they can be called as soon as it is up.
    pub(crate) fn compile(&self, skills: &[Skill]) {
        skills.iter().for_each(|skill| drop(self.definitions.get(skill)));
    }

    /// Whether a worker that is gone now offered the skill a moment ago: it restarts, say.
    pub(crate) fn had_recently(&self, id: &str) -> bool {
        let departed = self.departed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        departed.get(id).is_some_and(|at| at.elapsed() < RECENTLY)
    }

    /// `now` are the skills that are offered.
    fn note_departed(&self, now: &HashSet<&str>) {
        let mut departed = self.departed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        departed.retain(|id, at| at.elapsed() < RECENTLY && !now.contains(id.as_str()));
        let before = self.current.load();
        // A skill that its worker no longer offers was removed on purpose.
        let left = |entry: &&Arc<Entry>| entry.candidates.iter().any(|it| !it.worker.is_serving());
        let gone = before.values().filter(|entry| !now.contains(entry.skill.id.as_str())).filter(left);
        departed.extend(gone.map(|entry| (entry.skill.id.clone(), Instant::now())));
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
        let snapshot = merge(&workers, (&self.definitions, &self.series), &self.current.load());
        // Also of offers that are not listed now: in a rolling update they may be again.
        self.definitions.keep(offered().chain(snapshot.values().map(|entry| &entry.skill)));
        self.current.store(Arc::new(snapshot));
        workers.iter().filter(|worker| worker.is_serving()).for_each(|worker| worker.mark_listed());
        self.changes.send_modify(|change| *change += 1);
    }
}
