//! Builds environments: one at a time per key, and a few at a time in total.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use openskill_sandbox::launch::Launcher;
use tokio::sync::Semaphore;

use super::install::{InstallJob, PackageInstaller, storage};
use super::recipe::Recipe;
use super::store::Store;
use crate::config::PythonPackages;

/// The maximum number of concurrent builds.
const MOST_BUILDS: usize = 2;

/// The interval between checks whether another worker finished a build.
const STEP: Duration = Duration::from_millis(200);

/// The interval between log messages about a running build.
const STILL: Duration = Duration::from_secs(10);

/// The reason why nothing can be built without a folder for environments.
pub(super) const NO_STORE: &str =
    "this worker has no directory for the environments of Python skills: set OPENSKILL_PYTHON_ENVIRONMENTS";

/// Builds environments, within the limit on concurrent builds.
pub(super) struct Builder {
    pub(super) settings: PythonPackages,
    launcher: Launcher,
    builds: Semaphore,
}

impl Builder {
    pub(super) fn new(settings: PythonPackages, launcher: Launcher) -> Self {
        Self { settings, launcher, builds: Semaphore::new(MOST_BUILDS) }
    }

    /// Builds an environment, unless another process builds it meanwhile, and returns its folder. Dropping the
    /// future stops the installer.
    ///
    /// # Errors
    /// Returns the reason, for people, if the environment can't be built.
    pub(super) async fn build(&self, recipe: &Recipe) -> Result<PathBuf, String> {
        let folder = self.settings.store.clone().ok_or_else(|| NO_STORE.to_owned())?;
        let tool = PackageInstaller::find(self.settings.installer)?;
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
        let job = InstallJob { tool: &tool, base, wanted, source_builds, require_hashes, settings, folder: &new };
        let limit = self.settings.build_timeout;
        let built = tokio::time::timeout(limit, self.with_news(skill, job.run(&self.launcher))).await;
        built.unwrap_or_else(|_| {
            let seconds = limit.as_secs();
            Err(format!("its environment was not built within {seconds} s (OPENSKILL_PYTHON_BUILD_TIMEOUT_S)"))
        })?;
        let record = recipe.record(tool.name());
        unfinished.passes_on();
        // The closure takes the lock, because the work continues if this future is dropped.
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

    /// Logs every few seconds that a build is still in progress.
    async fn with_news<T>(&self, skill: &str, work: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(STILL, &mut work).await {
                Ok(done) => return done,
                Err(_) => (self.settings.progress)(&format!(
                    "{skill}: still installing after {} s",
                    begun.elapsed().as_secs()
                )),
            }
        }
    }

    /// Waits until it holds the lock that excludes other builders of this environment.
    async fn lock(&self, store: &Store, key: &str) -> Result<File, String> {
        loop {
            if let Some(lock) = store.lock(key).map_err(|error| storage(&error))? {
                return Ok(lock);
            }
            tokio::time::sleep(STEP).await;
        }
    }
}

/// An unfinished environment. Dropping it removes the environment.
struct Unfinished<'a> {
    store: &'a Store,
    key: &'a str,
}

impl Unfinished<'_> {
    /// Leaves the folder to the task that publishes or removes it.
    fn passes_on(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.store.give_up(self.key);
    }
}

/// Runs disk operations on the blocking pool.
async fn on_disk<T: Send + 'static>(
    store: &Store,
    key: &str,
    work: impl FnOnce(Store, String) -> std::io::Result<T> + Send + 'static,
) -> Result<T, String> {
    let (store, key) = (store.clone(), key.to_owned());
    let done = tokio::task::spawn_blocking(move || work(store, key)).await;
    done.map_err(|error| error.to_string())?.map_err(|error| storage(&error))
}
