//! `openskill agent`, and the agent of a gateway.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use openskill_agent::config::{AgentConfig, Place};
use openskill_agent::hosted::Setup;
use openskill_agent::remote::Remote;

use tonic::transport::Endpoint;

use crate::channel::{dial, endpoint};
use crate::exit::Failure;
use crate::settings::{Raw, Settings, Store, names};

pub(crate) fn run(settings: &Settings, raw: &Raw) -> Result<ExitCode, Failure> {
    let identity = settings.access.identity(raw, &[(names::AGENT_LISTEN, Some(settings.agent_listen))])?;
    let authorization = settings.access.authorization()?;
    let (tls, dial) = (settings.tls.acceptor(raw)?, dial(settings)?);
    let setup = of(settings, raw, None)?;
    super::run(settings, "agent", |shutdown, tracer| async move {
        let address = settings.agent_listen;
        let what = format!("listening on {address} (set another address with --listen or OPENSKILL_AGENT_LISTEN)");
        let listener = openskill_net::listen::bind_tcp(address, 1).map_err(Failure::system(what))?.pop();
        let Some(listener) = listener else { return Ok(()) };
        let address = listener.local_addr().unwrap_or(address);
        let connect = |endpoint: Endpoint| endpoint.connect_with_connector_lazy(dial);
        let skills = Remote::new(endpoint(&settings.base_url)?, authorization, connect);
        tracing::info!(%address, gateway = settings.base_url, "agent listening");
        let config = super::gateway_config(settings, tracer, None, None);
        let config = openskill_gateway::Config { tls, identity, ..config };
        openskill_gateway::run_agent(config, setup, Arc::new(skills), listener, shutdown)
            .await
            .map_err(Failure::system("running the agent"))
    })
}

/// How a gateway's agent starts, if there is to be one. `by_default`: the file of conversations unless a setting names one;
/// none means that they are kept in memory.
pub(super) fn setup(settings: &Settings, raw: &Raw, by_default: Option<PathBuf>) -> Result<Option<Setup>, Failure> {
    settings.agent.is_on.then(|| of(settings, raw, by_default)).transpose()
}

fn of(settings: &Settings, raw: &Raw, by_default: Option<PathBuf>) -> Result<Setup, Failure> {
    let agent = &settings.agent;
    let (file, or_memory) = match &agent.store {
        Store::File(file) => (Some(file.clone()), false),
        Store::Memory => (None, false),
        Store::Default => (by_default, true),
    };
    let place = file.map_or(Place::Memory, Place::File);
    Ok(Setup { config: AgentConfig { place, ..agent.config.clone() }, models: agent.models(raw)?, or_memory })
}
