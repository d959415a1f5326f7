//! What bounds process trees on this machine: found by the worker, sent to each supervisor.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What the name of a worker's own folder begins with.
pub(super) const WORKER_PREFIX: &str = "openskill-";

/// What the name of a tree's folder begins with.
pub(super) const TREE_PREFIX: &str = "run-";

/// Who counts what a process tree uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The kernel, by control groups of version 2.
    V2,
    /// The kernel, by control groups of version 1.
    V1,
    /// The supervisor, by looking.
    Measured,
}

impl Kind {
    /// `cgroup v2`, `cgroup v1` or `measured`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::V2 => "cgroup v2",
            Self::V1 => "cgroup v1",
            Self::Measured => "measured",
        }
    }
}

/// What bounds process trees here. The worker finds it once; see `find`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Controller {
    pub(super) place: Place,
    /// Why it is no better kind. A supervisor has no use for it.
    #[serde(skip)]
    pub(super) reason: String,
}

/// Where a worker's own folder is, in each hierarchy that is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    V2 {
        base: PathBuf,
    },
    /// The same folder more than once where several controllers are in one hierarchy.
    V1 {
        memory: PathBuf,
        pids: PathBuf,
        /// Counts CPU time. None: the supervisor does, by looking.
        cpuacct: Option<PathBuf>,
    },
    Measured,
}

impl Place {
    /// The worker's folders, each once. Processes first: what can't fork is killed more easily.
    pub(super) fn bases(&self) -> Vec<&Path> {
        match self {
            Self::V2 { base } => vec![base],
            Self::V1 { memory, pids, cpuacct } => {
                let mut bases: Vec<&Path> = vec![pids];
                for base in [Some(memory), cpuacct.as_ref()].into_iter().flatten() {
                    if !bases.contains(&base.as_path()) {
                        bases.push(base);
                    }
                }
                bases
            }
            Self::Measured => Vec::new(),
        }
    }
}

impl Controller {
    /// Who counts.
    pub(crate) fn kind(&self) -> Kind {
        match self.place {
            Place::V2 { .. } => Kind::V2,
            Place::V1 { .. } => Kind::V1,
            Place::Measured => Kind::Measured,
        }
    }

    /// The least that the groups around may have of memory, in bytes: those of the worker, its service and its container. None:
    /// nothing is said.
    pub(crate) fn memory_around(&self) -> Option<u64> {
        let (base, file) = match &self.place {
            Place::V2 { base } => (base, "memory.max"),
            Place::V1 { memory, .. } => (memory, "memory.limit_in_bytes"),
            Place::Measured => return None,
        };
        let limit = |group: &Path| std::fs::read_to_string(group.join(file)).ok()?.trim().parse().ok();
        base.ancestors().filter_map(limit).min()
    }

    /// Why it is no better kind, and what to do about it, for an operator. Empty for v2, and in a supervisor.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().word())?;
        for (number, base) in self.place.bases().into_iter().enumerate() {
            write!(f, "{}{}", if number == 0 { " at " } else { " and " }, base.display())?;
        }
        Ok(())
    }
}
