//! Builds environments: one at a time per key, and a few at a time in total.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use openskill_sandbox::launch::Launcher;
use tokio::sync::Semaphore;

use super::install::{InstallJob, PackageInstaller, storage};
use super::recipe::Recipe;
use super::store::Store;
use super::unfinished::UnfinishedEntry;
use crate::config::PythonPackages;

/// The maximum number of concurrent builds.
const MOST_BUILDS: usize = 2;

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
        let unfinished = UnfinishedEntry::begin(&store, &recipe.key).await.map_err(|error| storage(&error))?;
        if let Some(folder) = Store::find(&folder, &recipe.key) {
            return Ok(folder);
        }
        let _permit = self.builds.acquire().await.map_err(|error| error.to_string())?;
        let (skill, summary) = (&recipe.skill, recipe.wanted.summary());
        tracing::info!(skill_id = skill, packages = summary, installer = tool.name(), "building an environment");
        (self.settings.progress)(&format!("{skill}: building its environment with {}: {summary}", tool.name()));
        let job = InstallJob { tool: &tool, recipe, settings: &self.settings, folder: unfinished.folder() };
        let limit = self.settings.build_timeout;
        let built = tokio::time::timeout(limit, self.with_news(skill, job.run(&self.launcher))).await;
        built.unwrap_or_else(|_| {
            let seconds = limit.as_secs();
            Err(format!("its environment was not built within {seconds} s (OPENSKILL_PYTHON_BUILD_TIMEOUT_S)"))
        })?;
        let record = recipe.record(tool.name());
        // The closure takes the entry with its lock, because the work continues if this future is dropped.
        let published = tokio::task::spawn_blocking(move || unfinished.publish(&record)).await;
        published.map_err(|error| error.to_string())?.map_err(|error| storage(&error))
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
}
