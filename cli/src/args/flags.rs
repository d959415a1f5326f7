//! The flags that several commands have.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use openskill_proto::uri_template::percent_encode;

use crate::complete::skill_sets;

// The flags of commands that talk to a gateway. Not a doc comment, which would be the help of each command.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct ClientArgs {
    /// URL of the gateway, http:// or https://
    #[arg(long, value_name = "URL", help_heading = "Gateway")]
    pub(crate) url: Option<String>,
    /// Context to use, of those that `openskill context list` lists
    #[arg(long, value_name = "NAME", help_heading = "Gateway")]
    pub(crate) context: Option<String>,
    /// API key or JWT for the gateway. Other users of this machine see it in the list of processes: prefer OPENSKILL_TOKEN or --token-file
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file", help_heading = "Gateway")]
    pub(crate) token: Option<String>,
    /// File with the API key or JWT, which only its owner may read
    #[arg(long, value_name = "FILE", help_heading = "Gateway")]
    pub(crate) token_file: Option<String>,
    /// File with the authorities (PEM) that may sign the gateway's certificate; default: the system's certificates
    #[arg(long, value_name = "FILE", help_heading = "Gateway")]
    pub(crate) ca: Option<String>,
    /// File with the client certificate (PEM) to present to the gateway
    #[arg(long, value_name = "FILE", help_heading = "Gateway")]
    pub(crate) cert: Option<String>,
    /// File with the private key (PEM) of that certificate
    #[arg(long, value_name = "FILE", help_heading = "Gateway")]
    pub(crate) key: Option<String>,
    /// Header for each request; repeat the flag for several
    #[arg(long = "header", value_name = "NAME: VALUE", help_heading = "Gateway", value_parser = header)]
    pub(crate) headers: Vec<String>,
}

/// Converts a header flag to the form of the setting: `name=value`, percent-encoded.
fn header(text: &str) -> Result<String, String> {
    let (name, value) = text.split_once(':').ok_or("must be 'NAME: VALUE'")?;
    Ok(format!("{}={}", name.trim(), percent_encode(value.trim())))
}

/// The flags of list commands.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct Output {
    /// Format of the output
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum)]
    format: Option<Format>,
    /// Same as --output json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl Output {
    pub(crate) fn format(&self) -> Format {
        match self.format {
            _ if self.json => Format::Json,
            format => format.unwrap_or_default(),
        }
    }
}

// The flags of lists that can be watched.
#[derive(Debug, ClapArgs)]
pub(crate) struct WatchedList {
    /// Print the list, then each change as it happens, until Ctrl-C
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// How a list is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table that fits the terminal; in a pipe, nothing is cut
    #[default]
    Table,
    /// A table with more columns, and nothing cut
    Wide,
    /// JSON, with all fields
    Json,
    /// YAML, with all fields
    Yaml,
}

// The flags of commands that run skills or check them.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct SkillFolders {
    /// Directories with manifests and scripts, separated by colons
    #[arg(long, value_name = "DIRS")]
    pub(crate) skills_dir: Option<String>,
    /// Directory with the data of skills, the only one that the jail lets them write to
    #[arg(long, value_name = "DIR")]
    pub(crate) allowed_root: Option<PathBuf>,
}

// The flag of commands that serve skills or check them.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct ShippedSets {
    /// Sets of shipped skills to serve too, separated by commas; `openskill add` lists them
    #[arg(long = "with", value_name = "SETS", value_delimiter = ',', add = skill_sets())]
    pub(crate) sets: Vec<String>,
}

// The flag of commands that run an agent.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct AgentStore {
    /// File that the agent keeps conversations in, or `memory`
    #[arg(long = "agent-store", value_name = "FILE")]
    pub(crate) file: Option<String>,
}
