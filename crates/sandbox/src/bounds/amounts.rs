//! A process tree's limits, its usage, and the limit that it exceeded.

use std::time::Duration;

use serde::{Deserialize, Serialize};

const MIB: u64 = 1024 * 1024;

/// The limits of a whole process tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TreeBounds {
    /// The total memory of all its processes at any time, in bytes. The kernel rounds down to whole pages.
    pub(crate) memory_bytes: u64,
    /// The number of processes and threads at any time. A process that has exited counts until it is reaped.
    pub(crate) processes: u64,
    /// The total CPU time of all its processes, in seconds. `u64::MAX` means no limit.
    pub(crate) cpu_seconds: u64,
}

impl TreeBounds {
    /// Returns the limit on CPU time, if there is one.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        (self.cpu_seconds != u64::MAX).then(|| Duration::from_secs(self.cpu_seconds))
    }
}

/// The resources that a process tree uses at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// The total memory of all its processes, in bytes.
    pub(crate) memory_bytes: u64,
    /// The number of processes and threads.
    pub(crate) processes: u64,
    /// The total CPU time of all its processes, including those that have ended. Zero if CPU time has no limit.
    pub(crate) cpu: Duration,
}

impl Usage {
    /// Returns the limit that is exceeded, if any. Checks processes first, because nothing else is measured if
    /// there are too many.
    ///
    /// CPU time exceeds its limit when it reaches it, like the kernel's limit on one process.
    pub(crate) fn exceeds(&self, bounds: &TreeBounds) -> Option<ExceededLimit> {
        if self.processes > bounds.processes {
            return Some(ExceededLimit::Processes);
        }
        if self.memory_bytes > bounds.memory_bytes {
            return Some(ExceededLimit::Memory);
        }
        bounds.cpu().filter(|most| self.cpu >= *most).map(|_| ExceededLimit::Cpu)
    }
}

/// The limit that a process tree hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExceededLimit {
    /// The tree's own memory limit.
    Memory,
    /// A memory limit that it shares with other processes: the container's or the machine's. Another process may
    /// be the cause.
    SharedMemory,
    /// The limit on processes and threads.
    Processes,
    /// The limit on CPU time.
    Cpu,
}

impl ExceededLimit {
    /// Explains this to the caller of a skill, with the names that the manifest uses.
    pub(crate) fn explain(self, bounds: &TreeBounds) -> String {
        let TreeBounds { memory_bytes, processes, cpu_seconds } = bounds;
        match self {
            Self::Memory => format!("the skill exceeded its memory_mb limit: {} MiB", memory_bytes / MIB),
            Self::SharedMemory => "the machine or its container ran out of memory and killed the skill".to_owned(),
            Self::Processes => format!("the skill exceeded its processes limit: {processes} processes and threads"),
            Self::Cpu => format!("the skill exceeded its cpu_seconds limit: {cpu_seconds} s of CPU time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: TreeBounds = TreeBounds { memory_bytes: 512 * MIB, processes: 8, cpu_seconds: 2 };

    #[test]
    fn a_bound_may_be_reached_and_not_passed() {
        let cpu = Duration::from_millis(1999);
        let usage = |memory_bytes, processes| Usage { memory_bytes, processes, cpu }.exceeds(&BOUNDS);
        assert_eq!(usage(512 * MIB, 8), None);
        assert_eq!(usage(512 * MIB + 1, 8), Some(ExceededLimit::Memory));
        assert_eq!(usage(0, 9), Some(ExceededLimit::Processes));
    }

    #[test]
    fn cpu_time_may_not_be_used_up() {
        let usage = Usage { cpu: Duration::from_secs(2), ..Usage::default() };
        assert_eq!(usage.exceeds(&BOUNDS), Some(ExceededLimit::Cpu));
        assert_eq!(usage.exceeds(&TreeBounds { cpu_seconds: 3, ..BOUNDS }), None);
        let endless = Usage { cpu: Duration::MAX, ..usage };
        assert_eq!(endless.exceeds(&TreeBounds { cpu_seconds: u64::MAX, ..BOUNDS }), None);
    }

    #[test]
    fn an_explanation_names_the_limit_of_the_manifest() {
        assert_eq!(ExceededLimit::Memory.explain(&BOUNDS), "the skill exceeded its memory_mb limit: 512 MiB");
        let processes = ExceededLimit::Processes.explain(&BOUNDS);
        assert_eq!(processes, "the skill exceeded its processes limit: 8 processes and threads");
        let cpu = ExceededLimit::Cpu.explain(&BOUNDS);
        assert_eq!(cpu, "the skill exceeded its cpu_seconds limit: 2 s of CPU time");
    }
}
