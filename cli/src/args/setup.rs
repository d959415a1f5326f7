//! The grammar of the commands that serve, and of those that write keys, certificates and configurations.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use openskill_identity::key::KeyId;
use openskill_proto::timestamp::{Timestamp, parse_duration};

use super::flags::{AgentStore, ClientArgs, Output, ShippedSets, SkillFolders};

#[derive(Debug, ClapArgs)]
pub(crate) struct GatewayArgs {
    /// Address to listen on, HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Separate address for AdminService, HOST:PORT; default: same as --listen
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin_listen: Option<String>,
    /// Worker addresses, separated by commas: http://host:port, https://host:port, unix:/path, unix:/folder/*.sock, dns://name:port
    #[arg(long, value_name = "SOURCES")]
    pub(crate) workers: Option<String>,
    #[command(flatten)]
    pub(crate) agent: AgentStore,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AgentArgs {
    /// Address to listen on, HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// URL of the gateway whose skills the agent calls
    #[arg(long, value_name = "URL")]
    pub(crate) gateway: Option<String>,
    #[command(flatten)]
    pub(crate) store: AgentStore,
}

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub(crate) served: McpTargetArgs,
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
}

impl McpArgs {
    /// Returns which gateway serves the client, also if the command only writes its configuration.
    pub(crate) fn target(&self) -> &McpTargetArgs {
        match &self.command {
            Some(McpCommand::Config(it)) => &it.served,
            None => &self.served,
        }
    }
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
    pub(crate) shipped: ShippedSets,
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
    /// Start the command of the configuration as the client does, and list its tools
    #[arg(long)]
    pub(crate) check: bool,
    /// Write the values of the variables that skills need instead of placeholders: the configuration then has secrets
    #[arg(long)]
    pub(crate) with_values: bool,
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

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Add a key for a principal and print it, once; for a new principal, with the policy of the flags
    Create(CreateKey),
    /// List principals and their keys, without secrets
    List(ListKeys),
    /// Remove a key: a gateway that runs refuses it within a second
    Revoke(RevokeKey),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct KeyFile {
    /// Key file; default: OPENSKILL_KEYS
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CreateKey {
    #[command(flatten)]
    pub(crate) file: KeyFile,
    /// Name of the principal: whose calls are made with the key
    #[arg(long, value_name = "NAME")]
    pub(crate) principal: String,
    /// Skills that it may see and call, separated by commas; `*` means all
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub(crate) skills: Vec<String>,
    /// Toolsets whose skills it may see and call, separated by commas; `*` means all
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) toolsets: Vec<String>,
    /// Allow skills that are marked destructive
    #[arg(long)]
    pub(crate) destructive: bool,
    /// Forbid its calls to ask their user questions
    #[arg(long)]
    pub(crate) not_interactive: bool,
    /// Allow it to administer the gateway and to see all recorded calls and metrics
    #[arg(long)]
    pub(crate) admin: bool,
    /// Maximum number of calls a second, on average
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<f64>,
    /// Maximum number of calls that begin at once after a pause; default: the calls of one second
    #[arg(long, value_name = "N", requires = "rate")]
    pub(crate) burst: Option<u32>,
    /// Maximum number of calls in flight
    #[arg(long, value_name = "N")]
    pub(crate) in_flight: Option<usize>,
    /// Maximum size of the arguments of calls in flight, in bytes
    #[arg(long, value_name = "N")]
    pub(crate) bytes: Option<usize>,
    /// Maximum number of session ids in use
    #[arg(long, value_name = "N")]
    pub(crate) sessions: Option<usize>,
    /// When the key expires: a time such as 2027-01-31T12:00:00Z, or a duration such as 90d; default: never
    #[arg(long, value_name = "TIME", value_parser = expiry)]
    pub(crate) expires: Option<Timestamp>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ListKeys {
    #[command(flatten)]
    pub(crate) file: KeyFile,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RevokeKey {
    #[command(flatten)]
    pub(crate) file: KeyFile,
    /// Id of the key: 16 hexadecimal digits, as `openskill keys list` shows them, or the whole key
    #[arg(value_parser = key_id)]
    pub(crate) id: KeyId,
}

/// Parses a key id, given alone or as part of the whole key.
fn key_id(text: &str) -> Result<KeyId, &'static str> {
    let id = text.strip_prefix("osk_").and_then(|key| key.split('_').next()).unwrap_or(text);
    id.parse().map_err(|()| "must be 16 hexadecimal digits")
}

impl KeysCommand {
    /// Returns the flag that names the key file.
    pub(crate) fn file(&self) -> &KeyFile {
        match self {
            Self::Create(it) => &it.file,
            Self::List(it) => &it.file,
            Self::Revoke(it) => &it.file,
        }
    }
}

fn expiry(text: &str) -> Result<Timestamp, String> {
    let now = Timestamp::now();
    let later = || {
        let micros = u64::try_from(parse_duration(text)?.as_micros()).ok()?;
        now.0.checked_add(micros).map(Timestamp)
    };
    let end = Timestamp::parse(text).or_else(later).ok_or("must be a time such as 2027-01-31T12:00:00Z, or 90d")?;
    if end > now { Ok(end) } else { Err("that time is past".to_owned()) }
}

#[derive(Debug, Subcommand)]
pub(crate) enum CertsCommand {
    /// Make certificates for development: an authority, a gateway, a worker and a client; print the settings that use them
    Dev(DevCerts),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DevCerts {
    /// Directory for the files; it is created, and existing files are never overwritten
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// How long the certificates are valid, in days
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=365))]
    pub(crate) days: u16,
    /// Further host name or IP address of the gateway, besides localhost, 127.0.0.1 and ::1; repeat the flag for several
    #[arg(long = "host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// List the contexts
    List {
        #[command(flatten)]
        output: Output,
    },
    /// Use a context in all client commands from now on
    Use {
        /// Name of the context
        #[arg(required_unless_present = "none")]
        name: Option<String>,
        /// Use no context
        #[arg(long, conflicts_with = "name")]
        none: bool,
    },
    /// Create a context or change it: its URL, certificates, token and headers
    Set {
        /// Name of the context
        name: String,
        /// Its parts; an empty value removes one
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Remove a context
    Remove {
        /// Name of the context
        name: String,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ConfigArgs {
    /// Print the reference of all settings as Markdown
    #[arg(long)]
    pub(crate) reference: bool,
    /// Print the reference of all metrics as Markdown
    #[arg(long, conflicts_with = "reference")]
    pub(crate) metrics: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_ends_at_a_time_or_after_one() {
        assert!(expiry("90d").unwrap() > Timestamp::now());
        assert_eq!(expiry("2999-01-01T00:00:00Z").unwrap(), Timestamp::parse("2999-01-01T00:00:00Z").unwrap());
        for text in ["2001-01-01T00:00:00Z", "soon", "90", "0d"] {
            assert!(expiry(text).is_err(), "{text}");
        }
    }
}
