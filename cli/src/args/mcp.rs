//! The flags of `openskill mcp`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::client::ClientArgs;
use super::folders::SkillFolders;

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub(crate) served: McpTargetArgs,
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
}

/// Which gateway serves the client.
#[derive(Debug, ClapArgs)]
pub(crate) struct McpTargetArgs {
    /// URL of a running gateway; default: start a gateway and a worker
    #[arg(long, value_name = "URL")]
    pub(crate) gateway: Option<String>,
    /// API key for the gateway. Other users of this machine see it in the list of processes: prefer OPENSKILL_TOKEN or --token-file
    #[arg(long, value_name = "KEY", conflicts_with = "token_file", requires = "gateway")]
    pub(crate) token: Option<String>,
    /// File with the API key, which only its owner may read
    #[arg(long, value_name = "FILE", requires = "gateway")]
    pub(crate) token_file: Option<String>,
    /// File with the authorities (PEM) that may sign the gateway's certificate; default: the system's certificates
    #[arg(long, value_name = "FILE", requires = "gateway")]
    pub(crate) ca: Option<String>,
    /// File with the client certificate (PEM) to present to the gateway
    #[arg(long, value_name = "FILE", requires = "gateway")]
    pub(crate) cert: Option<String>,
    /// File with the private key (PEM) of that certificate
    #[arg(long, value_name = "FILE", requires = "gateway")]
    pub(crate) key: Option<String>,
    /// View of the gateway, which has a part of its skills; default: all skills
    #[arg(long, value_name = "NAME", value_parser = view)]
    pub(crate) view: Option<String>,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

/// Validates the name of a view, which becomes part of a URL.
fn view(name: &str) -> Result<String, String> {
    let is_inner = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"_-".contains(&it);
    if name.is_empty() || !name.bytes().all(is_inner) {
        return Err("a name of a-z, 0-9, '_' and '-'".to_owned());
    }
    Ok(name.to_owned())
}

impl McpTargetArgs {
    pub(crate) fn client(&self) -> ClientArgs {
        ClientArgs {
            url: self.gateway.clone(),
            token: self.token.clone(),
            token_file: self.token_file.clone(),
            ca: self.ca.clone(),
            cert: self.cert.clone(),
            key: self.key.clone(),
            ..ClientArgs::default()
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Print the configuration that makes a client start `openskill mcp`
    Config(McpConfig),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct McpConfig {
    /// The client
    pub(crate) client: McpClient,
    /// Merge the configuration into the client's file, and keep everything else in it
    #[arg(long)]
    pub(crate) write: bool,
    /// The client's file; default: the one that the client reads
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Name of the server in the client
    #[arg(long, value_name = "NAME", default_value = "openskill")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) served: McpTargetArgs,
}

/// A program that speaks MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClient {
    /// Claude Code: `.mcp.json` of the project
    Claude,
    /// Claude Desktop
    ClaudeDesktop,
    /// Cursor: `.cursor/mcp.json` of the project
    Cursor,
    /// Visual Studio Code: `.vscode/mcp.json` of the project
    Vscode,
}
