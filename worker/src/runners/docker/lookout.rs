//! Checks in the background whether the engine and the images are available, caches the result, and announces changes.
//!
//! A call uses only [`EngineMonitor::usable_image`], which reads the cache. The worker sends no requests to the
//! engine while no skill needs it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::confinement;
use super::engine::{Engine, ResolvedImage, UsableImage};
use crate::manifest::docker::{Docker, Image, Pull};

/// The pauses between two checks: while something is missing, and otherwise.
const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(5);

/// The engine's timeout while a manifest is loaded, which waits for the answer.
const ANSWER_TO_MANIFEST_WITHIN: Duration = Duration::from_secs(1);

/// The engine's timeout in the background. A busy engine that answers late must not make its skills unavailable.
/// An engine that has ended refuses at once.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// The timeout for inspecting all images together.
const INSPECT_WITHIN: Duration = Duration::from_secs(10);

/// The pause after a failed pull.
const PULL_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Checks the engine and the images in the background, and caches the result.
pub(super) struct EngineMonitor {
    engine: Engine,
    runtime: Handle,
    /// Incremented when a skill becomes available or unavailable.
    offers: watch::Sender<u64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    snapshot: EngineSnapshot,
    /// The images that skills need, and when each may be pulled.
    wanted: HashMap<Image, Pull>,
    pulls: HashMap<Image, Pulling>,
    refreshed_at: Option<Instant>,
    refreshing: bool,
}

/// The result of the last check. Empty before the first one.
#[derive(Default, Clone, PartialEq)]
struct EngineSnapshot {
    /// How many CPUs the engine has, or why it is unavailable.
    engine: Option<Result<f64, String>>,
    images: HashMap<Image, Result<Option<Arc<ResolvedImage>>, String>>,
}

enum Pulling {
    Running,
    Failed { at: Instant, reason: String },
}

impl EngineMonitor {
    pub(super) fn new(engine: Engine, runtime: Handle, offers: watch::Sender<u64>) -> Arc<Self> {
        Arc::new(Self { engine, runtime, offers, state: Mutex::default() })
    }

    /// Returns the image that a skill needs, if it is available.
    ///
    /// # Errors
    /// Returns the reason, for people, if the image is unavailable.
    pub(super) fn usable_image(&self, docker: &Docker) -> Result<UsableImage, String> {
        let state = self.state.lock();
        let cpus = state.snapshot.engine.clone();
        let cpus = cpus.ok_or_else(|| "the container engine has not been contacted yet".to_owned())??;
        let image = state.snapshot.images.get(&docker.image).cloned();
        let image = image.ok_or_else(|| "its image has not been looked up yet".to_owned())??;
        let image = image.ok_or_else(|| missing(docker, state.pulls.get(&docker.image)))?;
        if image.has_volumes {
            let reason =
                "its image declares volumes, which would be writable without a limit: build it without volumes";
            return Err(reason.to_owned());
        }
        if confinement::argv(docker, &image).is_empty() {
            return Err("its image has no command: give docker.command".to_owned());
        }
        Ok(UsableImage { image, cpus })
    }

    /// Updates the set of needed images, and checks in the background if a check is due.
    pub(super) fn maintain(self: &Arc<Self>, wanted: HashMap<Image, Pull>) {
        let mut state = self.state.lock();
        state.wanted = wanted;
        if state.wanted.is_empty() {
            // The next skill that needs the engine requires a fresh check.
            (state.snapshot, state.refreshed_at) = (EngineSnapshot::default(), None);
            state.pulls.retain(|_, it| matches!(it, Pulling::Running));
            return;
        }
        let all_well = matches!(state.snapshot.engine, Some(Ok(_)))
            && state.wanted.keys().all(|it| matches!(state.snapshot.images.get(it), Some(Ok(Some(_)))));
        let pause = if all_well { LATER } else { SOON };
        if !state.refreshing && state.refreshed_at.is_none_or(|it| it.elapsed() >= pause) {
            state.refreshing = true;
            let this = Arc::clone(self);
            self.runtime.spawn(async move { this.refresh(ANSWER_WITHIN, true).await });
        }
    }

    /// Checks immediately, for a new skill. Blocks for little more than the engine's one-second timeout.
    pub(super) fn refresh_now(self: &Arc<Self>, docker: &Docker) {
        let mut state = self.state.lock();
        let known = match &state.snapshot.engine {
            None => false,
            Some(Err(_)) => true,
            Some(Ok(_)) => state.snapshot.images.contains_key(&docker.image),
        };
        if known {
            return;
        }
        state.wanted.insert(docker.image.clone(), docker.pull);
        drop(state);
        let this = Arc::clone(self);
        // Use a separate runtime, because this thread may be the only one of the worker's runtime.
        let refreshed = std::thread::Builder::new().name("container-engine".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(this.refresh(ANSWER_TO_MANIFEST_WITHIN, false));
            Ok::<_, std::io::Error>(())
        });
        if !matches!(refreshed.map(std::thread::JoinHandle::join), Ok(Ok(Ok(())))) {
            tracing::warn!("the request to the container engine failed");
        }
    }

    /// Makes a check due, because a call found the cache wrong.
    pub(super) fn doubt(&self) {
        self.state.lock().refreshed_at = None;
    }

    async fn refresh(self: Arc<Self>, within: Duration, announce: bool) {
        let wanted: Vec<Image> = self.state.lock().wanted.keys().cloned().collect();
        let mut snapshot = inspect(&self.engine, within, &wanted).await;
        let mut state = self.state.lock();
        // Images that were not inspected in time keep their previous state.
        for image in wanted.iter().filter(|_| matches!(snapshot.engine, Some(Ok(_)))) {
            if let Some(known) = state.snapshot.images.get(image) {
                snapshot.images.entry(image.clone()).or_insert_with(|| known.clone());
            }
        }
        let changed = state.snapshot != snapshot;
        if changed && let Some(Err(reason)) = &snapshot.engine {
            tracing::warn!(reason, "skills that need containers are unavailable");
        }
        state.snapshot = snapshot;
        (state.refreshed_at, state.refreshing) = (Some(Instant::now()), false);
        self.pull_missing(&mut state);
        drop(state);
        if changed && announce {
            self.offers.send_modify(|count| *count += 1);
        }
    }

    fn pull_missing(self: &Arc<Self>, state: &mut State) {
        let State { snapshot, wanted, pulls, .. } = state;
        let gone = |image: &Image| matches!(snapshot.images.get(image), Some(Ok(None)));
        for (image, _) in wanted.iter().filter(|(image, pull)| **pull == Pull::Missing && gone(image)) {
            let due = match pulls.get(image) {
                None => true,
                Some(Pulling::Running) => false,
                Some(Pulling::Failed { at, .. }) => at.elapsed() > PULL_AGAIN_AFTER,
            };
            if due {
                tracing::info!(%image, "pulling an image");
                pulls.insert(image.clone(), Pulling::Running);
                self.runtime.spawn(Arc::clone(self).pull(image.clone()));
            }
        }
    }

    async fn pull(self: Arc<Self>, image: Image) {
        let pulled = self.engine.pull(&image).await;
        let mut state = self.state.lock();
        state.refreshed_at = None;
        match pulled {
            Ok(()) => drop(state.pulls.remove(&image)),
            Err(reason) => {
                tracing::warn!(%image, reason, "an image could not be pulled");
                state.pulls.insert(image, Pulling::Failed { at: Instant::now(), reason });
            }
        }
        drop(state);
        self.offers.send_modify(|count| *count += 1);
    }
}

async fn inspect(engine: &Engine, within: Duration, wanted: &[Image]) -> EngineSnapshot {
    let cpus = engine.cpus(within).await;
    let mut images = HashMap::new();
    if cpus.is_ok() {
        let _ = tokio::time::timeout(INSPECT_WITHIN, async {
            for image in wanted {
                let found = engine.find(image).await.map(|it| it.map(Arc::new));
                let found = found.map_err(|error| {
                    tracing::warn!(%image, %error, "an image could not be inspected");
                    "the container engine could not say whether it has its image".to_owned()
                });
                images.insert(image.clone(), found);
            }
        })
        .await;
    }
    EngineSnapshot { engine: Some(cpus), images }
}

fn missing(docker: &Docker, pulling: Option<&Pulling>) -> String {
    match (docker.pull, pulling) {
        (Pull::Missing, Some(Pulling::Failed { reason, .. })) => reason.clone(),
        (Pull::Missing, _) => "its image is being pulled".to_owned(),
        (Pull::Never, _) => "its image is not on this machine, and docker.pull is never".to_owned(),
    }
}
