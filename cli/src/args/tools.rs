//! The grammar of `openskill tools`, which exports tools. [`install`](super::install) has the commands that install tools.

use clap::Args as ClapArgs;
use openskill_proto::v1::Dialect;

use super::client::ClientArgs;
#[cfg(feature = "worker")]
use super::install::ToolsCommand;
use crate::complete::skill_ids;

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ToolsArgs {
    #[cfg(feature = "worker")]
    #[command(subcommand)]
    pub(crate) command: Option<ToolsCommand>,
    #[command(flatten)]
    pub(crate) export: ExportArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Format: openai, openai-responses, anthropic, gemini, dashscope, mcp
    #[arg(long, value_name = "NAME", default_value = "openai", value_parser = dialect)]
    pub(crate) dialect: Dialect,
    /// Use the provider's strict mode, if it has one
    #[arg(long)]
    pub(crate) strict: bool,
    /// Export only skills of this toolset
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) toolset: String,
    /// Export only this skill; repeat the flag to export several
    #[arg(long = "skill", value_name = "ID", add = skill_ids())]
    pub(crate) skills: Vec<String>,
    /// Export only tools that are relevant to this task, best match first
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true)]
    pub(crate) query: String,
    /// Maximum number of tools; 0 means 10 with --query and no limit otherwise
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) limit: u32,
    /// Omit tools whose circuit breaker is open in this session
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub(crate) session: String,
    /// Include tools that cannot be called at the moment
    #[arg(long)]
    pub(crate) all: bool,
}

/// Parses the name of a dialect.
fn dialect(name: &str) -> Result<Dialect, String> {
    Dialect::from_name(name)
        .ok_or_else(|| format!("must be one of {}", Dialect::NAMES.map(|(name, _)| name).join(", ")))
}
