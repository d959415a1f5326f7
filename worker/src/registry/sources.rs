//! Where a worker's skills come from.

use std::path::PathBuf;

use super::functions::FunctionReader;
use crate::config::Config;

/// The folders with skills, and what reads them.
pub(crate) struct SkillSources {
    pub(super) folders: Vec<PathBuf>,
    /// The folder of shipped skills, if they are served.
    pub(super) shipped: Option<PathBuf>,
    pub(super) allowed_root: PathBuf,
    pub(super) functions: FunctionReader,
}

impl SkillSources {
    pub(crate) fn new(config: &Config, functions: FunctionReader) -> Self {
        let folders = if config.only.is_some() { Vec::new() } else { config.skill_dirs.clone() };
        let shipped = config.shipped.as_ref().map(|it| it.folder.clone());
        Self { folders, shipped, allowed_root: config.allowed_root.clone(), functions }
    }

    /// Returns the sources for a command that has no worker yet.
    pub(crate) fn for_command(config: &Config) -> Self {
        Self::new(config, FunctionReader::new(config.python.as_deref()))
    }
}
