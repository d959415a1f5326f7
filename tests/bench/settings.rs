//! The command line.

use std::path::{Path, PathBuf};

use crate::agent::AgentSettings;
use crate::operations::OperationsSettings;

#[derive(Debug, clap::Parser)]
#[command(name = "bench")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Compare openskill with a bare tonic forwarder, FastAPI, mcpo and a FastMCP proxy
    Calls(Settings),
    /// Compare the runners of openskill
    Runners(Settings),
    /// Compare openskill with other servers of MCP
    Mcp(Settings),
    /// Measure plain calls beside conversations with the agent
    Agent(AgentSettings),
    /// Measure stored calls beside plain ones and beside pgbench
    Operations(OperationsSettings),
    /// Be the bare tonic forwarder, or the server behind it
    #[command(hide = true)]
    Forwarder(Forwarder),
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Settings {
    /// Measure only rows whose id contains one of these, such as `invoke,fork,fastapi`
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    pub(crate) only: Vec<String>,
    /// How often each cell is measured; the tables show medians
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// How long a cell is measured in each round
    #[arg(long, default_value_t = 0.5, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Measure only with so many calls in flight, such as `64`
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = callers)]
    pub(crate) in_flight: Vec<usize>,
    /// Another openskill, which is measured in the same rounds: the tables show the ratio of each row
    #[arg(long, value_name = "PATH")]
    pub(crate) before: Option<PathBuf>,
    /// The Python that runs scripts; repeat it to compare several [default: $OPENSKILL_PYTHON or python3]
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Vec<PathBuf>,
    /// The Python with `tests/bench/requirements.txt`; without it FastAPI and FastMCP are not measured
    #[arg(long, value_name = "PATH")]
    pub(crate) hosts: Option<PathBuf>,
    /// The program mcpo, which needs a virtual environment of its own
    #[arg(long, value_name = "PATH")]
    pub(crate) mcpo: Option<PathBuf>,
    /// The server of `tests/bench/rmcp`; without it rmcp is not measured
    #[arg(long, value_name = "PATH")]
    pub(crate) rmcp: Option<PathBuf>,
    /// Do not measure memory
    #[arg(long)]
    pub(crate) no_memory: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Forwarder {
    /// `HOST:PORT`, or `unix:/path` for the server
    #[arg(long)]
    pub(crate) listen: String,
    /// Where calls go; without it they are answered here
    #[arg(long)]
    pub(crate) to: Option<String>,
    #[arg(long)]
    pub(crate) threads: usize,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.05..=60.0).contains(seconds));
    seconds.ok_or_else(|| "0.05 to 60".to_owned())
}

fn callers(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|callers| (1..=10_000).contains(callers)).ok_or_else(|| "1 to 10000".to_owned())
}

impl Settings {
    /// Fills in the Python and makes paths absolute: hosts run in folders of their own. Links stay, because a virtual
    /// environment is known by its link.
    pub(crate) fn resolve(mut self) -> Self {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.before = self.before.as_deref().map(absolute);
        self.hosts = self.hosts.as_deref().map(absolute);
        self.mcpo = self.mcpo.as_deref().map(absolute);
        self.rmcp = self.rmcp.as_deref().map(absolute);
        if self.python.is_empty() {
            self.python.push(std::env::var_os("OPENSKILL_PYTHON").unwrap_or_else(|| "python3".into()).into());
        }
        self
    }

    pub(crate) fn wants(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| id.contains(part.as_str()))
    }
}
