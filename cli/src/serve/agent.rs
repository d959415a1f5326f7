//! `openskill agent` and the agent inside a gateway.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use openskill_agent::config::{AgentConfig, StoreLocation};
use openskill_agent::hosted::Setup;
use openskill_agent::remote::RemoteGateway;

use tonic::transport::Endpoint;

use crate::channel::{dial, endpoint};
use crate::exit::Failure;
use crate::settings::{ConversationStore, RawSettings, Settings, names};

pub(crate) fn run(settings: &Settings, raw: &RawSettings) -> Result<ExitCode, Failure> {
    let identity = settings.access.identity(raw, &[(names::AGENT_LISTEN, Some(settings.agent_listen))])?;
    let authorization = settings.access.authorization()?;
    let (tls, dial) = (settings.tls.acceptor(raw)?, dial(settings)?);
    let setup = build_setup(settings, raw, None)?;
    super::run(settings, "agent", |shutdown, tracer| async move {
        let address = settings.agent_listen;
        let what = format!("listening on {address} (set another address with --listen or OPENSKILL_AGENT_LISTEN)");
        let listener = openskill_net::listen::bind_tcp(address, 1).map_err(Failure::system(what))?.pop();
        let Some(listener) = listener else { return Ok(()) };
        let address = listener.local_addr().unwrap_or(address);
        let connect = |endpoint: Endpoint| endpoint.connect_with_connector_lazy(dial);
        let skills = RemoteGateway::new(endpoint(&settings.base_url)?, authorization, connect);
        tracing::info!(%address, gateway = settings.base_url, "agent listening");
        let config = super::gateway_config(settings, tracer, None, None);
        let config = openskill_gateway::Config { tls, identity, ..config };
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
    let (file, or_memory) = match &agent.store {
        ConversationStore::File(file) => (Some(file.clone()), false),
        ConversationStore::Memory => (None, false),
        ConversationStore::Default => (by_default, true),
    };
    let store = file.map_or(StoreLocation::Memory, StoreLocation::File);
    Ok(Setup { config: AgentConfig { store, ..agent.config.clone() }, models: agent.models(raw)?, or_memory })
}
