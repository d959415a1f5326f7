//! What can be typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};
use openskill_proto::v1::Dialect;

use crate::settings::names;

/// Run tools for AI agents: a gateway, its workers, and a command line for both.
#[derive(Debug, Parser)]
#[command(name = "openskill", version, about, arg_required_else_help = true)]
#[command(after_help = "Settings come from flags, the environment, .env, openskill.toml, then defaults: \
    `openskill config` shows what is in force.\n\
    Exit codes: 0 done, 1 the call failed, 2 usage, 3 no gateway, 4 bad setting, 5 system.")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a gateway and its workers here, and keep them running
    Up(Up),
    /// Start a gateway alone
    Gateway(Gateway),
    /// Start a worker alone
    Worker(Worker),
    /// List the skills that can be called
    Skills(Skills),
    /// Tool definitions for a model, in its provider's shape
    Tools(Tools),
    /// Call a skill: `openskill invoke echo text=hello`
    Invoke(Invoke),
    /// List the workers: which are up, which are left out, how busy they are
    Workers(Workers),
    /// List circuits that are not closed, or close them by hand
    Circuits(Circuits),
    /// Take no new calls: the gateway, or one worker; what was accepted finishes
    Drain(Drain),
    /// Write the beginnings of a skill: its manifest, its program, its test
    New(New),
    /// Check manifests and run their examples, without a gateway
    Check(Check),
    /// What this machine gives to skills, and which of them ask for more: exit code 0 or 1
    Doctor(Doctor),
    /// Pin the tools of an MCP server as they are now: a later change is told, or refused
    Pin(Pin),
    /// Whether the gateway is ready: exit code 0 or 3
    Health(Client),
    /// Show the settings in force and where each comes from
    Config(Config),
    /// Print a shell's completions: `source <(openskill completions bash)`
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Up {
    /// How many worker processes
    #[arg(long, short = 'n', default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) workers: u16,
    /// Where the gateway listens, HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Gateway {
    /// Where to listen, HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Where workers are: http://host:port, unix:/path, unix:/folder/*.sock, dns://name:port; several with commas
    #[arg(long, value_name = "SOURCES")]
    pub(crate) workers: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Worker {
    /// Where to listen: HOST:PORT or unix:/path
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// What the worker calls itself
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Drain and stop when this process, the parent, ends
    #[arg(long, hide = true, value_name = "PID")]
    pub(crate) exit_with_parent: Option<i32>,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

#[derive(Debug, Default, ClapArgs)]
pub(crate) struct SkillFolders {
    /// Folders of manifests and scripts; several with colons
    #[arg(long, value_name = "FOLDERS")]
    pub(crate) skills_dir: Option<String>,
    /// The only folder skills may touch
    #[arg(long, value_name = "FOLDER")]
    pub(crate) allowed_root: Option<PathBuf>,
}

#[derive(Debug, Default, ClapArgs)]
pub(crate) struct Client {
    /// The gateway
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Skills {
    #[command(flatten)]
    pub(crate) client: Client,
    /// Only this toolset
    #[arg(long, default_value = "")]
    pub(crate) toolset: String,
    /// Also those that can't be called now, with the reason
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON, schemas included
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Tools {
    #[command(flatten)]
    pub(crate) client: Client,
    /// Whose shape: openai, openai-responses, anthropic, gemini, dashscope, mcp
    #[arg(long, value_name = "NAME", default_value = "openai", value_parser = dialect)]
    pub(crate) dialect: Dialect,
    /// The provider's strict mode, where it has one
    #[arg(long)]
    pub(crate) strict: bool,
    /// Only this toolset
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) toolset: String,
    /// Only this skill; may be given more than once
    #[arg(long = "skill", value_name = "ID")]
    pub(crate) skills: Vec<String>,
    /// Only tools that have to do with this task, the best first
    #[arg(long, value_name = "WORDS", default_value = "")]
    pub(crate) query: String,
    /// At most so many; 10 with --query, all without
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) limit: u32,
    /// The session whose open circuits count
    #[arg(long, value_name = "ID", default_value = "")]
    pub(crate) session: String,
    /// Also tools that can't be called now
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Workers {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: Client,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Circuits {
    /// Only this skill's
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) skill_id: Option<String>,
    /// Only this session's
    #[arg(long, value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,
    /// Also the closed ones
    #[arg(long)]
    pub(crate) all: bool,
    /// Close them, so that calls pass again
    #[arg(long, conflicts_with = "all")]
    pub(crate) reset: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: Client,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Drain {
    /// The worker to take out; the gateway itself if none is given
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) worker_id: Option<String>,
    /// Take it back in
    #[arg(long)]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) client: Client,
}

/// A dialect by its name.
fn dialect(name: &str) -> Result<Dialect, String> {
    Dialect::named(name).ok_or_else(|| format!("one of {}", Dialect::NAMES.map(|(name, _)| name).join(", ")))
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Invoke {
    /// The skill; may be left out if --call names it
    #[arg(required_unless_present = "call")]
    pub(crate) skill_id: Option<String>,
    /// Arguments: KEY=VALUE, read as the skill's schema says; KEY:=JSON for any JSON value
    #[arg(value_name = "KEY=VALUE", conflicts_with = "json")]
    pub(crate) arguments: Vec<String>,
    /// All arguments as one JSON object; `-` reads it from stdin
    #[arg(long, value_name = "OBJECT")]
    pub(crate) json: Option<String>,
    /// A model's call as it wrote it: a tool-call object, <toolset><skill>{...}</skill></toolset>; `-` reads it from stdin
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["json", "arguments"])]
    pub(crate) call: Option<String>,
    /// Refuse arguments that do not fit, instead of repairing what can mean one thing only
    #[arg(long)]
    pub(crate) strict: bool,
    /// Show events as they come, one JSON object a line; the result is the last
    #[arg(long)]
    pub(crate) stream: bool,
    /// Print the whole result, not only its data
    #[arg(long)]
    pub(crate) full: bool,
    /// The X-Trace-Id to send
    #[arg(long, value_name = "ID")]
    pub(crate) trace_id: Option<String>,
    /// The conversation this call belongs to
    #[arg(long, value_name = "ID", default_value = "")]
    pub(crate) session: String,
    /// A key: a second call with it gets the first one's result
    #[arg(long, value_name = "KEY", default_value = "")]
    pub(crate) idempotency_key: String,
    /// The longest the call may take, in milliseconds; 0: what the skill is granted
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(crate) timeout_ms: u32,
    #[command(flatten)]
    pub(crate) client: Client,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Pin {
    /// The server: the id of its manifest
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct New {
    /// The skill's id, or the server's
    pub(crate) id: String,
    /// What runs it
    #[arg(long = "type", value_name = "TYPE", default_value = "cli:python")]
    pub(crate) kind: SkillType,
    /// Where to write: the first of these folders
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

/// What runs a skill.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum SkillType {
    /// A Python script
    #[value(name = "cli:python")]
    Python,
    /// A program
    #[value(name = "cli:exec")]
    Exec,
    /// A request to a server
    #[value(name = "http")]
    Http,
    /// A container
    #[value(name = "docker")]
    Docker,
    /// The tools of an MCP server that is a program
    #[value(name = "mcp:stdio")]
    McpStdio,
    /// The tools of an MCP server at a URL
    #[value(name = "mcp:http")]
    McpHttp,
    /// A function of the worker
    #[value(name = "inproc")]
    Inproc,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Check {
    /// The skill; all of them if none is given
    pub(crate) skill_id: Option<String>,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) skills: SkillFolders,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Config {
    /// Print the reference of all settings, as Markdown
    #[arg(long)]
    pub(crate) reference: bool,
}

/// Flags as settings: the name of the setting and its value.
pub(crate) type Overrides = Vec<(&'static str, String)>;

impl SkillFolders {
    fn overrides(&self) -> Overrides {
        let root = self.allowed_root.as_ref().map(|root| root.to_string_lossy().into_owned());
        given([(names::CLI_DIR, self.skills_dir.clone()), (names::ALLOWED_ROOT, root)])
    }
}

impl Command {
    /// The flags that are settings.
    pub(crate) fn overrides(&self) -> Overrides {
        let client = |client: &Client| given([(names::HTTP_BASE_URL, client.url.clone())]);
        match self {
            Self::Up(it) => [given([(names::LISTEN, it.listen.clone())]), it.skills.overrides()].concat(),
            Self::Gateway(it) => given([(names::LISTEN, it.listen.clone()), (names::WORKERS, it.workers.clone())]),
            Self::Worker(it) => {
                let own = given([(names::WORKER_LISTEN, it.listen.clone()), (names::WORKER_ID, it.id.clone())]);
                [own, it.skills.overrides()].concat()
            }
            Self::Check(it) => it.skills.overrides(),
            Self::New(it) => it.skills.overrides(),
            Self::Doctor(it) => it.skills.overrides(),
            Self::Pin(it) => it.skills.overrides(),
            Self::Skills(it) => client(&it.client),
            Self::Tools(it) => client(&it.client),
            Self::Invoke(it) => client(&it.client),
            Self::Workers(it) => client(&it.client),
            Self::Circuits(it) => client(&it.client),
            Self::Drain(it) => client(&it.client),
            Self::Health(it) => client(it),
            Self::Config(_) | Self::Completions { .. } => Vec::new(),
        }
    }
}

fn given(flags: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Overrides {
    flags.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
