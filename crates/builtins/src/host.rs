//! The parts of the worker that its built-in functions share, and the functions' output.

use std::path::PathBuf;
use std::sync::Arc;

use openskill_sandbox::Limits;
use openskill_sandbox::jail::jailer::{JailRequest, Jailer};
use openskill_sandbox::jail::plan::Plan;
use openskill_sandbox::jail::{Level, Network};
use openskill_sandbox::launch::Launcher;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The maximum number of additional threads, shared by all calls. Each call also has one thread of its own.
const MOST_HELPERS: usize = 7;

/// The parts of the worker that its built-in functions share. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    pub(crate) launcher: Launcher,
    jailer: Jailer,
    /// The path of the `openskill` binary.
    pub(crate) binary: PathBuf,
    /// One permit for each additional thread or process of a call. A call takes the free permits without waiting,
    /// so on a busy worker it runs on a single thread.
    pub(crate) helpers: Arc<Semaphore>,
}

/// The result of a built-in function.
pub struct FunctionOutput {
    /// The result as JSON text.
    pub data: String,
    /// A one-line summary for the model.
    pub text: String,
    /// Whether the data is only part of the complete result.
    pub truncated: bool,
}

/// Takes free permits without waiting, at most `most`.
pub(crate) fn spare(helpers: &Semaphore, most: usize) -> Vec<SemaphorePermit<'_>> {
    std::iter::from_fn(|| helpers.try_acquire().ok()).take(most).collect()
}

impl Host {
    /// `binary` is the path of the `openskill` binary.
    pub fn new(launcher: Launcher, jailer: Jailer, binary: PathBuf) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let helpers = Arc::new(Semaphore::new((cores - 1).min(MOST_HELPERS)));
        Self { launcher, jailer, binary, helpers }
    }

    /// Plans a jail for a process without network access that sees nothing of the worker. The process may read and
    /// execute only the paths in `readable`.
    ///
    /// # Errors
    /// This machine does not provide such a jail.
    pub(crate) fn isolated_plan(&self, level: Level, limits: &Limits, readable: Vec<PathBuf>) -> Result<Plan, String> {
        let (network, writable) = (&Network::None, Vec::new());
        self.jailer.plan(JailRequest { level, network, limits, readable, writable, root: None, start: None })
    }
}
