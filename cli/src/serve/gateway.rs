//! `openskill gateway`: runs a gateway without workers.

use std::net::TcpListener;

use openskill_gateway::config::IdentityConfig;

use crate::exit::Failure;
use crate::settings::{McpFiles, RawSettings, Settings};

pub(crate) fn run(settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    let identity = identity(settings, raw)?;
    let (tls, mesh) = (settings.tls.acceptor(raw)?, settings.tls.mesh_connector(raw)?);
    let McpFiles { secret: mcp_secret, views: mcp_views } = McpFiles::read(raw)?;
    let agent = super::agent::setup(settings, raw, None)?;
    super::run(settings, "gateway", async move |shutdown, tracer| {
        let listeners = bind(settings, super::shards(settings))?;
        tracing::info!(address = %settings.listen, "gateway listening");
        let admin = bind_admin(settings)?;
        let ready = |ready: openskill_gateway::Ready| {
            tracing::info!(workers = ready.workers, skills = ready.skills, "gateway ready");
        };
        let address = listeners.first().and_then(|it| it.local_addr().ok()).unwrap_or(settings.listen);
        let recorder = super::recorder_config(settings, address, None);
        let config = openskill_gateway::Config {
            tls,
            mesh,
            identity,
            mcp_secret,
            mcp_views,
            recorder,
            agent,
            tracer,
            ..settings.gateway.clone()
        };
        openskill_gateway::run(config, listeners, admin, 1, ready, shutdown)
            .await
            .map_err(Failure::system("running the gateway"))
    })
}

/// Reads the settings and files that control access to the gateway.
pub(super) fn identity(settings: &Settings, raw: &RawSettings) -> Result<Option<IdentityConfig>, Failure> {
    let addresses = [("OPENSKILL_LISTEN", Some(settings.listen)), ("OPENSKILL_ADMIN_LISTEN", settings.admin_listen)];
    Ok(settings.access.identity(raw, &addresses)?)
}

/// Binds the separate address of AdminService. Returns `None` if no such address is set.
pub(super) fn bind_admin(settings: &Settings) -> Result<Option<TcpListener>, Failure> {
    let bound = super::bind_one(settings.admin_listen, "--admin-listen", "OPENSKILL_ADMIN_LISTEN")?;
    Ok(bound.map(|(listener, address)| {
        tracing::info!(%address, "AdminService listening");
        listener
    }))
}

/// Binds the gateway's public address.
pub(super) fn bind(settings: &Settings, shards: usize) -> Result<Vec<TcpListener>, Failure> {
    super::bind(settings.listen, shards, "--listen", "OPENSKILL_LISTEN")
}
