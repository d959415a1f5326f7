//! Starts `openskill-readers`, which parses source code and PDF files for a worker. The files are untrusted, so
//! the program runs in a jail.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use openskill_sandbox::Limits;
use openskill_sandbox::jail::Level;
use openskill_sandbox::jail::plan::Plan;
use openskill_sandbox::launch::{Pipes, SupervisedRun};
use openskill_sandbox::protocol::{Command, ProcessLimits};
use openskill_telemetry::log::admits;

use super::host::Host;
use crate::call::CallSlot;

const NAME: &str = "openskill-readers";

/// The reason if the program does not exist.
pub(super) const MISSING: &str = "the openskill-readers program is not next to openskill: `make build` puts it there; the images and the tarball include it";

/// A kind of reader.
pub(super) struct ReaderKind {
    /// The argument with which the program runs as this reader.
    pub(super) argument: &'static str,
    /// What the log says if it does not start.
    pub(super) not_started: &'static str,
}

impl ReaderKind {
    /// Starts a reader. The program is next to the `openskill` binary. Checks at each call, because the program may
    /// have been built in the meantime.
    ///
    /// # Errors
    /// The reason for callers: the program is [`MISSING`], or the process was not started.
    pub(super) fn start(
        &self,
        host: &Host,
        level: Level,
        limits: &Limits,
        slot: CallSlot,
    ) -> Result<(SupervisedRun<CallSlot>, Pipes), &'static str> {
        let program = host.binary.with_file_name(NAME);
        if !program.is_file() {
            return Err(MISSING);
        }
        let command = Command {
            jail: Some(plan(host, level, limits, &program).map_err(|reason| self.log(&reason))?),
            program,
            args: vec![self.argument.to_owned()],
            env: BTreeMap::new(),
            cwd: PathBuf::from("/"),
            limits: ProcessLimits::from_limits(limits),
            nice: slot.nice,
            forks: false,
            root: None,
        };
        host.launcher.launch(&command, slot).map_err(|error| self.log(&error))
    }

    /// Logs why a reader was not started. Returns the reason for callers.
    pub(super) fn log(&self, reason: &dyn Display) -> &'static str {
        if admits(self.not_started) {
            tracing::warn!(%reason, "{}", self.not_started);
        }
        "see the worker's log for the reason"
    }
}

/// Plans the jail of the program. Apart from system libraries, it may only read and execute `program`, regardless
/// of the manifest.
///
/// # Errors
/// The worker requires a jail that this machine does not provide.
pub(super) fn plan(host: &Host, level: Level, limits: &Limits, program: &Path) -> Result<Plan, String> {
    host.isolated_plan(level.max(Level::Auto), limits, vec![program.to_owned()])
}
