//! The containers of this worker: each has a name before it is created, so that none is leaked.
//!
//! Everything here runs as tasks of the worker's main runtime. A call's own future runs on the runtime of a shard and is
//! dropped at its deadline; what removes its container has to outlive both.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::CreateContainerOptionsBuilder;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::containers::{list, remove};
use super::engine::Engine;
use super::owner::{INSTANCE, Owner};
use super::sentinel::Sentinel;

/// How often a removal is tried before it is left to the sweep, and what lies between the first two tries.
const TRIES: u32 = 6;
const STEP: Duration = Duration::from_millis(100);

/// How long the end of the worker waits for its containers'.
const END_WITHIN: Duration = Duration::from_secs(5);

/// The containers of this worker.
pub(super) struct Fleet {
    pub(super) engine: Engine,
    pub(super) owner: Owner,
    sentinel: Sentinel,
    runtime: Handle,
    tasks: TaskTracker,
    /// The names of those that are made, run, or are being removed.
    live: Mutex<HashSet<String>>,
    /// The names of those that could not be removed: for the sweep.
    lost: Mutex<HashSet<String>>,
    made: AtomicU64,
}

/// A container. It is removed by [`Container::remove`]; one that was dropped instead is found by the sweep.
pub(super) struct Container {
    pub(super) client: Docker,
    pub(super) name: String,
    fleet: Arc<Fleet>,
}

impl Fleet {
    pub(super) fn new(engine: Engine, owner: Owner, sentinel: Sentinel, runtime: Handle) -> Arc<Self> {
        let (tasks, made) = (TaskTracker::new(), AtomicU64::new(0));
        let (live, lost) = (Mutex::default(), Mutex::default());
        Arc::new(Self { engine, owner, sentinel, runtime, tasks, live, lost, made })
    }

    /// Does this whatever becomes of the caller.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(work, &self.runtime);
    }

    /// Makes a container. Not to be dropped half-way: the engine might make it after it was looked for.
    pub(super) async fn create(self: &Arc<Self>, body: ContainerCreateBody) -> Result<Container, Error> {
        // Before the first container there is somebody who removes it should this process be killed.
        self.sentinel.ensure(&self.engine, &self.owner)?;
        let client = self.engine.client()?;
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let name = format!("openskill-{}-{number}", self.owner.instance);
        self.live().insert(name.clone());
        // From here on a failure is not the end of it: the name is given back when nothing has it any more.
        let container = Container { client, name, fleet: Arc::clone(self) };
        let options = CreateContainerOptionsBuilder::default().name(&container.name).build();
        match container.client.create_container(Some(options), body).await {
            Ok(_) => Ok(container),
            Err(error @ Error::DockerResponseServerError { .. }) => {
                self.live().remove(&container.name);
                Err(error)
            }
            Err(error) => {
                container.remove().await;
                Err(error)
            }
        }
    }

    /// Removes what dead workers left behind, and what of our own was not removed when it should have been. Whether of
    /// our own nothing is left to be removed.
    pub(super) async fn sweep(&self) -> bool {
        let Ok(client) = self.engine.client() else { return false };
        // What is made or removed during the request is in one of the two.
        let before = self.live().clone();
        let lost_before = self.lost().clone();
        let Ok(found) = list(&client, INSTANCE).await else { return false };
        let after = self.live().clone();
        let is_live = |name: &String| before.contains(name) || after.contains(name);
        let (mut removed, mut left) = (0, HashSet::new());
        for (name, labels) in found {
            let own = labels.get(INSTANCE) == Some(&self.owner.instance);
            let lost = if own { !is_live(&name) } else { self.owner.is_abandoned(&labels, self.engine.is_local()) };
            if !lost {
                continue;
            }
            if remove(&client, &name).await {
                removed += 1;
            } else if own {
                left.insert(name);
            }
        }
        if removed > 0 {
            tracing::warn!(removed, "removed orphaned containers");
        }
        let mut lost = self.lost();
        // What was given up during the request was not looked at.
        lost.retain(|name| left.contains(name) || is_live(name) || !lost_before.contains(name));
        lost.extend(left);
        lost.is_empty()
    }

    /// Whether there are containers that could not be removed.
    pub(super) fn has_lost(&self) -> bool {
        !self.lost().is_empty()
    }

    /// Waits for every container's end, and looks once more whether there is one left.
    pub(super) async fn close(&self) {
        self.tasks.close();
        let end = async {
            self.tasks.wait().await;
            // Who never made one has nothing to look for.
            self.made.load(Ordering::Relaxed) == 0 || self.sweep().await
        };
        if !matches!(tokio::time::timeout(END_WITHIN, end).await, Ok(true)) {
            tracing::warn!("not all containers could be removed; the sentinel continues");
            return self.sentinel.leave();
        }
        self.sentinel.dismiss().await;
    }

    fn lost(&self) -> MutexGuard<'_, HashSet<String>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> MutexGuard<'_, HashSet<String>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Container {
    /// Ends it, whatever it does, and removes it.
    pub(super) async fn remove(self) {
        for attempt in 0..TRIES {
            if remove(&self.client, &self.name).await {
                self.fleet.live().remove(&self.name);
                return;
            }
            tokio::time::sleep(STEP * 2_u32.pow(attempt)).await;
        }
        // The sweep takes it for what it is. In this order: at each moment one of the two has it.
        self.fleet.lost().insert(self.name.clone());
        self.fleet.live().remove(&self.name);
    }
}
