//! A skill's resource limits.

use serde::Deserialize;

/// The resource limits of a skill, for each of its processes or for all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The total memory of all processes, and the address space of each, in MiB.
    pub memory_mb: u64,
    /// The total CPU time of all processes, including ended ones, in seconds.
    pub cpu_seconds: u64,
    /// The number of open files per process.
    pub open_files: u64,
    /// The maximum size of a file that a process writes, in MiB.
    pub file_size_mb: u64,
    /// The number of concurrent processes and threads. Without namespaces, this is in addition to those that the
    /// skills' user had some seconds before.
    pub processes: u64,
    /// The size of a run's temporary folder in MiB, if it is in memory, as in a jail with namespaces.
    pub temp_mb: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_mb: 2048, cpu_seconds: 300, open_files: 256, file_size_mb: 256, processes: 256, temp_mb: 256 }
    }
}
