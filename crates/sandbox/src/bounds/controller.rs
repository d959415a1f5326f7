//! Describes how this machine limits process trees. The worker finds this out and sends it to each supervisor.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The prefix of the names of workers' folders.
pub(super) const WORKER_PREFIX: &str = "openskill-";

/// The prefix of the names of trees' folders.
pub(super) const TREE_PREFIX: &str = "run-";

/// What counts a process tree's usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The kernel, in control groups of version 2.
    V2,
    /// The kernel, in control groups of version 1.
    V1,
    /// The supervisor, by polling `/proc`.
    Measured,
}

impl Kind {
    /// Returns `cgroup v2`, `cgroup v1` or `measured`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::V2 => "cgroup v2",
            Self::V1 => "cgroup v1",
            Self::Measured => "measured",
        }
    }
}

/// How this machine limits process trees. The worker finds this out once; see `find`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Controller {
    pub(super) place: CgroupLayout,
    /// Why no better kind is available. Not sent to supervisors.
    #[serde(skip)]
    pub(super) reason: String,
}

/// The worker's folder in each hierarchy that is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CgroupLayout {
    V2 {
        base: PathBuf,
    },
    /// If one hierarchy has several controllers, their fields contain the same folder.
    V1 {
        memory: PathBuf,
        pids: PathBuf,
        /// The folder that counts CPU time. `None` if the supervisor measures it.
        cpuacct: Option<PathBuf>,
    },
    Measured,
}

impl CgroupLayout {
    /// Returns the worker's folders without duplicates. The folder that limits processes is first, because a group
    /// that can't fork is easier to kill.
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
    /// Returns what counts the usage.
    pub(crate) fn kind(&self) -> Kind {
        match self.place {
            CgroupLayout::V2 { .. } => Kind::V2,
            CgroupLayout::V1 { .. } => Kind::V1,
            CgroupLayout::Measured => Kind::Measured,
        }
    }

    /// Returns the smallest memory limit among the enclosing groups (the worker's, its service's and its
    /// container's), in bytes. Returns `None` if none of them has a limit.
    pub(crate) fn memory_around(&self) -> Option<u64> {
        let (base, file) = match &self.place {
            CgroupLayout::V2 { base } => (base, "memory.max"),
            CgroupLayout::V1 { memory, .. } => (memory, "memory.limit_in_bytes"),
            CgroupLayout::Measured => return None,
        };
        let limit = |group: &Path| std::fs::read_to_string(group.join(file)).ok()?.trim().parse().ok();
        base.ancestors().filter_map(limit).min()
    }

    /// Returns why no better kind is available, and what an operator can do about it. Empty for v2, and in a
    /// supervisor.
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
