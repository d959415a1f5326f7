//! The program `openskill-readers`, which a worker starts to read source code and PDF files. They are hostile, so it runs jailed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::host::Host;
use crate::manifest::{Jail, Level, Manifest, Network};
use crate::process::jail::plan::Plan;
use crate::process::protocol::{Command, ProcessLimits};
use crate::schedule::Slot;

const NAME: &str = "openskill-readers";

/// What to say where [`program`] returns `None`.
pub(super) const MISSING: &str = "the program openskill-readers is not beside openskill: `make build` puts it there, images and the tarball include it";

/// The path of the program, which lies beside the openskill binary. It may have been built since the last call.
pub(super) fn program(host: &Host) -> Option<PathBuf> {
    Some(host.binary.with_file_name(NAME)).filter(|program| program.is_file())
}

/// Besides the system's libraries, it may read and run only `program`, whatever the manifest grants to others.
///
/// # Errors
/// The worker demands a jail that this machine does not give.
pub(super) fn plan(host: &Host, manifest: &Manifest, program: &Path) -> Result<Option<Plan>, String> {
    let level = manifest.jail.level.max(Level::Auto);
    let jail = Jail { level, network: Network::default(), readable: Vec::new() };
    let stranger = Manifest { allowed_root: None, jail, ..manifest.clone() };
    host.jailer.isolated_plan(&stranger, &[program.to_owned()], &[])
}

/// Starts `program` as the reader that `argument` names.
///
/// # Errors
/// As [`plan`].
pub(super) fn command(
    host: &Host,
    manifest: &Manifest,
    program: PathBuf,
    argument: &str,
    slot: &Slot,
) -> Result<Command, String> {
    Ok(Command {
        jail: plan(host, manifest, &program)?,
        program,
        args: vec![argument.to_owned()],
        env: BTreeMap::new(),
        cwd: PathBuf::from("/"),
        limits: ProcessLimits::of(&manifest.limits),
        nice: slot.nice(),
        forks: false,
        root: None,
    })
}
