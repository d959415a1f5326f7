//! `openskill agent` and the agent inside a gateway.

use std::path::PathBuf;
use std::sync::Arc;

use openskill_agent::config::AgentConfig;
use openskill_agent::hosted::Setup;
use openskill_agent::remote::RemoteGateway;
use openskill_gateway::config::OperationsConfig;
use openskill_store::Location;
use tonic::transport::Endpoint;

use crate::channel::{dial, endpoint};
use crate::exit::Failure;
use crate::settings::{RawSettings, Settings};

pub(crate) fn run(settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    let identity = settings.access.identity(raw, &[("OPENSKILL_AGENT_LISTEN", Some(settings.agent_listen))])?;
    let authorization = settings.access.authorization()?;
    let (tls, dial) = (settings.tls.acceptor(raw)?, dial(settings)?);
    // A file may be in use by a gateway with the same settings.
    let shared = operations_store(settings).filter(|it| matches!(it, Location::Postgres(_)));
    let setup = build_setup(settings, raw, shared, None)?;
    super::run(settings, "agent", async move |shutdown, tracer| {
        let bound = super::bind_one(Some(settings.agent_listen), "--listen", "OPENSKILL_AGENT_LISTEN")?;
        let Some((listener, address)) = bound else { return Ok(()) };
        let connect = |endpoint: Endpoint| endpoint.connect_with_connector_lazy(dial);
        let skills = RemoteGateway::new(endpoint(&settings.base_url)?, authorization, connect);
        tracing::info!(%address, gateway = settings.base_url, "agent listening");
        let operations = OperationsConfig { store: None, ..settings.gateway.operations.clone() };
        let config = openskill_gateway::Config { tls, identity, operations, tracer, ..settings.gateway.clone() };
        openskill_gateway::run_agent(config, setup, Arc::new(skills), listener, shutdown)
            .await
            .map_err(Failure::system("running the agent"))
    })
}

/// Sets up a gateway's agent. Returns `None` if the agent is off. `by_default` is the file for conversations if no
/// setting names a store. If both are missing, conversations are kept in memory.
pub(super) fn setup(
    settings: &Settings,
    raw: &RawSettings,
    by_default: Option<PathBuf>,
) -> Result<Option<Setup>, Failure> {
    settings.agent.is_on.then(|| build_setup(settings, raw, operations_store(settings), by_default)).transpose()
}

/// The store that a setting names for operations, if it keeps what it gets.
fn operations_store(settings: &Settings) -> Option<Location> {
    settings.gateway.operations.store.clone().filter(|it| *it != Location::Memory)
}

fn build_setup(
    settings: &Settings,
    raw: &RawSettings,
    shared: Option<Location>,
    by_default: Option<PathBuf>,
) -> Result<Setup, Failure> {
    let agent = &settings.agent;
    let shared = shared.filter(|_| agent.store.is_default);
    let or_memory = agent.store.is_default && shared.is_none();
    let own = || agent.store.path_or(by_default).map_or(Location::Memory, Location::File);
    let config = AgentConfig { store: shared.unwrap_or_else(own), ..agent.config.clone() };
    Ok(Setup { config, store: None, models: agent.models(raw)?, or_memory })
}
