//! The warm pool of one skill: its fork servers, or its shared interpreters.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use openskill_metrics::{Snapshot, table};

use super::forking::Forking;
use super::interpreter::Interpreter;
use super::settings::{COLD_IMPORT_TRACES, Cold, FORK, SHARED, WarmSettings};
use super::shared::Shared;
use crate::allowed_root::{RootError, RunRoot};
use crate::manifest::Manifest;
use crate::process::forkserver::ForkServer;
use crate::process::protocol::ColdImport;

/// The warm pool of a skill, for one version of its manifest.
pub(super) struct Warm {
    pub(super) manifest: Arc<Manifest>,
    /// What runs its script.
    pub(super) interpreter: Arc<Interpreter>,
    /// The allowed root that its processes know; none while there is no process.
    pub(super) root: Mutex<Option<OwnedFd>>,
    pub(super) kept: Kept,
}

pub(super) enum Kept {
    Forking(Box<Forking>),
    Shared(Shared),
}

impl Warm {
    pub(super) fn needs_rebuild(&self) -> bool {
        matches!(&self.kept, Kept::Forking(forking) if forking.needs_rebuild())
    }

    /// Whether this is the root that its processes know.
    pub(super) fn knows(&self, root: &RunRoot) -> Result<bool, RootError> {
        let mut known = self.root.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref() {
            return root.is_still(known);
        }
        *known = Some(root.open()?);
        // One that was started since the last look may know another.
        Ok(self.processes() == 0)
    }

    pub(super) fn processes(&self) -> usize {
        match &self.kept {
            Kept::Forking(forking) => forking.servers(),
            Kept::Shared(shared) => shared.interpreters(),
        }
    }

    fn cold_imports(&self) -> Vec<ColdImport> {
        match &self.kept {
            Kept::Forking(forking) => forking.cold_imports(),
            Kept::Shared(_) => Vec::new(),
        }
    }

    fn last_cold(&self) -> Option<Cold> {
        match &self.kept {
            Kept::Forking(forking) => forking.last_cold(),
            Kept::Shared(_) => None,
        }
    }

    /// The name in metrics.
    pub(super) fn isolation(&self) -> &'static str {
        match &self.kept {
            Kept::Forking(_) => FORK,
            Kept::Shared(_) => SHARED,
        }
    }

    /// Why calls take longer than they could, as far as is known: sentences for people.
    pub(super) fn explanations(&self) -> Vec<String> {
        let again = |it: ColdImport| {
            let leaves = COLD_IMPORT_TRACES.iter().find(|(trace, _)| *trace == it.leaves);
            let leaves = leaves.map_or("something that forks would share", |(_, text)| text);
            format!("each call runs `{}` again: it leaves {leaves} behind", it.import.escape_default())
        };
        self.last_cold().map(explained).into_iter().chain(self.cold_imports().into_iter().map(again)).collect()
    }

    pub(super) fn tend(&self, settings: &WarmSettings) {
        match &self.kept {
            Kept::Forking(forking) => forking.tend(settings),
            Kept::Shared(shared) => shared.tend(settings),
        }
        let mut root = self.root.lock().unwrap_or_else(PoisonError::into_inner);
        if self.processes() == 0 {
            *root = None;
        }
    }

    /// Takes no more calls. The fork servers that end after their last one.
    pub(super) fn retire(&self) -> Vec<Arc<ForkServer>> {
        match &self.kept {
            Kept::Forking(forking) => forking.retire(),
            Kept::Shared(shared) => {
                shared.retire();
                Vec::new()
            }
        }
    }
}

/// Counts the imports that calls run again.
pub(super) fn measure_imports(all: &[Arc<Warm>], metrics: &mut Snapshot) {
    let imports: Vec<_> = all.iter().flat_map(|warm| warm.cold_imports()).collect();
    for (trace, _) in COLD_IMPORT_TRACES {
        let count = imports.iter().filter(|it| it.leaves == trace).count();
        metrics.number(&table::COLD_IMPORTS, &[trace], count as f64);
    }
}

/// Why calls get a fresh interpreter, for people.
pub(super) fn explained(cold: Cold) -> String {
    format!("calls get a fresh interpreter: {}", cold.explanation())
}
