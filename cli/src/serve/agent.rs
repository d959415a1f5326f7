//! `openskill agent` and the agent inside a gateway.

use std::path::PathBuf;
use std::sync::Arc;

use openskill_agent::config::{AgentConfig, StoreLocation};
use openskill_agent::hosted::Setup;
use openskill_agent::remote::RemoteGateway;
use openskill_gateway::config::OperationsConfig;
use tonic::transport::Endpoint;

use crate::channel::{dial, endpoint};
use crate::exit::Failure;
use crate::settings::{RawSettings, Settings};

pub(crate) fn run(settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    let identity = settings.access.identity(raw, &[("OPENSKILL_AGENT_LISTEN", Some(settings.agent_listen))])?;
    let authorization = settings.access.authorization()?;
    let (tls, dial) = (settings.tls.acceptor(raw)?, dial(settings)?);
    let setup = build_setup(settings, raw, None)?;
    super::run(settings, "agent", async move |shutdown, tracer| {
        let bound = super::bind_one(Some(settings.agent_listen), "--listen", "OPENSKILL_AGENT_LISTEN")?;
        let Some((listener, address)) = bound else { return Ok(()) };
        let connect = |endpoint: Endpoint| endpoint.connect_with_connector_lazy(dial);
        let skills = RemoteGateway::new(endpoint(&settings.base_url)?, authorization, connect);
        tracing::info!(%address, gateway = settings.base_url, "agent listening");
        // A gateway with the same settings may use the store.
        let operations = OperationsConfig { store: None, ..settings.gateway.operations.clone() };
        let config = openskill_gateway::Config { tls, identity, operations, tracer, ..settings.gateway.clone() };
        openskill_gateway::run_agent(config, setup, Arc::new(skills), listener, shutdown)
            .await
            .map_err(Failure::system("running the agent"))
    })
}

/// Sets up a gateway's agent. Returns `None` if the agent is off. `by_default` is the file for conversations if no
/// setting names one. If both are missing, conversations are kept in memory.
pub(super) fn setup(
    settings: &Settings,
    raw: &RawSettings,
    by_default: Option<PathBuf>,
) -> Result<Option<Setup>, Failure> {
    settings.agent.is_on.then(|| build_setup(settings, raw, by_default)).transpose()
}

fn build_setup(settings: &Settings, raw: &RawSettings, by_default: Option<PathBuf>) -> Result<Setup, Failure> {
    let agent = &settings.agent;
    let store = agent.store.path_or(by_default).map_or(StoreLocation::Memory, StoreLocation::File);
    let (models, or_memory) = (agent.models(raw)?, agent.store.is_default);
    Ok(Setup { config: AgentConfig { store, ..agent.config.clone() }, models, or_memory })
}
