//! The arguments of `describe`.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as ClapArgs, Subcommand};

use super::client::ClientArgs;
use super::output::Output;
use crate::complete::{skill_ids, worker_ids};

#[derive(Debug, ClapArgs)]
pub(crate) struct DescribeArgs {
    #[command(subcommand)]
    pub(crate) what: DescribeCommand,
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
    /// Id of the skill
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
