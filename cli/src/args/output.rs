//! The `--output` flag of list commands.

use clap::{Args as ClapArgs, ValueEnum};

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
