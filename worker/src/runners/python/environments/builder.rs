//! Builds environments: one at a time by its key, a few at a time in all.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::install::{Job, Tool, storage};
use super::recipe::Recipe;
use super::store::Store;
use crate::config::PythonPackages;
use crate::process::launch::Launcher;

/// Environments that are built at once.
const MOST_BUILDS: usize = 2;

/// How often a worker looks whether another one has finished with an environment.
const STEP: Duration = Duration::from_millis(200);

/// How often a build says that it goes on.
const STILL: Duration = Duration::from_secs(10);

/// Why nothing can be built without a folder for it.
pub(super) const NO_STORE: &str =
    "this worker has no place for the environments of Python skills: set OPENSKILL_PYTHON_ENVIRONMENTS";

/// What builds environments.
pub(super) struct Builder {
    pub(super) settings: PythonPackages,
    launcher: Launcher,
    builds: Semaphore,
}

impl Builder {
    pub(super) fn new(settings: PythonPackages, launcher: Launcher) -> Self {
        Self { settings, launcher, builds: Semaphore::new(MOST_BUILDS) }
    }

    /// Gives the folder of the environment, built by this process or meanwhile by another. Dropping the future ends the
    /// installer.
    ///
    /// # Errors
    /// It can't be built: why not, for people.
    pub(super) async fn build(&self, recipe: &Recipe) -> Result<PathBuf, String> {
        let folder = self.settings.store.clone().ok_or_else(|| NO_STORE.to_owned())?;
        let tool = Tool::find(self.settings.installer)?;
        let store = Store::open(&folder).map_err(|error| storage(&error))?;
        let lock = self.lock(&store, &recipe.key).await?;
        if let Some(folder) = Store::find(&folder, &recipe.key) {
            return Ok(folder);
        }
        let _permit = self.builds.acquire().await.map_err(|error| error.to_string())?;
        let (skill, summary) = (&recipe.skill, recipe.wanted.summary());
        tracing::info!(skill_id = skill, packages = summary, installer = tool.name(), "building an environment");
        (self.settings.progress)(&format!("{skill}: building its environment with {}: {summary}", tool.name()));
        let new = on_disk(&store, &recipe.key, |store, key| store.begin(&key)).await?;
        let unfinished = Unfinished { store: &store, key: &recipe.key };
        let Recipe { base, wanted, source_builds, require_hashes, .. } = recipe;
        let (settings, source_builds, require_hashes) = (&self.settings, *source_builds, *require_hashes);
        let job = Job { tool: &tool, base, wanted, source_builds, require_hashes, settings, folder: &new };
        let limit = self.settings.build_timeout;
        let built = tokio::time::timeout(limit, self.with_news(skill, job.run(&self.launcher))).await;
        built.unwrap_or_else(|_| {
            let seconds = limit.as_secs();
            Err(format!("its environment was not built within {seconds} s (OPENSKILL_PYTHON_BUILD_TIMEOUT_S)"))
        })?;
        let record = recipe.record(tool.name());
        unfinished.passes_on();
        // The lock goes with the work, which goes on when this future is dropped.
        on_disk(&store, &recipe.key, move |store, key| {
            let published = store.publish(&key, &record);
            if published.is_err() {
                store.give_up(&key);
            }
            drop(lock);
            published
        })
        .await
    }

    /// Says every few seconds that a build goes on.
    async fn with_news<T>(&self, skill: &str, work: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(STILL, &mut work).await {
                Ok(done) => return done,
                Err(_) => {
                    (self.settings.progress)(&format!("{skill}: still installing, {} s", begun.elapsed().as_secs()))
                }
            }
        }
    }

    /// Waits until no other process builds this environment.
    async fn lock(&self, store: &Store, key: &str) -> Result<File, String> {
        loop {
            if let Some(lock) = store.lock(key).map_err(|error| storage(&error))? {
                return Ok(lock);
            }
            tokio::time::sleep(STEP).await;
        }
    }
}

/// An environment that is being built. Dropped before its end, it is removed; after it, there is nothing to remove.
struct Unfinished<'a> {
    store: &'a Store,
    key: &'a str,
}

impl Unfinished<'_> {
    /// Leaves the folder to the task that publishes it or removes it.
    fn passes_on(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.store.give_up(self.key);
    }
}

/// Works on the disk for as long as it takes.
async fn on_disk<T: Send + 'static>(
    store: &Store,
    key: &str,
    work: impl FnOnce(Store, String) -> std::io::Result<T> + Send + 'static,
) -> Result<T, String> {
    let (store, key) = (store.clone(), key.to_owned());
    let done = tokio::task::spawn_blocking(move || work(store, key)).await;
    done.map_err(|error| error.to_string())?.map_err(|error| storage(&error))
}
