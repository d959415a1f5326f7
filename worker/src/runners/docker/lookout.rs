//! Whether the engine and the images are available: checked in the background, cached, and announced on change.
//!
//! Nothing here is asked on a call but [`Lookout::sight`], which reads what is remembered. The engine is never asked
//! while no skill needs it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::confinement;
use super::engine::{Engine, Facts, Found};
use crate::manifest::docker::{Docker, Image, Pull};

/// Between two looks while something is missing, and while all is well.
const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(5);

/// How long all images together may take to be looked at.
const LOOK_WITHIN: Duration = Duration::from_secs(10);

/// How long a pull that failed is left alone.
const PULL_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// What is remembered.
pub(super) struct Lookout {
    engine: Engine,
    runtime: Handle,
    /// Counted up when a skill became available, or stopped to be.
    offers: watch::Sender<u64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: Seen,
    /// What skills need, and whether it may be pulled.
    wanted: HashMap<Image, Pull>,
    pulls: HashMap<Image, Pulling>,
    looked: Option<Instant>,
    looking: bool,
}

/// What one look saw. Nothing at first.
#[derive(Default, Clone, PartialEq)]
struct Seen {
    engine: Option<Result<Facts, String>>,
    images: HashMap<Image, Result<Option<Arc<Found>>, String>>,
}

enum Pulling {
    Running,
    Failed { at: Instant, reason: String },
}

/// An image that can be used, and the engine that has it.
#[derive(Clone)]
pub(super) struct Sight {
    pub(super) image: Arc<Found>,
    pub(super) facts: Facts,
}

impl Lookout {
    pub(super) fn new(engine: Engine, runtime: Handle, offers: watch::Sender<u64>) -> Arc<Self> {
        Arc::new(Self { engine, runtime, offers, state: Mutex::default() })
    }

    /// What a skill needs, if it is there.
    ///
    /// # Errors
    /// Why not, for people.
    pub(super) fn sight(&self, docker: &Docker) -> Result<Sight, String> {
        let state = self.state();
        let facts = match &state.seen.engine {
            None => return Err("the container engine was not asked yet".to_owned()),
            Some(Err(reason)) => return Err(reason.clone()),
            Some(Ok(facts)) => *facts,
        };
        let image = match state.seen.images.get(&docker.image) {
            None => return Err("its image was not looked for yet".to_owned()),
            Some(Err(reason)) => return Err(reason.clone()),
            Some(Ok(None)) => return Err(missing(docker, state.pulls.get(&docker.image))),
            Some(Ok(Some(image))) => Arc::clone(image),
        };
        if image.has_volumes {
            return Err(
                "its image declares volumes, which would be writable without a bound: build it without".to_owned()
            );
        }
        match confinement::argv(docker, &image).is_empty() {
            true => Err("its image has no command of its own: give docker.command".to_owned()),
            false => Ok(Sight { image, facts }),
        }
    }

    /// Takes over what skills need now, and looks again in the background if it is time.
    pub(super) fn tend(self: &Arc<Self>, wanted: HashMap<Image, Pull>) {
        let mut state = self.state();
        state.wanted = wanted;
        if state.wanted.is_empty() {
            // Whoever needs the engine next wants to know how it is then.
            (state.seen, state.looked) = (Seen::default(), None);
            state.pulls.retain(|_, it| matches!(it, Pulling::Running));
            return;
        }
        let all_well = matches!(state.seen.engine, Some(Ok(_)))
            && state.wanted.keys().all(|it| matches!(state.seen.images.get(it), Some(Ok(Some(_)))));
        let pause = if all_well { LATER } else { SOON };
        if !state.looking && state.looked.is_none_or(|it| it.elapsed() >= pause) {
            state.looking = true;
            let this = Arc::clone(self);
            self.runtime.spawn(async move { this.look(true).await });
        }
    }

    /// Looks at once, for a skill that is new. Blocks for little more than the second an engine has to answer.
    pub(super) fn look_now(self: &Arc<Self>, docker: &Docker) {
        let mut state = self.state();
        let known = match &state.seen.engine {
            None => false,
            Some(Err(_)) => true,
            Some(Ok(_)) => state.seen.images.contains_key(&docker.image),
        };
        if known {
            return;
        }
        state.wanted.insert(docker.image.clone(), docker.pull);
        drop(state);
        let this = Arc::clone(self);
        // On a runtime of its own: this thread may be the only one of the worker's.
        let looked = std::thread::Builder::new().name("container-engine".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(this.look(false));
            Ok::<_, std::io::Error>(())
        });
        if !matches!(looked.map(std::thread::JoinHandle::join), Ok(Ok(Ok(())))) {
            tracing::warn!("the container engine could not be asked");
        }
    }

    /// Looks again soon: a call found that something is not as remembered.
    pub(super) fn doubt(&self) {
        self.state().looked = None;
    }

    async fn look(self: Arc<Self>, announce: bool) {
        let wanted: Vec<Image> = self.state().wanted.keys().cloned().collect();
        let seen = see(&self.engine, &wanted).await;
        let mut state = self.state();
        let changed = state.seen != seen;
        if changed && let Some(Err(reason)) = &seen.engine {
            tracing::warn!(reason, "skills that need containers are unavailable");
        }
        state.seen = seen;
        (state.looked, state.looking) = (Some(Instant::now()), false);
        self.pull_missing(&mut state);
        drop(state);
        if changed && announce {
            self.announce();
        }
    }

    fn pull_missing(self: &Arc<Self>, state: &mut State) {
        let State { seen, wanted, pulls, .. } = state;
        let gone = |image: &Image| matches!(seen.images.get(image), Some(Ok(None)));
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
        let mut state = self.state();
        state.looked = None;
        match pulled {
            Ok(()) => drop(state.pulls.remove(&image)),
            Err(reason) => {
                tracing::warn!(%image, reason, "an image could not be pulled");
                state.pulls.insert(image, Pulling::Failed { at: Instant::now(), reason });
            }
        }
        drop(state);
        self.announce();
    }

    fn announce(&self) {
        self.offers.send_modify(|count| *count += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn see(engine: &Engine, wanted: &[Image]) -> Seen {
    let facts = engine.look().await;
    let mut images = HashMap::new();
    if facts.is_ok() {
        // Those that were not reached in time are looked at next time.
        let _ = tokio::time::timeout(LOOK_WITHIN, async {
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
    Seen { engine: Some(facts), images }
}

fn missing(docker: &Docker, pulling: Option<&Pulling>) -> String {
    match (docker.pull, pulling) {
        (Pull::Missing, Some(Pulling::Failed { reason, .. })) => reason.clone(),
        (Pull::Missing, _) => "its image is being pulled".to_owned(),
        (Pull::Never, _) => "its image is not here, and pull is never".to_owned(),
    }
}
