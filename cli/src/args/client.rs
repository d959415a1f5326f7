//! The grammar of the commands that talk to a gateway.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use openskill_proto::v1::{Dialect, TrafficShare};

use super::flags::{ClientArgs, Output, WatchedList};
#[cfg(feature = "worker")]
use super::local::ToolsCommand;
use crate::complete::{call_ids, skill_ids, worker_ids};

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
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
    /// List only skills of this toolset
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) toolset: String,
    /// Include skills that cannot be called at the moment, with the reason
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) list: WatchedList,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CircuitsArgs {
    /// Only circuit breakers of this skill
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = skill_ids())]
    pub(crate) skill_id: Option<String>,
    /// Only circuit breakers of this session
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,
    /// Include closed circuit breakers
    #[arg(long)]
    pub(crate) all: bool,
    /// Close the listed circuit breakers, so that they let calls through again
    #[arg(long, conflicts_with_all = ["all", "watch"])]
    pub(crate) reset: bool,
    #[command(flatten)]
    pub(crate) list: WatchedList,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DrainArgs {
    /// Id of the worker to drain; default: the gateway itself
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = worker_ids())]
    pub(crate) worker_id: Option<String>,
    // What people try who know other commands.
    #[arg(
        long = "worker",
        value_name = "ID",
        hide = true,
        conflicts_with = "worker_id",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub(crate) worker: Option<String>,
    /// Drain the whole gateway without asking
    #[arg(long, conflicts_with_all = ["worker_id", "worker"])]
    pub(crate) yes: bool,
    /// Wait until no call is in flight
    #[arg(long, conflicts_with = "resume")]
    pub(crate) wait: bool,
    /// Undo the drain: accept new calls again
    #[arg(long)]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TrafficArgs {
    /// Id of the skill
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = skill_ids())]
    pub(crate) skill_id: String,
    /// Shares that add up to 100; 1.2 means 1.2, or else the newest 1.2.x. Without any, print the versions
    #[arg(value_name = "VERSION=PERCENT", value_parser = share)]
    pub(crate) shares: Vec<TrafficShare>,
    /// Remove the traffic rule: calls go to the newest version of each worker
    #[arg(long, conflicts_with = "shares")]
    pub(crate) clear: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// Parses the share of a version.
fn share(text: &str) -> Result<TrafficShare, String> {
    let parsed = text.rsplit_once('=').and_then(|(version, percent)| Some((version, percent.parse().ok()?)));
    let (version, percent) = parsed.ok_or("must be a version and a percentage, such as 1.2=90")?;
    Ok(TrafficShare { version: version.to_owned(), percent })
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RollbackArgs {
    /// Id of the skill
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = skill_ids())]
    pub(crate) skill_id: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

// What a call consists of, for the commands that make one. Not a doc comment, which would be the help of each command.
#[derive(Debug, ClapArgs)]
pub(crate) struct CallArgs {
    /// Id of the skill, or `id@version`; optional if --call names it
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
}

#[derive(Debug, ClapArgs)]
pub(crate) struct InvokeArgs {
    #[command(flatten)]
    pub(crate) call: CallArgs,
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

#[derive(Debug, Subcommand)]
pub(crate) enum DescribeCommand {
    /// Show a skill: its arguments and examples, open circuit breakers and latest calls
    Skill(DescribeSkill),
    /// Show a worker: its status and load
    Worker(DescribeWorker),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DescribeSkill {
    /// Id of the skill, or `id@version`
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = skill_ids())]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DescribeWorker {
    /// Id of the worker
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = worker_ids())]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PsArgs {
    /// Only calls of this skill
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true, add = skill_ids())]
    pub(crate) skill: String,
    /// Only calls of this principal
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) principal: String,
    /// Maximum number of calls
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) list: WatchedList,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CancelArgs {
    /// Id of the call, as `openskill ps` lists it; for an id that the gateway made, a beginning that no other has is enough
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = call_ids())]
    pub(crate) call: String,
    /// The principal of the call, '' for the anonymous one; needed only if calls of several principals have this id
    #[arg(long, value_name = "NAME")]
    pub(crate) principal: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TracesArgs {
    /// Only calls of this skill
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true, add = skill_ids())]
    pub(crate) skill: String,
    /// Only calls that ended with this error code, or OK
    #[arg(long, value_name = "CODE", default_value = "", hide_default_value = true)]
    pub(crate) code: String,
    /// Only calls of this principal
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) principal: String,
    /// Only calls of this session
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub(crate) session: String,
    /// Only calls that took at least this long, such as 250ms, 2s or 5m
    #[arg(long, value_name = "DURATION")]
    pub(crate) min_duration: Option<String>,
    /// Only calls since this time, such as 2026-01-31T12:00:00Z, or of this age, such as 15m
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only calls before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Maximum number of calls
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// Continue a list where it ended
    #[arg(long, value_name = "CURSOR", default_value = "", hide_default_value = true)]
    pub(crate) cursor: String,
    /// Print calls as they end, until Ctrl-C
    #[arg(short, long, conflicts_with_all = ["limit", "cursor", "since", "until"])]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TraceArgs {
    /// Trace id, as sent in X-Trace-Id, or call id
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: String,
    /// Print the events as they are recorded, one JSON object per line
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Print Markdown, without arguments and results unless TRACE_MD_INCLUDE_RAW_RESPONSE=true
    #[arg(long)]
    pub(crate) markdown: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReplayArgs {
    /// Trace id, as sent in X-Trace-Id, or call id
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: String,
    /// URL of the gateway that gets the call; default: the one that recorded it
    #[arg(long, value_name = "URL")]
    pub(crate) gateway: Option<String>,
    /// Arguments in place of the recorded ones, as one JSON object; `@FILE` reads a file, `@-` or `-` reads stdin
    #[arg(long, value_name = "OBJECT")]
    pub(crate) input: Option<String>,
    /// Session that the new call belongs to
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub(crate) session: String,
    /// Also run a skill that is destructive or not idempotent
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct LogsArgs {
    /// Only calls of this skill
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true, add = skill_ids())]
    pub(crate) skill: String,
    /// Only calls of this session
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub(crate) session: String,
    /// Only calls since this time, such as 2026-01-31T12:00:00Z, or of this age, such as 15m
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Maximum number of past calls to show
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) tail: u32,
    /// Continue with calls as they end, until Ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

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
