//! The command-line grammar.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

mod client;
mod flags;
#[cfg(feature = "worker")]
mod local;
mod operations;
mod setup;
#[cfg(not(feature = "worker"))]
mod without_worker;

pub(crate) use client::*;
pub(crate) use flags::*;
#[cfg(feature = "worker")]
pub(crate) use local::*;
pub(crate) use operations::*;
pub(crate) use setup::*;
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
    /// Settings file of the project; default: openskill.toml in this directory or the nearest one above
    // Not above the root of a repository.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
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
    /// Store a call that runs even if this command and the gateway end, and print the name of its operation
    Submit(SubmitArgs),
    /// List, show, watch, cancel, repeat and remove operations: calls that `openskill submit` stored
    #[command(subcommand)]
    Operations(OperationsCommand),
    /// List the workers with their status and load
    Workers(WatchedList),
    /// List circuit breakers that are not closed, or close them
    Circuits(CircuitsArgs),
    /// Show a skill or a worker in detail
    #[command(subcommand)]
    Describe(DescribeCommand),
    /// Drain the gateway or one worker: refuse new calls and finish accepted calls
    Drain(DrainArgs),
    /// Divide the calls of a skill among its versions, for example: `openskill traffic echo 1.2=90 2.0=10`
    Traffic(TrafficArgs),
    /// Send all calls of a skill to the previous version: the one before the newest that gets calls
    Rollback(RollbackArgs),
    /// List the calls that run, the oldest first
    Ps(PsArgs),
    /// Cancel a running call: its processes end, and its caller gets the error CANCELLED
    Cancel(CancelArgs),
    /// Show what skills logged during recorded calls, and how the calls ended
    Logs(LogsArgs),
    /// List recorded calls, the latest first, or follow calls as they end
    Traces(TracesArgs),
    /// Show what happened during the calls of a trace
    Trace(TraceArgs),
    /// Repeat a recorded call and compare the results; exit with code 1 if they differ
    Replay(ReplayArgs),
    /// Create, list and revoke the API keys of a gateway
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Make certificates for development
    #[command(subcommand)]
    Certs(CertsCommand),
    /// List, choose, create and remove contexts: gateways with a name
    #[command(subcommand)]
    Context(ContextCommand),
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
