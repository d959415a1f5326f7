//! The grammar of the commands that run skills on this machine, or write them, and of those that install tools.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::flags::{AgentStore, ClientArgs, Output, ShippedSets, SkillFolders};
use crate::complete::{skill_ids, skill_sets};

#[derive(Debug, Subcommand)]
pub(crate) enum LocalCommand {
    /// Start a gateway and worker processes, and restart workers that exit
    Up(UpArgs),
    /// Start a single worker
    Worker(WorkerArgs),
    /// Create a project in a directory: settings, a skill and its test
    Init(InitArgs),
    /// Create a skill from a template: manifest, program and test
    New(NewArgs),
    /// Copy sets of shipped skills into the project, for example: `openskill add core browser`; without names, list them
    Add(AddArgs),
    /// Call the skill of one file, without a gateway, for example: `openskill run skill.py text=hello`
    Run(RunArgs),
    /// Validate manifests and run their examples, without a gateway
    Check(CheckArgs),
    /// Report what this machine supports and which skills require more; exit with code 1 if any skill does. With an https URL, also which certificate the gateway has
    Doctor(DoctorArgs),
    /// Install the Python SDK for editors, type checkers and tests; skills have it without
    #[command(subcommand)]
    Sdk(SdkCommand),
    /// Show the manifests that the functions of a Python file mean
    #[command(subcommand)]
    Manifest(ManifestCommand),
    /// Pin the current tools of an MCP server, so that later changes are reported or rejected
    Pin(PinArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct UpArgs {
    /// Number of worker processes
    #[arg(long, short = 'n', default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) workers: u16,
    /// Address that the gateway listens on, HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Separate address for AdminService, HOST:PORT; default: same as --listen
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin_listen: Option<String>,
    /// Address for the metrics of the first worker, HOST:PORT; the next workers use the next ports
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) worker_metrics: Option<String>,
    #[command(flatten)]
    pub(crate) agent: AgentStore,
    #[command(flatten)]
    pub(crate) shipped: ShippedSets,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct WorkerArgs {
    /// Address to listen on, HOST:PORT or unix:/path
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Id of the worker; must be unique among the workers of a gateway
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Address for the worker's metrics, HOST:PORT; default: none
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics_listen: Option<String>,
    /// Drain and exit when the parent process with this PID exits
    #[arg(long, hide = true, value_name = "PID")]
    pub(crate) exit_with_parent: Option<i32>,
    #[command(flatten)]
    pub(crate) shipped: ShippedSets,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct InitArgs {
    /// Directory of the project; created if it does not exist
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NewArgs {
    /// Id of the skill or server
    pub(crate) id: String,
    /// Type of the skill
    #[arg(long = "type", value_name = "TYPE", default_value = "cli:python")]
    pub(crate) kind: SkillType,
    // Files are written to the first of its directories.
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AddArgs {
    /// Sets to copy to the first of --skills-dir; without any, list the sets
    #[arg(value_name = "SET", add = skill_sets())]
    pub(crate) sets: Vec<String>,
    /// Replace files that differ from the shipped ones
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

/// The type of a skill, which determines what runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SkillType {
    /// A Python script
    #[value(name = "cli:python")]
    Python,
    /// A Python function that describes itself, without a manifest
    #[value(name = "python")]
    Function,
    /// A program
    #[value(name = "cli:exec")]
    Exec,
    /// An HTTP request
    #[value(name = "http")]
    Http,
    /// A container
    #[value(name = "docker")]
    Docker,
    /// Tools of an MCP server that runs as a program
    #[value(name = "mcp:stdio")]
    McpStdio,
    /// Tools of an MCP server at a URL
    #[value(name = "mcp:http")]
    McpHttp,
    /// A function built into the worker
    #[value(name = "inproc")]
    Inproc,
    /// Python code of the caller, in an interpreter that is kept between calls
    #[value(name = "session:python")]
    Session,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    /// A manifest, a Python file or another program; `FILE#NAME` names one of several functions that are skills
    pub(crate) file: PathBuf,
    /// Arguments: KEY=VALUE, KEY:=JSON, or one JSON object, as for `invoke`; `-` reads the object from stdin
    #[arg(value_name = "KEY=VALUE", conflicts_with = "json")]
    pub(crate) arguments: Vec<String>,
    /// All arguments as one JSON object; `@FILE` reads a file, `@-` or `-` reads stdin
    #[arg(short = 'd', long, visible_alias = "data", value_name = "OBJECT")]
    pub(crate) json: Option<String>,
    /// Reject arguments that do not match the schema, instead of repairing them
    #[arg(long)]
    pub(crate) strict: bool,
    /// Timeout of the call in milliseconds; 0 means the skill's own timeout
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(crate) timeout_ms: u32,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CheckArgs {
    /// Id of the skill; default: all skills
    #[arg(add = skill_ids())]
    pub(crate) skill_id: Option<String>,
    #[command(flatten)]
    pub(crate) shipped: ShippedSets,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ManifestCommand {
    /// Print the manifests that the functions of a Python file mean, as YAML documents
    Show(ShowManifestArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ShowManifestArgs {
    /// The Python file
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) shipped: ShippedSets,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PinArgs {
    /// Id of the MCP server, as in its manifest
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SdkCommand {
    /// Write the package `openskill_sdk` of this program into a virtual environment or a directory
    Install(InstallSdk),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct InstallSdk {
    /// Virtual environment, or directory for PYTHONPATH; default: the active virtual environment, or `.venv` of the project
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// Install an MCP server of the tool index; workers that serve the directory offer its tools within seconds
    Add(AddTools),
    /// Remove an MCP server that was installed; workers end it within seconds
    Remove(RemoveTools),
    /// List the MCP servers of the tool index, or report errors in the index
    Index(ListIndex),
    /// Print the pins of an MCP server's tools for its entry in a tool index, to be reviewed
    Pins(AddTools),
}

#[derive(Debug, Default, ClapArgs)]
pub(crate) struct ToolFolder {
    /// File with the MCP servers that can be installed; default: the index that ships
    #[arg(long, value_name = "FILE")]
    pub(crate) index: Option<String>,
    /// Directory of installed tools
    #[arg(long, value_name = "DIR")]
    pub(crate) tools_dir: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AddTools {
    /// Id of the MCP server, as in the index
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) place: ToolFolder,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RemoveTools {
    /// Id of the MCP server, as it was installed
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) place: ToolFolder,
    /// Directory with the data of skills, the only one that the jail lets them write to
    #[arg(long, value_name = "DIR")]
    pub(crate) allowed_root: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ListIndex {
    #[command(flatten)]
    pub(crate) place: ToolFolder,
    /// Directory with the data of skills, the only one that the jail lets them write to
    #[arg(long, value_name = "DIR")]
    pub(crate) allowed_root: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}
