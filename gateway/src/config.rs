//! A gateway's settings, resolved and valid. Its builder reads files and the environment; nothing here does.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openskill_agent::hosted::Setup;
use openskill_net::tls::client::Connector;
use openskill_net::tls::server::Acceptor;
use openskill_trace::Tracer;

pub use crate::identity::registry::{IdentityConfig, KeysConfig};
pub use crate::identity::tokens::JwtConfig;
pub use crate::mcp::views::ViewsConfig;
pub use crate::observe::recorder::RecorderConfig;
pub use crate::protect::circuit::rules::{Rules as CircuitRules, SessionRules, SkillRules};
pub use crate::serve::layers::sites::Sites;
pub use crate::workers::source::{Source, SourceError};

/// A secret of at least 32 bytes. It is not shown.
#[derive(Clone)]
pub struct Secret(pub Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// When calls of MCP clients become tasks, and where those are kept.
#[derive(Debug, Clone)]
pub struct TasksConfig {
    /// The file. None: they end with the process.
    pub file: Option<PathBuf>,
    /// Nobody chose the file: if it can't be opened, they end with the process.
    pub is_default: bool,
    /// After how long a call becomes a task, unless its skill says otherwise.
    pub after: Duration,
    /// How long a task is kept after it was created.
    pub lifetime: Duration,
}

/// A gateway's settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to look for workers.
    pub workers: Vec<Source>,
    /// What encrypts connections to workers, and checks who they are. None: they are not encrypted, and no worker is at an
    /// `https` address. Workers at unix sockets are protected by the modes of the files.
    pub mesh: Option<Connector>,
    /// How often names and folders among them are resolved again.
    pub refresh_interval: Duration,
    /// The deadline of a call unless its caller or its skill's manifest sets one.
    pub default_timeout: Duration,
    /// The gateway's concurrency limit. Calls beyond it are refused: `OVERLOADED`.
    pub max_in_flight: usize,
    /// The concurrency limit of each skill.
    pub max_in_flight_of_skill: usize,
    /// Lowers a worker's concurrency limit while calls queue there for too long.
    pub adaptive_limit: bool,
    /// When circuit breakers open, unless a skill's manifest says otherwise.
    pub circuits: CircuitRules,
    /// How long idempotency keys are remembered after their calls ended.
    pub idempotency_lifetime: Duration,
    /// Open connections. A newcomer beyond them gets the place of the connection that has been idle longest.
    pub max_connections: usize,
    /// Open connections of one peer: an IPv4 address or an IPv6 /64 network. Loopback is not limited.
    pub max_connections_of_peer: usize,
    /// Hosts and origins of requests that are allowed beside the gateway's own. None: no others.
    pub sites: Option<Arc<Sites>>,
    /// The certificate of all its listeners. None: they speak plain text.
    pub tls: Option<Acceptor>,
    /// Who may use the gateway. None: everybody who reaches it.
    pub identity: Option<IdentityConfig>,
    /// The secret with which replicas seal the sessions of MCP clients. None: this process makes one up.
    pub mcp_secret: Option<Secret>,
    /// When calls of MCP clients become tasks, and where those are kept.
    pub mcp_tasks: TasksConfig,
    /// Its URL as clients know it, without a slash at the end. None: as requests name it.
    pub public_url: Option<String>,
    /// Parts of the catalog for MCP clients. None: all of it at `/mcp`.
    pub mcp_views: Option<ViewsConfig>,
    /// How long the call of an MCP session goes on after its stream broke. Zero: not at all.
    pub mcp_resumable: Duration,
    /// How much text of a result an MCP client gets at once, in bytes. It reads the rest as a resource.
    pub mcp_result_bytes: usize,
    /// How many skills have metrics of their own. The others share theirs.
    pub measured_skills: usize,
    /// What is recorded of calls. None: nothing.
    pub recorder: Option<RecorderConfig>,
    /// How the agent starts. None: no agent is served.
    pub agent: Option<Setup>,
    /// How long a gateway that is told to shut down still accepts connections and calls, while it reports that it is not ready.
    pub lame_duck: Duration,
    /// How long calls in flight may take to finish during a shutdown.
    pub drain_timeout: Duration,
    /// Makes the spans of calls. None: calls are not traced.
    pub tracer: Option<Tracer>,
}
