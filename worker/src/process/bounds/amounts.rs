//! How much a process tree may use, how much it uses, and what it used more of.

use serde::{Deserialize, Serialize};

const MIB: u64 = 1024 * 1024;

/// What a whole process tree may have at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bounds {
    /// Memory of all its processes together, in bytes. The kernel rounds down to whole pages.
    pub(crate) memory_bytes: u64,
    /// Processes and threads. A process that has exited counts until it is reaped.
    pub(crate) processes: u64,
}

/// What a process tree has at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Memory of all its processes together, in bytes.
    pub(crate) memory_bytes: u64,
    /// Processes and threads.
    pub(crate) processes: u64,
}

impl Usage {
    /// What there is too much of; if of both, processes, as memory is not looked at then.
    pub(crate) fn exceeds(&self, bounds: &Bounds) -> Option<Exceeded> {
        if self.processes > bounds.processes {
            return Some(Exceeded::Processes);
        }
        (self.memory_bytes > bounds.memory_bytes).then_some(Exceeded::Memory)
    }
}

/// What a process tree wanted more of than it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Exceeded {
    /// Memory, of its own bound.
    Memory,
    /// Memory, of a bound that it shares: the container's or the machine's. It need not be at fault.
    SharedMemory,
    /// Processes or threads.
    Processes,
}

impl Exceeded {
    /// A sentence for the caller of a skill, in the words of its manifest.
    pub(crate) fn explain(self, bounds: &Bounds) -> String {
        match self {
            Self::Memory => {
                format!("the skill used more than its memory_mb: {} MiB", bounds.memory_bytes / MIB)
            }
            Self::SharedMemory => "the machine or its container ran out of memory and ended the skill".to_owned(),
            Self::Processes => {
                format!("the skill started more than its processes: {} processes and threads", bounds.processes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { memory_bytes: 512 * MIB, processes: 8 };

    #[test]
    fn a_bound_may_be_reached_and_not_passed() {
        let usage = |memory_bytes, processes| Usage { memory_bytes, processes }.exceeds(&BOUNDS);
        assert_eq!(usage(512 * MIB, 8), None);
        assert_eq!(usage(512 * MIB + 1, 8), Some(Exceeded::Memory));
        assert_eq!(usage(0, 9), Some(Exceeded::Processes));
    }

    #[test]
    fn an_explanation_names_the_limit_of_the_manifest() {
        assert_eq!(Exceeded::Memory.explain(&BOUNDS), "the skill used more than its memory_mb: 512 MiB");
        let processes = Exceeded::Processes.explain(&BOUNDS);
        assert_eq!(processes, "the skill started more than its processes: 8 processes and threads");
    }
}
