//! A gateway's resolved and valid settings. This module reads no files and no environment variables: its caller
//! does.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openskill_agent::hosted::Setup;
use openskill_net::tls::client::Connector;
use openskill_net::tls::server::Acceptor;
use openskill_telemetry::trace::Tracer;

pub use crate::identity::registry::{IdentityConfig, KeysConfig};
pub use crate::identity::tokens::JwtConfig;
pub use crate::long_running::config::{OperationsConfig, SigningKeys, WebhookConfig};
pub use crate::mcp::views::ViewsConfig;
pub use crate::observe::recorder::RecorderConfig;
pub use crate::protect::circuit::rules::{Rules as CircuitRules, SessionRules, SkillRules};
pub use crate::serve::layers::sites::Sites;
pub use crate::workers::source::{Source, SourceError};

/// The secret that seals the sessions of MCP clients, at least 32 bytes long. `Debug` does not show it.
#[derive(Clone)]
pub struct McpSecret(pub Vec<u8>);

impl std::fmt::Debug for McpSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A gateway's settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to find workers.
    pub workers: Vec<Source>,
    /// Encrypts connections to workers and verifies their identity. If None, connections are not encrypted, and no
    /// worker may have an `https` address. Workers at Unix sockets are protected by file modes instead.
    pub mesh: Option<Connector>,
    /// How often host names and folders in `workers` are resolved again.
    pub refresh_interval: Duration,
    /// The timeout of a call, unless its caller or its skill's manifest sets one.
    pub default_timeout: Duration,
    /// The gateway's concurrency limit. Calls beyond it are refused with `OVERLOADED`.
    pub max_in_flight: usize,
    /// The concurrency limit of each skill.
    pub max_in_flight_of_skill: usize,
    /// Lowers a worker's concurrency limit while calls queue there for too long.
    pub adaptive_limit: bool,
    /// When circuit breakers open, unless a skill's manifest overrides it.
    pub circuits: CircuitRules,
    /// How long idempotency keys are remembered after their calls ended.
    pub idempotency_lifetime: Duration,
    /// The maximum number of open connections. Beyond it, a new connection replaces the one that has been idle
    /// longest.
    pub max_connections: usize,
    /// The maximum number of open connections per peer, which is an IPv4 address or an IPv6 /64 network. Loopback
    /// is not limited.
    pub max_connections_of_peer: usize,
    /// The hosts and origins that requests may name in addition to the gateway's own.
    pub sites: Option<Arc<Sites>>,
    /// The certificate of all listeners. If None, they speak plain text.
    pub tls: Option<Acceptor>,
    /// Who may use the gateway. If None, everyone who can reach it.
    pub identity: Option<IdentityConfig>,
    /// The secret with which replicas seal the sessions of MCP clients. If None, this process generates one.
    pub mcp_secret: Option<McpSecret>,
    /// How long a call of an MCP client runs before it becomes a task, unless its skill overrides this.
    pub mcp_task_after: Duration,
    /// Where operations are stored, and how many.
    pub operations: OperationsConfig,
    /// The file with traffic rules. If None, they end with the process.
    pub traffic_file: Option<PathBuf>,
    /// The gateway's public URL, without a trailing slash. If None, it is taken from each request.
    pub public_url: Option<String>,
    /// The parts of the catalog that MCP clients see. If None, all of it is at `/mcp`.
    pub mcp_views: Option<ViewsConfig>,
    /// How long a call of an MCP session continues after its stream breaks. If zero, it ends at once.
    pub mcp_resumable: Duration,
    /// The maximum text of a result that an MCP client gets inline, in bytes. It reads the rest as a resource.
    pub mcp_result_bytes: usize,
    /// The number of skills with their own metrics. All others share one series.
    pub measured_skills: usize,
    /// How calls are recorded. If None, they are not.
    pub recorder: Option<RecorderConfig>,
    /// The agent's setup. If None, no agent runs.
    pub agent: Option<Setup>,
    /// How long a gateway that is shutting down still accepts connections and calls, while it reports that it is
    /// not ready.
    pub lame_duck: Duration,
    /// How long calls in flight may take to finish during a shutdown.
    pub drain_timeout: Duration,
    /// Creates the spans of calls. If None, calls are not traced.
    pub tracer: Option<Tracer>,
}
