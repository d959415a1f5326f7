//! The grammar of `openskill tools`: exports tools, and installs those of an index.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use openskill_proto::v1::Dialect;

use super::client::Client;
use super::folders::SkillFolders;
use super::output::Output;
use crate::complete::skill_ids;

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Tools {
    #[command(subcommand)]
    pub(crate) command: Option<ToolsCommand>,
    #[command(flatten)]
    pub(crate) export: Export,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// Install an MCP server of the tool index; workers that serve the directory offer its tools within seconds
    Add(AddTools),
    /// Remove an MCP server that was installed; workers end it within seconds
    Remove(RemoveTools),
    /// List the MCP servers of the tool index, or say what is wrong with it
    Index(ListIndex),
    /// Print the pins of an MCP server's tools for its entry in a tool index, to be reviewed
    Pins(AddTools),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) client: Client,
    /// Format: openai, openai-responses, anthropic, gemini, dashscope, mcp
    #[arg(long, value_name = "NAME", default_value = "openai", value_parser = dialect)]
    pub(crate) dialect: Dialect,
    /// Use the provider's strict mode, if it has one
    #[arg(long)]
    pub(crate) strict: bool,
    /// Export only skills of this toolset
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) toolset: String,
    /// Export only this skill; repeat the flag to export several
    #[arg(long = "skill", value_name = "ID", add = skill_ids())]
    pub(crate) skills: Vec<String>,
    /// Export only tools that are relevant to this task, best match first
    #[arg(long, value_name = "WORDS", default_value = "")]
    pub(crate) query: String,
    /// Maximum number of tools; 0 means 10 with --query and no limit otherwise
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) limit: u32,
    /// Omit tools whose circuit breaker is open in this session
    #[arg(long, value_name = "ID", default_value = "")]
    pub(crate) session: String,
    /// Include tools that cannot be called at the moment
    #[arg(long)]
    pub(crate) all: bool,
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

/// Parses the name of a dialect.
fn dialect(name: &str) -> Result<Dialect, String> {
    Dialect::named(name).ok_or_else(|| format!("must be one of {}", Dialect::NAMES.map(|(name, _)| name).join(", ")))
}
