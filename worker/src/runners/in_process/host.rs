//! The parts of the worker that its built-in functions use, and what they return.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use openskill_proto::v1::SkillError;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::place::Place;
use crate::environment::Surroundings;
use crate::manifest::Manifest;
use crate::process::jail::jailer::Jailer;
use crate::process::launch::Launcher;
use crate::runners::once::no_root;

/// The maximum number of threads that all calls share, besides one each.
const MOST_HELPERS: usize = 7;

/// The parts of the worker that its built-in functions use. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Host {
    pub(super) launcher: Launcher,
    pub(super) surroundings: Surroundings,
    pub(super) jailer: Jailer,
    /// The openskill binary.
    pub(super) binary: PathBuf,
    /// One permit for each thread or process that a call may use besides its first. A call takes the free permits and never
    /// waits: on a busy worker it runs on one thread.
    pub(super) helpers: Arc<Semaphore>,
}

/// What a function returns.
pub(super) struct Report {
    /// JSON text.
    pub(super) data: String,
    /// One line for the model.
    pub(super) text: String,
    pub(super) truncated: bool,
}

/// Takes the free permits, at most `most`.
pub(super) fn spare(helpers: &Semaphore, most: usize) -> Vec<SemaphorePermit<'_>> {
    std::iter::from_fn(|| helpers.try_acquire().ok()).take(most).collect()
}

impl Host {
    pub(crate) fn new(launcher: Launcher, surroundings: Surroundings, jailer: Jailer, binary: PathBuf) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let helpers = Arc::new(Semaphore::new((cores - 1).min(MOST_HELPERS)));
        Self { launcher, surroundings, jailer, binary, helpers }
    }

    /// The allowed root of a call, open, and how callers write paths in it.
    ///
    /// # Errors
    /// It is gone, or was replaced.
    pub(super) fn root(&self, manifest: &Manifest) -> Result<(OwnedFd, Place), SkillError> {
        let root = self.surroundings.run_root(manifest);
        let opened = root.open().map_err(no_root)?;
        Ok((opened, Place::new(root.shown())))
    }
}
