//! What a skill's process may use.

use serde::Deserialize;

/// Resource limits of a skill: of each of its processes, or of all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Memory of all processes together, and address space of each, in MiB.
    pub memory_mb: u64,
    /// CPU time of all processes together, also of those that have ended, in seconds.
    pub cpu_seconds: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// The largest file one process may write, in MiB.
    pub file_size_mb: u64,
    /// Processes and threads at once; without namespaces, beyond those the skills' user had some seconds before.
    pub processes: u64,
    /// The temporary folder of a run, in MiB, where it is in memory: in a jail with namespaces.
    pub temp_mb: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_mb: 2048, cpu_seconds: 300, open_files: 256, file_size_mb: 256, processes: 256, temp_mb: 256 }
    }
}
