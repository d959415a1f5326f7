//! The arguments of the commands that show recorded calls.

use clap::Args as ClapArgs;

use super::client::ClientArgs;
use super::output::Output;
use crate::complete::skill_ids;

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
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
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
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
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
