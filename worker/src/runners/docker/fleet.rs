//! This worker's containers. Each gets a name before it is created, so that none is leaked. Its labels name its owner,
//! so that any process can find out whether its worker still runs.
//!
//! Everything here runs in tasks on the worker's main runtime. A call's future runs on a shard's runtime and is
//! dropped at its deadline. The task that removes its container must outlive both.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::CreateContainerOptionsBuilder;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::engine::{Engine, list, remove};
use super::owner::{ContainerOwner, INSTANCE};
use super::sentinel::Sentinel;

/// The number of attempts to remove a container before the sweep takes over, and the pause between the first two.
const TRIES: u32 = 6;
const STEP: Duration = Duration::from_millis(100);

/// The maximum time that a worker waits for its containers when it shuts down.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Creates, tracks and removes this worker's containers.
pub(super) struct Fleet {
    pub(super) engine: Engine,
    pub(super) owner: ContainerOwner,
    sentinel: Sentinel,
    runtime: Handle,
    tasks: TaskTracker,
    /// The names of containers that are being created, are running, or are being removed.
    live: Mutex<HashSet<String>>,
    /// The names of containers that could not be removed. The sweep retries them.
    lost: Mutex<HashSet<String>>,
    made: AtomicU64,
}

/// A container, which [`Container::remove`] removes. If it is only dropped, the sweep removes it.
pub(super) struct Container {
    pub(super) client: Docker,
    pub(super) name: String,
    fleet: Arc<Fleet>,
}

impl Fleet {
    pub(super) fn new(engine: Engine, owner: ContainerOwner, sentinel: Sentinel, runtime: Handle) -> Arc<Self> {
        let (tasks, made) = (TaskTracker::new(), AtomicU64::new(0));
        let (live, lost) = (Mutex::default(), Mutex::default());
        Arc::new(Self { engine, owner, sentinel, runtime, tasks, live, lost, made })
    }

    /// Spawns a task that runs to its end, even if the caller is gone.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(work, &self.runtime);
    }

    /// Creates a container. Must run to completion: otherwise the engine might create the container after the
    /// sweep looked for it.
    pub(super) async fn create(self: &Arc<Self>, body: ContainerCreateBody) -> Result<Container, Error> {
        // The sentinel must run before the first container exists: it removes containers if this process is killed.
        self.sentinel.ensure(&self.engine, &self.owner)?;
        let client = self.engine.client()?;
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let name = format!("openskill-{}-{number}", self.owner.instance);
        self.live.lock().insert(name.clone());
        // From here on, an error does not release the name. It is released when no container has it any more.
        let container = Container { client, name, fleet: Arc::clone(self) };
        let options = CreateContainerOptionsBuilder::default().name(&container.name).build();
        match container.client.create_container(Some(options), body).await {
            Ok(_) => Ok(container),
            Err(error @ Error::DockerResponseServerError { .. }) => {
                self.live.lock().remove(&container.name);
                Err(error)
            }
            Err(error) => {
                container.remove().await;
                Err(error)
            }
        }
    }

    /// Removes containers of dead workers, and those of this worker that were not removed in time. Returns whether
    /// all of this worker's containers are removed.
    pub(super) async fn sweep(&self) -> bool {
        let Ok(client) = self.engine.client() else { return false };
        // One of the two lists contains each container that is created or removed during the request.
        let before = self.live.lock().clone();
        let lost_before = self.lost.lock().clone();
        let Ok(found) = list(&client, INSTANCE).await else { return false };
        let after = self.live.lock().clone();
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
        let mut lost = self.lost.lock();
        // Containers that were given up during the request were not checked.
        lost.retain(|name| left.contains(name) || is_live(name) || !lost_before.contains(name));
        lost.extend(left);
        lost.is_empty()
    }

    /// Returns whether any containers could not be removed.
    pub(super) fn has_lost(&self) -> bool {
        !self.lost.lock().is_empty()
    }

    /// Waits until all containers have ended, and checks once more whether one is left.
    pub(super) async fn close(&self) {
        self.tasks.close();
        let end = async {
            self.tasks.wait().await;
            // A worker that never created a container need not look for any.
            self.made.load(Ordering::Relaxed) == 0 || self.sweep().await
        };
        if !matches!(tokio::time::timeout(END_WITHIN, end).await, Ok(true)) {
            tracing::warn!(
                "some containers were not removed before the shutdown; the process `openskill sentinel` continues to remove them"
            );
            return self.sentinel.leave();
        }
        self.sentinel.dismiss().await;
    }
}

impl Container {
    /// Kills and removes the container, whatever it does.
    pub(super) async fn remove(self) {
        for attempt in 0..TRIES {
            if remove(&self.client, &self.name).await {
                self.fleet.live.lock().remove(&self.name);
                return;
            }
            tokio::time::sleep(STEP * 2_u32.pow(attempt)).await;
        }
        // From here on, the sweep is responsible. The order matters: at every moment, one of the two lists
        // contains the name.
        self.fleet.lost.lock().insert(self.name.clone());
        self.fleet.live.lock().remove(&self.name);
    }
}
