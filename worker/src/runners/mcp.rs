//! `mcp:stdio` and `mcp:http`: the tools of an MCP server as skills.
//!
//! ```text
//! manifest ──> server ──> lanes, kept up ──> connection: process and pipes, or HTTP
//!                │                                    │ taps: the state of each request
//!                ├─ catalog, pins ──> offers          │
//!                └─ capacity for a call ──> call ────┘──> output, media, errors
//! ```
//!
//! - [`server`]: one server: its connections, its tools, its capacity; [`lane`]: keeps one connection up
//! - [`connection`], [`program`], [`lines`], [`http_client`], [`http_post`]: connect to a server
//! - [`message`]: parses and writes messages, also invalid ones; [`tapped`], [`tap`]: track requests
//! - [`texts`]: sanitizes and redacts its other output
//! - [`lists`]: reads its lists; [`catalog`], [`pins`]: its tools, their skills, and changes to them;
//!   [`offerings`], [`resources`]: its prompts and resources; [`subscriptions`]: changes to resources
//! - [`trial`]: the tools of a server that is not served yet
//! - [`call`], [`tool_result`], [`errors`]: one call and its result; [`elicitation`]: relays questions to the caller

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::{ConsultRequest, ErrorCode, Offering, ResourceUpdate, SkillError};
use openskill_redact::Redactor;
use openskill_sandbox::allowed_root::RootError;
use openskill_telemetry::metrics::snapshot::Value;
use openskill_telemetry::metrics::{OTHER, Snapshot, table};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::manifest::{Manifest, RunnerSpec};
use crate::runner::{Invocation, Offer, RawOutput, Runner};
use crate::runners::python::interpreter::Interpreter;
use crate::runners::services::Services;

mod call;
mod catalog;
mod connect_error;
mod connection;
mod elicitation;
mod errors;
mod http_client;
mod http_post;
mod lane;
mod lines;
mod lists;
mod message;
mod offerings;
pub(crate) mod pins;
mod program;
mod resources;
mod server;
mod subscriptions;
mod tap;
mod tapped;
mod texts;
mod tool_result;
pub(crate) mod trial;

use program::Host;
use server::Server;

/// The maximum number of servers with separate metrics.
const MOST_MEASURED: usize = 100;

/// Runs the servers of one transport.
pub(crate) struct Mcp {
    host: Host,
    servers: Mutex<HashMap<String, Arc<Server>>>,
    /// Servers that were replaced or removed but have not ended yet.
    retiring: TaskTracker,
    closing: CancellationToken,
}

impl Mcp {
    pub(crate) fn new(services: &Services, redactor: Redactor) -> Self {
        Self {
            host: Host::new(services, redactor),
            servers: Mutex::default(),
            retiring: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Returns the interpreter of a server's environment, or `None` if the server needs none. Starts building a
    /// missing environment.
    ///
    /// # Errors
    /// Returns the reason, for people, if there is no interpreter or not yet.
    fn interpreter(&self, manifest: &Manifest) -> Result<Option<Arc<Interpreter>>, String> {
        match manifest.how.needs() {
            Some(needs) if !needs.is_nothing() => self.host.services.environments.admit(manifest, needs).map(Some),
            _ => Ok(None),
        }
    }
}

impl Runner for Mcp {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        match manifest.how {
            RunnerSpec::Mcp(_) => Err(self.interpreter(manifest).err().unwrap_or_else(|| server::STARTING.to_owned())),
            _ => Err("its manifest does not name a server".to_owned()),
        }
    }

    fn offer(&self, manifest: Manifest) -> Vec<Offer> {
        let server = self.servers.lock().get(&manifest.id).cloned();
        match server {
            Some(server) => server.offers(),
            None => vec![Offer { runner: self.admit(&manifest), manifest }],
        }
    }

    fn maintain(&self, manifests: &[Arc<Manifest>]) {
        // Includes only servers whose environments exist. A running server continues while its changed environment
        // is built.
        let ready: HashMap<&str, _> =
            manifests.iter().filter_map(|it| Some((it.id.as_str(), self.interpreter(it).ok()?))).collect();
        let mut servers = self.servers.lock();
        let stays = |server: &Server| {
            let has_its_own = ready.get(server.manifest.id.as_str()).is_none_or(|it| *it == server.host.interpreter);
            !server.is_behind() && has_its_own && manifests.iter().any(|it| **it == *server.manifest)
        };
        let gone: HashMap<_, _> = servers.extract_if(|_, server| !stays(server)).collect();
        for manifest in manifests {
            let Some(interpreter) = ready.get(manifest.id.as_str()).cloned() else { continue };
            if !servers.contains_key(&manifest.id) {
                let before = gone.get(&manifest.id).map(Arc::as_ref);
                let server = Server::new(Arc::clone(manifest), self.host.clone(), interpreter, before);
                let Some(server) = server else { continue };
                lane::start_all(&server);
                servers.insert(manifest.id.clone(), server);
            }
        }
        for (id, server) in gone {
            let (next, at_once) = (servers.get(&id).cloned(), self.closing.clone());
            self.retiring.spawn(async move { server.retire(next, at_once).await });
        }
    }

    fn measure(&self, metrics: &mut Snapshot) {
        let servers = self.servers.lock().iter().map(|(id, it)| (id.clone(), Arc::clone(it))).collect();
        measure(servers, metrics);
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let servers: Vec<_> = self.servers.lock().drain().map(|(_, server)| server).collect();
        self.closing.cancel();
        self.retiring.close();
        let retiring = self.retiring.clone();
        async move {
            retiring.wait().await;
            futures_util::future::join_all(servers.iter().map(|server| server.end())).await;
        }
        .boxed()
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        async move {
            let manifest = Arc::clone(&invocation.manifest);
            let RunnerSpec::McpTool(tool) = &manifest.how else { return unavailable() };
            let server = self.servers.lock().get(&tool.server).cloned();
            match server {
                Some(server) => {
                    // The server is already running, but a replaced root must not get requests.
                    let root = self.host.services.environment.run_root(&manifest);
                    match root.open().map_err(RootError::into_error) {
                        Err(error) if server.manifest.how.is_process() => RawOutput::NotStarted(error),
                        _ => call::run(server, &tool.tool, invocation).await,
                    }
                }
                None => unavailable(),
            }
        }
        .boxed()
    }
}

/// The servers that the runner starts on its own, one per manifest. `id` identifies the manifest.
impl Mcp {
    /// Returns whether each server's start was attempted at least once, so that [`Runner::offer`] is complete.
    pub(super) fn are_settled(&self) -> bool {
        self.servers.lock().values().all(|server| server.is_settled())
    }

    /// Returns the last lines that a server wrote to stderr. They may contain secrets, so only users of `openskill
    /// check` and `openskill doctor` may see them.
    pub(crate) fn last_lines(&self, id: &str) -> Vec<String> {
        self.servers.lock().get(id).map(|server| server.host.last_lines.read()).unwrap_or_default()
    }

    /// Returns a server's prompts and resources, and which resources have changed.
    pub(crate) fn offerings(&self, id: &str) -> (Vec<Offering>, Vec<ResourceUpdate>) {
        self.servers.lock().get(id).map(|server| server.offerings()).unwrap_or_default()
    }

    /// Requests the content of a prompt or resource from a server. Returns a JSON object in MCP's format. Dropping
    /// the future cancels the request.
    pub(crate) async fn consult(&self, request: ConsultRequest) -> Result<String, SkillError> {
        let server = self.servers.lock().get(&request.owner).cloned();
        match server {
            Some(server) => resources::consult(server, request).await,
            None => Err(SkillError::new(ErrorCode::NotFound, "this worker has no such server")),
        }
    }
}

/// Adds each server's metrics. Combines servers beyond the first [`MOST_MEASURED`].
fn measure(servers: BTreeMap<String, Arc<Server>>, metrics: &mut Snapshot) {
    let Some(runner) = servers.values().next().map(|server| server.manifest.runner.clone()) else { return };
    let mut rows: Vec<(&str, [u64; 4])> = Vec::new();
    for (id, server) in &servers {
        let counts = server.counts();
        match rows.get_mut(MOST_MEASURED) {
            Some((_, sum)) => (0..4).for_each(|at| sum[at] += counts[at]),
            None => rows.push((if rows.len() < MOST_MEASURED { id } else { OTHER }, counts)),
        }
    }
    let of_servers = [&table::MCP_CONNECTIONS, &table::MCP_UP, &table::MCP_CONNECTS, &table::MCP_LOSSES];
    for (id, counts) in rows {
        for (metric, count) in of_servers.into_iter().zip(counts) {
            metrics.add(metric, &[id, &runner], Value::Count(count));
        }
    }
}

fn unavailable() -> RawOutput {
    RawOutput::NotStarted(SkillError::new(ErrorCode::Unavailable, "the skill is not available on this worker"))
}
