//! Describes how this machine limits process trees. The worker finds this out and sends it to each supervisor.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The prefix of the names of workers' folders.
pub(super) const WORKER_PREFIX: &str = "openskill-";

/// The prefix of the names of trees' folders.
pub(super) const TREE_PREFIX: &str = "run-";

/// What counts a process tree's usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    pub(crate) kind: Kind,
    /// The worker's folder in each hierarchy that is used. The first one limits processes, because a group that can't
    /// fork is easier to kill.
    pub(super) bases: Vec<PathBuf>,
    /// Which of the folders limits memory.
    pub(super) memory: usize,
    /// Which of the folders counts CPU time. `None` if the supervisor measures it.
    pub(super) cpu: Option<usize>,
    /// Why no better kind is available, and what an operator can do about it. Empty for v2. Not sent to supervisors.
    #[serde(skip)]
    pub(crate) reason: String,
}

impl Controller {
    /// Returns the memory of the machine, in bytes, or the smallest limit among the enclosing groups (the worker's, its
    /// service's and its container's).
    pub(crate) fn memory_there(&self) -> u64 {
        let machine = rustix::system::sysinfo();
        #[allow(clippy::useless_conversion, reason = "the numbers are narrower on some machines")]
        let machine = u64::from(machine.totalram).saturating_mul(machine.mem_unit.into());
        let file = if self.kind == Kind::V2 { "memory.max" } else { "memory.limit_in_bytes" };
        let limit = |group: &Path| std::fs::read_to_string(group.join(file)).ok()?.trim().parse().ok();
        self.bases.get(self.memory).into_iter().flat_map(|it| it.ancestors()).filter_map(limit).fold(machine, u64::min)
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.word())?;
        for (number, base) in self.bases.iter().enumerate() {
            write!(f, "{}{}", if number == 0 { " at " } else { " and " }, base.display())?;
        }
        Ok(())
    }
}
