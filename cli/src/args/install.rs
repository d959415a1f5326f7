//! The grammar of `openskill tools add`, `remove`, `index` and `pins`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::folders::SkillFolders;
use super::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// Install an MCP server of the tool index; workers that serve the directory offer its tools within seconds
    Add(AddTools),
    /// Remove an MCP server that was installed; workers end it within seconds
    Remove(RemoveTools),
    /// List the MCP servers of the tool index, or report errors in the index
    Index(ListIndex),
    /// Print the pins of an MCP server's tools for its entry in a tool index, to be reviewed
    Pins(AddTools),
}

#[derive(Debug, Default, ClapArgs)]
pub(crate) struct ToolFolder {
    /// File with the MCP servers that can be installed; default: the index that ships
    #[arg(long, value_name = "FILE")]
    pub(crate) index: Option<String>,
    /// Directory of installed tools
    #[arg(long, value_name = "DIR")]
    pub(crate) tools_dir: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AddTools {
    /// Id of the MCP server, as in the index
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) place: ToolFolder,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RemoveTools {
    /// Id of the MCP server, as it was installed
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) place: ToolFolder,
    /// The only directory that skills may read and write
    #[arg(long, value_name = "DIR")]
    pub(crate) allowed_root: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ListIndex {
    #[command(flatten)]
    pub(crate) place: ToolFolder,
    /// The only directory that skills may read and write
    #[arg(long, value_name = "DIR")]
    pub(crate) allowed_root: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}
