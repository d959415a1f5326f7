//! Containers that are started before their call is there.
//!
//! Nearly all of what a container costs is its start; that part is out of the way when the call comes. Each serves one
//! call and is removed after it, so nothing has to be wiped between calls, and nothing can be left over by mistake.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::fleet::{Container, Fleet};
use crate::manifest::Manifest;
use crate::manifest::docker::Warm;

/// Those that wait, by skill.
pub(super) struct Ahead {
    fleet: Arc<Fleet>,
    pools: Mutex<Pools>,
}

#[derive(Default)]
struct Pools {
    by_skill: HashMap<String, Pool>,
    closed: bool,
}

/// Those of one skill.
struct Pool {
    manifest: Arc<Manifest>,
    /// What they were made of: an unpinned name may mean another image by now.
    image_id: String,
    warm: Warm,
    waiting: Vec<(Container, Instant)>,
    starting: usize,
    /// How many in a row could not be used: what holds them may not hold. At [`MAX_FAILURES`] no more are made, until the
    /// manifest changes or the engine comes back.
    failures: u32,
}

/// An engine that is started again stops all that wait: one failure says nothing of what holds them.
const MAX_FAILURES: u32 = 3;

impl Ahead {
    pub(super) fn new(fleet: Arc<Fleet>) -> Self {
        Self { fleet, pools: Mutex::default() }
    }

    /// One that waits for a call of this skill.
    pub(super) fn take(&self, manifest: &Arc<Manifest>, image_id: &str) -> Option<Container> {
        let mut pools = self.pools();
        let pool = pools.by_skill.get_mut(&manifest.id).filter(|it| it.serves(manifest, image_id))?;
        let (fresh, late) = pool.split();
        pool.waiting = fresh;
        let taken = pool.waiting.pop().map(|(container, _)| container);
        drop(pools);
        self.remove(late);
        taken
    }

    /// How many more should be started now, which are counted as starting from here on.
    pub(super) fn begin(&self, manifest: &Arc<Manifest>, image_id: &str, warm: &Warm) -> usize {
        let mut pools = self.pools();
        if pools.closed {
            return 0;
        }
        let old = match pools.by_skill.get(&manifest.id) {
            Some(pool) if !pool.serves(manifest, image_id) => pools.by_skill.remove(&manifest.id),
            _ => None,
        };
        let pool = pools.by_skill.entry(manifest.id.clone()).or_insert_with(|| Pool {
            manifest: Arc::clone(manifest),
            image_id: image_id.to_owned(),
            warm: warm.clone(),
            waiting: Vec::new(),
            starting: 0,
            failures: 0,
        });
        let there = pool.waiting.len() + pool.starting;
        let wanted = if pool.is_broken() { 0 } else { warm.containers.saturating_sub(there) };
        pool.starting += wanted;
        drop(pools);
        self.remove(old.map_or_else(Vec::new, |it| it.waiting.into_iter().map(|(container, _)| container).collect()));
        wanted
    }

    /// One that was begun is there, or could not be started.
    pub(super) fn ready(&self, manifest: &Arc<Manifest>, image_id: &str, container: Option<Container>) {
        let mut pools = self.pools();
        let closed = pools.closed;
        let pool = pools.by_skill.get_mut(&manifest.id).filter(|it| it.serves(manifest, image_id));
        let left = match (pool, container) {
            (Some(pool), container) => {
                pool.starting = pool.starting.saturating_sub(1);
                match container {
                    Some(container) if !closed => {
                        pool.waiting.push((container, Instant::now()));
                        None
                    }
                    Some(container) => Some(container),
                    None => None,
                }
            }
            // The skill changed meanwhile.
            (None, container) => container,
        };
        drop(pools);
        self.remove(left);
    }

    /// One could not be used. Those that wait beside it are most likely no better, and are let go of.
    pub(super) fn failed(&self, manifest: &Manifest) {
        let mut pools = self.pools();
        let Some(pool) = pools.by_skill.get_mut(&manifest.id) else { return };
        pool.failures = pool.failures.saturating_add(1);
        if pool.failures == MAX_FAILURES {
            tracing::warn!(skill_id = manifest.id, "warm.hold does not hold its container: calls start their own");
        }
        let removed: Vec<_> = pool.waiting.drain(..).map(|(container, _)| container).collect();
        drop(pools);
        self.remove(removed);
    }

    /// One served a call.
    pub(super) fn held(&self, manifest: &Manifest) {
        if let Some(pool) = self.pools().by_skill.get_mut(&manifest.id) {
            pool.failures = 0;
        }
    }

    /// The engine was away: what failed meanwhile was its fault.
    pub(super) fn forgive(&self) {
        self.pools().by_skill.values_mut().for_each(|pool| pool.failures = 0);
    }

    /// Lets go of what waited too long, and of skills that are no more.
    pub(super) fn tend(&self, manifests: &[Arc<Manifest>]) {
        let mut removed = Vec::new();
        let mut pools = self.pools();
        pools.by_skill.retain(|_, pool| {
            let kept = manifests.iter().any(|it| **it == *pool.manifest);
            let (fresh, late) = pool.split();
            pool.waiting = fresh;
            removed.extend(late);
            if !kept {
                removed.extend(pool.waiting.drain(..).map(|(container, _)| container));
            }
            kept
        });
        drop(pools);
        self.remove(removed);
    }

    /// Lets go of all, and takes no more.
    pub(super) fn close(&self) {
        self.pools().closed = true;
        self.tend(&[]);
    }

    fn remove(&self, containers: impl IntoIterator<Item = Container>) {
        for container in containers {
            self.fleet.spawn(container.remove());
        }
    }

    fn pools(&self) -> MutexGuard<'_, Pools> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    fn is_broken(&self) -> bool {
        self.failures >= MAX_FAILURES
    }

    fn serves(&self, manifest: &Manifest, image_id: &str) -> bool {
        self.image_id == image_id && *self.manifest == *manifest
    }

    /// Those that may still serve, and those that waited too long.
    fn split(&mut self) -> (Vec<(Container, Instant)>, Vec<Container>) {
        let most = Duration::from_secs(self.warm.idle_s);
        let (fresh, late): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|(_, since)| since.elapsed() < most);
        (fresh, late.into_iter().map(|(container, _)| container).collect())
    }
}
