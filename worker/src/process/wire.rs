//! What worker and supervisor say to each other over the control socket.
//!
//! Worker to supervisor, once: four bytes of length (big endian) with four descriptors attached (stdin, stdout,
//! stderr, events), then a [`Command`] as JSON. Nothing of it shows in the process list.
//! Supervisor to worker, once: a [`Report`] as JSON, then the end.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::jail;
use crate::manifest::Limits;

const MIB: u64 = 1024 * 1024;

/// How many descriptors go with a command.
pub(crate) const DESCRIPTORS: usize = 4;

/// The longest command or report. Above what a clean environment and a few arguments can need, and below what the
/// socket's buffer takes at once, so that sending it never waits.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Command {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// The whole environment, but for the number of the events descriptor.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
    pub(crate) limits: ProcessLimits,
    /// It is a fork server: see [`super::forkserver`]. Its fourth descriptor is the socket of its calls.
    #[serde(default)]
    pub(crate) forks: bool,
    /// What it may reach. None: whatever the worker may, and no folder of its own for temporary files.
    pub(crate) jail: Option<jail::Plan>,
}

/// Resource limits (setrlimit(2)) of each process of the skill, in the units of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessLimits {
    pub(crate) address_space_bytes: u64,
    pub(crate) cpu_seconds: u64,
    pub(crate) open_files: u64,
    pub(crate) file_size_bytes: u64,
    /// Processes and threads of the user, beyond those it had already.
    pub(crate) processes: u64,
}

impl ProcessLimits {
    /// A manifest's limits, in the system's units.
    pub(crate) fn of(limits: &Limits) -> Self {
        Self {
            address_space_bytes: limits.memory_mb.saturating_mul(MIB),
            cpu_seconds: limits.cpu_seconds,
            open_files: limits.open_files,
            file_size_bytes: limits.file_size_mb.saturating_mul(MIB),
            processes: limits.processes,
        }
    }
}

/// How it went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The program could not be started: an errno.
    NotStarted { errno: i32 },
    /// The program ended, and everything it left behind is gone.
    Ended {
        /// How the program itself ended.
        exit: Exit,
        /// How many processes it had left running, which had to be killed.
        leftovers: u32,
    },
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

/// What the worker tells the supervisor of a fork server: a line of JSON each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// End this call, whether it was started or not.
    Kill(u64),
}

/// What the supervisor of a fork server tells the worker: a line of JSON each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Notice {
    /// Calls are served from now on.
    Ready(Loaded),
    /// A call is over, and nothing of it is left.
    Ended {
        /// Which.
        call: u64,
        /// How its process ended.
        exit: Exit,
        /// How many processes it had left running, which had to be killed.
        leftovers: u32,
    },
    /// The fork server has ended; these calls were started and go on. No other will be.
    Gone {
        /// By their numbers.
        running: Vec<u64>,
    },
}

/// What a fork server loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Loaded {
    /// Files outside the language's own library: a change to one of them is a change to the skill.
    pub(crate) files: Vec<PathBuf>,
    /// Import statements that each call runs again, because they leave threads or open files behind.
    pub(crate) not_preloaded: Vec<String>,
}
