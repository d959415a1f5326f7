//! The grammar of `openskill context`.

use clap::{Args as ClapArgs, Subcommand};

use super::client::ClientArgs;
use super::output::Output;

#[derive(Debug, ClapArgs)]
pub(crate) struct ContextArgs {
    #[command(subcommand)]
    pub(crate) command: ContextCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// List the contexts
    List(ListContexts),
    /// Use a context in all client commands from now on
    Use(UseContext),
    /// Create a context or change it: its URL, certificates, token and headers
    Set(SetContext),
    /// Remove a context
    Remove(RemoveContext),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ListContexts {
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct UseContext {
    /// Name of the context
    #[arg(required_unless_present = "none")]
    pub(crate) name: Option<String>,
    /// Use no context
    #[arg(long, conflicts_with = "name")]
    pub(crate) none: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SetContext {
    /// Name of the context
    pub(crate) name: String,
    /// Its parts; an empty value removes one
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RemoveContext {
    /// Name of the context
    pub(crate) name: String,
}
