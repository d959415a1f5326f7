//! The flags of commands that run skills or check them.

use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(Debug, Default, ClapArgs)]
pub(crate) struct SkillFolders {
    /// Directories with manifests and scripts, separated by colons
    #[arg(long, value_name = "DIRS")]
    pub(crate) skills_dir: Option<String>,
    /// The only directory that skills may read and write
    #[arg(long, value_name = "DIR")]
    pub(crate) allowed_root: Option<PathBuf>,
}
