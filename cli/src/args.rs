//! The command-line grammar.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

use crate::complete::{skill_ids, worker_ids};

mod agent;
mod certs;
mod client;
mod context;
mod describe;
mod folders;
#[cfg(feature = "worker")]
mod install;
mod keys;
#[cfg(feature = "worker")]
mod local;
mod mcp;
mod output;
mod recorded;
mod tools;
#[cfg(not(feature = "worker"))]
mod without_worker;

pub(crate) use agent::{AgentArgs, AgentStore};
pub(crate) use certs::{CertsArgs, CertsCommand, DevCerts};
pub(crate) use client::ClientArgs;
pub(crate) use context::{ContextArgs, ContextCommand};
pub(crate) use describe::{DescribeArgs, DescribeCommand, DescribeSkill, DescribeWorker};
pub(crate) use folders::SkillFolders;
#[cfg(feature = "worker")]
pub(crate) use install::{AddTools, ListIndex, RemoveTools, ToolFolder, ToolsCommand};
pub(crate) use keys::{CreateKey, KeysArgs, KeysCommand, ListKeys, RevokeKey};
#[cfg(feature = "worker")]
pub(crate) use local::{
    CheckArgs, DoctorArgs, InitArgs, LocalCommand, NewArgs, PinArgs, SkillType, UpArgs, WorkerArgs,
};
pub(crate) use mcp::{McpArgs, McpClient, McpCommand, McpConfig, McpTargetArgs};
pub(crate) use output::{Format, Output};
pub(crate) use recorded::{LogsArgs, ReplayArgs, TraceArgs, TracesArgs};
pub(crate) use tools::{ExportArgs, ToolsArgs};
#[cfg(not(feature = "worker"))]
pub(crate) use without_worker::refuse_unavailable;

/// Run tools for AI agents, with a gateway, workers and a command-line client
#[derive(Debug, Parser)]
#[command(name = "openskill", version = env!("OPENSKILL_VERSION"), about, arg_required_else_help = true)]
#[command(
    after_help = "Settings come from flags, the environment, .env, openskill.toml and defaults, in this order of \
    precedence. `openskill config` shows the values in effect.\n\
    Exit codes: 0 success, 1 the call or check failed, or the gateway refused the request, 2 usage error, \
    3 gateway unreachable or not ready, 4 invalid setting, 5 system error."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(feature = "worker")]
    #[command(flatten)]
    Local(LocalCommand),
    /// Start a gateway without workers
    Gateway(GatewayArgs),
    /// Start an agent that calls skills at a gateway elsewhere
    Agent(AgentArgs),
    /// Speak MCP on stdin and stdout, or print the configuration of a client that does
    Mcp(McpArgs),
    /// Talk with the agent, for example: `openskill chat -m 'mean of 1, 2 and 6'`
    Chat(ChatArgs),
    /// List the skills that can be called
    Skills(SkillsArgs),
    /// Export skills as tool definitions in a model provider's format, or install tools of an index
    Tools(ToolsArgs),
    /// Call a skill, for example: `openskill invoke echo text=hello`
    Invoke(InvokeArgs),
    /// List the workers with their status and load
    Workers(WorkersArgs),
    /// List circuit breakers that are not closed, or close them
    Circuits(CircuitsArgs),
    /// Show a skill or a worker in detail
    Describe(DescribeArgs),
    /// Drain the gateway or one worker: refuse new calls and finish accepted calls
    Drain(DrainArgs),
    /// Show what skills logged during recorded calls, and how the calls ended
    Logs(LogsArgs),
    /// List recorded calls, the latest first, or follow calls as they end
    Traces(TracesArgs),
    /// Show what happened during the calls of a trace
    Trace(TraceArgs),
    /// Repeat a recorded call and compare the results; exit with code 1 if they differ
    Replay(ReplayArgs),
    /// Create, list and revoke the API keys of a gateway
    Keys(KeysArgs),
    /// Make certificates for development
    Certs(CertsArgs),
    /// List, choose, create and remove contexts: gateways with a name
    Context(ContextArgs),
    /// Check whether the gateway, or with --worker a worker, is ready; exit with code 3 if it is not
    Health(HealthArgs),
    /// Show the settings in effect and the source of each
    Config(ConfigArgs),
    /// Print a shell completion script, for example: `source <(openskill completions bash)`
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
}

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
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Send one message and exit; `-` reads it from stdin. Without it, messages are read from the terminal, or from lines of stdin
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// Continue a conversation: its id, or `last`
    #[arg(long, value_name = "ID")]
    pub(crate) resume: Option<String>,
    /// Model: PROVIDER:MODEL, PROVIDER, or a model of the default provider
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// What may happen without your approval; default: as before in the conversation, at first `ask`
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ChatMode>,
    /// Only skills of this toolset
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) toolset: String,
    /// Print events as JSON, one a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ChatMode {
    /// Ask before calls that require approval
    Ask,
    /// Call only skills that are marked read-only
    ReadOnly,
    /// Ask only before writing or sending after untrusted text was read
    Auto,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SkillsArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// List only skills of this toolset
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) toolset: String,
    /// Include skills that cannot be called at the moment, with the reason
    #[arg(long)]
    pub(crate) all: bool,
    /// Print the list, then each change as it happens, until Ctrl-C
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct WorkersArgs {
    /// Print the list, then each change as it happens, until Ctrl-C
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CircuitsArgs {
    /// Only circuit breakers of this skill
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new(), add = skill_ids())]
    pub(crate) skill_id: Option<String>,
    /// Only circuit breakers of this session
    #[arg(long, value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,
    /// Include closed circuit breakers
    #[arg(long)]
    pub(crate) all: bool,
    /// Close the listed circuit breakers, so that they let calls through again
    #[arg(long, conflicts_with_all = ["all", "watch"])]
    pub(crate) reset: bool,
    /// Print the list, then each change as it happens, until Ctrl-C
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DrainArgs {
    /// Id of the worker to drain; default: the gateway itself
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new(), add = worker_ids())]
    pub(crate) worker_id: Option<String>,
    /// Drain the whole gateway without asking
    #[arg(long, conflicts_with = "worker_id")]
    pub(crate) yes: bool,
    /// Undo the drain: accept new calls again
    #[arg(long)]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct InvokeArgs {
    /// Id of the skill; optional if --call names it
    #[arg(required_unless_present = "call", add = skill_ids())]
    pub(crate) skill_id: Option<String>,
    /// Arguments: KEY=VALUE, converted according to the skill's schema, or KEY:=JSON for any JSON value
    #[arg(value_name = "KEY=VALUE", conflicts_with = "json")]
    pub(crate) arguments: Vec<String>,
    /// All arguments as one JSON object; `@FILE` reads a file, `@-` or `-` reads stdin
    #[arg(short = 'd', long, visible_alias = "data", value_name = "OBJECT")]
    pub(crate) json: Option<String>,
    /// A model's tool call as text: a tool-call object or <toolset><skill>{...}</skill></toolset>; `-` reads from stdin
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["json", "arguments"])]
    pub(crate) call: Option<String>,
    /// Reject arguments that do not match the schema, instead of repairing them
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print events as they arrive, one JSON object per line; the last one is the result
    #[arg(long)]
    pub(crate) stream: bool,
    /// Print the whole result instead of its data
    #[arg(long)]
    pub(crate) full: bool,
    /// Directory to write the call's artifacts to; existing files are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) artifacts: Option<PathBuf>,
    /// Prompt for answers to the skill's questions on the terminal; default if stdin is a terminal
    #[arg(long, conflicts_with = "stream")]
    pub(crate) interactive: bool,
    /// Trace id of the call, sent as X-Trace-Id
    #[arg(long, value_name = "ID")]
    pub(crate) trace_id: Option<String>,
    /// Session that the call belongs to
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub(crate) session: String,
    /// Idempotency key: a second call with the same key returns the result of the first call
    #[arg(long, value_name = "KEY", default_value = "", hide_default_value = true)]
    pub(crate) idempotency_key: String,
    /// Timeout of the call in milliseconds; 0 means the skill's own timeout
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(crate) timeout_ms: u32,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct HealthArgs {
    /// Check a worker instead: the address of its metrics, HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) worker: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
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
