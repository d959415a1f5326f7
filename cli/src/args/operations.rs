//! The grammar of the commands for operations.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as ClapArgs, Subcommand};

use super::client::CallArgs;
use super::flags::{ClientArgs, Format, Output};
use crate::complete::{operation_ids, skill_ids};

/// The values of `--state`, as filters of operations name them.
const STATES: [&str; 6] = ["scheduled", "queued", "running", "succeeded", "failed", "cancelled"];

#[derive(Debug, ClapArgs)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    pub(crate) call: CallArgs,
    /// Wait for the result and print it; with SECONDS, exit with code 1 if the operation has not ended by then
    #[arg(long, value_name = "SECONDS", require_equals = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) wait: Option<Option<u64>>,
    /// Let the skill ask questions, which `openskill operations answer` answers
    #[arg(long)]
    pub(crate) interactive: bool,
    /// When to run the call at the earliest: a time such as 2026-01-31T12:00:00Z, or a duration from now such as 10m
    #[arg(long, value_name = "TIME")]
    pub(crate) start_at: Option<String>,
    /// URL that the gateway posts a signed event to once the call has ended
    #[arg(long, value_name = "URL")]
    pub(crate) webhook: Option<String>,
    /// Print the operation in this format, instead of its name or its result
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum)]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OperationsCommand {
    /// List operations without their results, the newest first
    List(ListOperations),
    /// Show an operation and its result
    Get(ShowOperation),
    /// Print the events of an operation until its result, one JSON object per line; the exit code is that of the call
    Watch(WatchOperation),
    /// Answer a question of an operation, which `get` shows
    Answer(AnswerOperation),
    /// Cancel operations that have not ended
    Cancel(SelectedOperations),
    /// Submit the calls of failed or cancelled operations again, and print the names of the new operations
    Retry(SelectedOperations),
    /// Remove operations that have ended
    Delete(SelectedOperations),
}

impl OperationsCommand {
    /// Returns the connection flags.
    pub(crate) fn client(&self) -> &ClientArgs {
        match self {
            Self::List(it) => &it.client,
            Self::Get(it) => &it.client,
            Self::Watch(it) => &it.client,
            Self::Answer(it) => &it.client,
            Self::Cancel(it) | Self::Retry(it) | Self::Delete(it) => &it.client,
        }
    }
}

/// Which operations.
#[derive(Debug, ClapArgs)]
pub(crate) struct OperationFilter {
    /// Only operations in this state
    #[arg(long, value_parser = STATES)]
    pub(crate) state: Option<String>,
    /// Only calls of this skill
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new(), add = skill_ids())]
    pub(crate) skill: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ListOperations {
    #[command(flatten)]
    pub(crate) filter: OperationFilter,
    /// Maximum number of operations
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ShowOperation {
    /// Name of the operation, with or without `operations/`
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = operation_ids())]
    pub(crate) name: String,
    /// Write only this artifact to stdout: its position in `artifacts`, from 0
    #[arg(long, value_name = "N")]
    pub(crate) artifact: Option<u32>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct WatchOperation {
    /// Name of the operation, with or without `operations/`
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = operation_ids())]
    pub(crate) name: String,
    /// Only events after this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) after: u64,
    /// Directory to write the call's artifacts to; existing files are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) artifacts: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AnswerOperation {
    /// Name of the operation, with or without `operations/`
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = operation_ids())]
    pub(crate) name: String,
    /// The answer: a JSON object, @FILE or - that fits the question, or the word `decline`
    pub(crate) answer: String,
    /// Id of the question, if several are open
    #[arg(long, value_name = "REQUEST_ID")]
    pub(crate) question: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SelectedOperations {
    /// Names of operations, with or without `operations/`; without any, all that --state and --skill select
    #[arg(
        value_parser = NonEmptyStringValueParser::new(),
        add = operation_ids(),
        required_unless_present_any = ["state", "skill"],
        conflicts_with_all = ["state", "skill"],
    )]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: OperationFilter,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
