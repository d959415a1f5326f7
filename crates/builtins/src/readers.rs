//! Starts `openskill-readers`, which parses source code and PDF files for a worker. The files are untrusted, so
//! the program runs in a jail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use openskill_sandbox::Limits;
use openskill_sandbox::jail::Level;
use openskill_sandbox::jail::plan::Plan;
use openskill_sandbox::protocol::{Command, ProcessLimits};

use super::host::Host;
use crate::call::CallSlot;

const NAME: &str = "openskill-readers";

/// The error message if [`program`] returns `None`.
pub(super) const MISSING: &str = "the openskill-readers program is not next to openskill: `make build` puts it there; the images and the tarball include it";

/// Returns the path of the program, which is next to the `openskill` binary. Checks at each call, because the
/// program may have been built in the meantime.
pub(super) fn program(host: &Host) -> Option<PathBuf> {
    Some(host.binary.with_file_name(NAME)).filter(|program| program.is_file())
}

/// Plans the jail of the program. Apart from system libraries, it may only read and execute `program`, regardless
/// of the manifest.
///
/// # Errors
/// The worker requires a jail that this machine does not provide.
pub(super) fn plan(host: &Host, level: Level, limits: &Limits, program: &Path) -> Result<Plan, String> {
    host.isolated_plan(level.max(Level::Auto), limits, vec![program.to_owned()])
}

/// Prepares `program` to run as the reader that `argument` names.
///
/// # Errors
/// The same as for [`plan`].
pub(super) fn command(
    host: &Host,
    level: Level,
    limits: &Limits,
    program: PathBuf,
    argument: &str,
    slot: &CallSlot,
) -> Result<Command, String> {
    Ok(Command {
        jail: Some(plan(host, level, limits, &program)?),
        program,
        args: vec![argument.to_owned()],
        env: BTreeMap::new(),
        cwd: PathBuf::from("/"),
        limits: ProcessLimits::from_limits(limits),
        nice: slot.nice(),
        forks: false,
        root: None,
    })
}
