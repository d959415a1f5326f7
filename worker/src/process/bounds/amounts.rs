//! How much a process tree may use, how much it uses, and what it used more of.

use std::time::Duration;

use serde::{Deserialize, Serialize};

const MIB: u64 = 1024 * 1024;

/// What a whole process tree may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bounds {
    /// Memory of all its processes together at one time, in bytes. The kernel rounds down to whole pages.
    pub(crate) memory_bytes: u64,
    /// Processes and threads at one time. A process that has exited counts until it is reaped.
    pub(crate) processes: u64,
    /// CPU time of all its processes together from its start to its end, in seconds. `u64::MAX`: no bound.
    pub(crate) cpu_seconds: u64,
}

impl Bounds {
    /// The bound on CPU time, if there is one.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        (self.cpu_seconds != u64::MAX).then(|| Duration::from_secs(self.cpu_seconds))
    }
}

/// What a process tree has at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Memory of all its processes together, in bytes.
    pub(crate) memory_bytes: u64,
    /// Processes and threads.
    pub(crate) processes: u64,
    /// CPU time of all its processes so far, those that have ended too. Zero where it has no bound.
    pub(crate) cpu: Duration,
}

impl Usage {
    /// What there is too much of; if of several, processes, as nothing else is looked at then.
    ///
    /// CPU time that is used up is too much, as it is for the kernel's limit on one process.
    pub(crate) fn exceeds(&self, bounds: &Bounds) -> Option<Exceeded> {
        if self.processes > bounds.processes {
            return Some(Exceeded::Processes);
        }
        if self.memory_bytes > bounds.memory_bytes {
            return Some(Exceeded::Memory);
        }
        bounds.cpu().filter(|most| self.cpu >= *most).map(|_| Exceeded::Cpu)
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
    /// CPU time.
    Cpu,
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
            Self::Cpu => {
                format!("the skill used more than its cpu_seconds: {} s of CPU time", bounds.cpu_seconds)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { memory_bytes: 512 * MIB, processes: 8, cpu_seconds: 2 };

    #[test]
    fn a_bound_may_be_reached_and_not_passed() {
        let cpu = Duration::from_millis(1999);
        let usage = |memory_bytes, processes| Usage { memory_bytes, processes, cpu }.exceeds(&BOUNDS);
        assert_eq!(usage(512 * MIB, 8), None);
        assert_eq!(usage(512 * MIB + 1, 8), Some(Exceeded::Memory));
        assert_eq!(usage(0, 9), Some(Exceeded::Processes));
    }

    #[test]
    fn cpu_time_may_not_be_used_up() {
        let usage = Usage { cpu: Duration::from_secs(2), ..Usage::default() };
        assert_eq!(usage.exceeds(&BOUNDS), Some(Exceeded::Cpu));
        assert_eq!(usage.exceeds(&Bounds { cpu_seconds: 3, ..BOUNDS }), None);
        let endless = Usage { cpu: Duration::MAX, ..usage };
        assert_eq!(endless.exceeds(&Bounds { cpu_seconds: u64::MAX, ..BOUNDS }), None);
    }

    #[test]
    fn an_explanation_names_the_limit_of_the_manifest() {
        assert_eq!(Exceeded::Memory.explain(&BOUNDS), "the skill used more than its memory_mb: 512 MiB");
        let processes = Exceeded::Processes.explain(&BOUNDS);
        assert_eq!(processes, "the skill started more than its processes: 8 processes and threads");
        let cpu = Exceeded::Cpu.explain(&BOUNDS);
        assert_eq!(cpu, "the skill used more than its cpu_seconds: 2 s of CPU time");
    }
}
