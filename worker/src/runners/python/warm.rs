//! The warm pool of one skill: its fork servers, or its shared interpreters.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use openskill_sandbox::allowed_root::{RootError, RunRoot};
use openskill_sandbox::forkserver::ForkServer;
use openskill_sandbox::protocol::ColdImport;
use openskill_telemetry::metrics::{Snapshot, table};
use parking_lot::Mutex;

use super::forking::Forking;
use super::interpreter::Interpreter;
use super::settings::{COLD_IMPORT_TRACES, Cold, FORK, SHARED, WarmSettings};
use super::shared::SharedPool;
use crate::manifest::Manifest;

/// The warm pool of a skill, for one version of its manifest.
pub(super) struct Warm {
    pub(super) manifest: Arc<Manifest>,
    /// The interpreter that runs the script.
    pub(super) interpreter: Arc<Interpreter>,
    /// The allowed root of its processes. `None` before the first process.
    pub(super) root: Mutex<Option<OwnedFd>>,
    pub(super) backend: WarmBackend,
}

/// The processes of a warm pool: fork servers or shared interpreters.
pub(super) enum WarmBackend {
    Forking(Box<Forking>),
    Shared(SharedPool),
}

impl Warm {
    /// Returns its fork servers. `None` if it has shared interpreters.
    pub(super) fn forking(&self) -> Option<&Forking> {
        match &self.backend {
            WarmBackend::Forking(forking) => Some(forking),
            WarmBackend::Shared(_) => None,
        }
    }

    pub(super) fn needs_rebuild(&self) -> bool {
        self.forking().is_some_and(Forking::needs_rebuild)
    }

    /// Returns whether its processes use this root.
    pub(super) fn knows(&self, root: &RunRoot) -> Result<bool, RootError> {
        let mut known = self.root.lock();
        if let Some(known) = known.as_ref() {
            return root.is_still(known);
        }
        *known = Some(root.open()?);
        // Processes that were started since the last check may use another root.
        Ok(self.processes() == 0)
    }

    pub(super) fn processes(&self) -> usize {
        match &self.backend {
            WarmBackend::Forking(forking) => forking.servers(),
            WarmBackend::Shared(shared) => shared.interpreters(),
        }
    }

    fn cold_imports(&self) -> Vec<ColdImport> {
        self.forking().map(Forking::cold_imports).unwrap_or_default()
    }

    /// Returns the name of its isolation in metrics.
    pub(super) fn isolation(&self) -> &'static str {
        match &self.backend {
            WarmBackend::Forking(_) => FORK,
            WarmBackend::Shared(_) => SHARED,
        }
    }

    /// Explains for people why calls take longer than necessary, as far as is known.
    pub(super) fn explanations(&self) -> Vec<String> {
        let again = |it: ColdImport| {
            let leaves = COLD_IMPORT_TRACES.iter().find(|(trace, _)| *trace == it.leaves);
            let leaves = leaves.map_or("something that forks would share", |(_, text)| text);
            format!("each call runs `{}` again: it leaves {leaves} behind", it.import.escape_default())
        };
        let last = self.forking().and_then(Forking::last_cold).map(Cold::explain);
        last.into_iter().chain(self.cold_imports().into_iter().map(again)).collect()
    }

    pub(super) fn maintain(&self, settings: &WarmSettings) {
        match &self.backend {
            WarmBackend::Forking(forking) => forking.maintain(settings),
            WarmBackend::Shared(shared) => shared.maintain(settings),
        }
        let mut root = self.root.lock();
        if self.processes() == 0 {
            *root = None;
        }
    }

    /// Ends the warm processes, each after its last call; later calls start others. Returns the fork servers, so that
    /// the caller can wait for them. Shared interpreters need no wait.
    pub(super) fn retire(&self) -> Vec<Arc<ForkServer>> {
        match &self.backend {
            WarmBackend::Forking(forking) => forking.retire(),
            WarmBackend::Shared(shared) => {
                shared.retire();
                Vec::new()
            }
        }
    }
}

/// Counts the imports that each call repeats.
pub(super) fn measure_imports(all: &[Arc<Warm>], metrics: &mut Snapshot) {
    let imports: Vec<_> = all.iter().flat_map(|warm| warm.cold_imports()).collect();
    for (trace, _) in COLD_IMPORT_TRACES {
        let count = imports.iter().filter(|it| it.leaves == trace).count();
        metrics.number(&table::COLD_IMPORTS, &[trace], count as f64);
    }
}
