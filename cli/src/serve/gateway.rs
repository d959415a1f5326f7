//! `openskill gateway`: runs a gateway without workers.

use std::net::TcpListener;
use std::process::ExitCode;

use openskill_gateway::config::IdentityConfig;

use crate::exit::Failure;
use crate::settings::{McpFiles, RawSettings, Settings, names};

pub(crate) fn run(settings: &Settings, raw: &RawSettings) -> Result<ExitCode, Failure> {
    let identity = identity(settings, raw)?;
    let (tls, mesh) = (settings.tls.acceptor(raw)?, settings.tls.mesh_connector(raw)?);
    let McpFiles { secret: mcp_secret, views: mcp_views } = settings.mcp.files(raw)?;
    let agent = super::agent::setup(settings, raw, None)?;
    super::run(settings, "gateway", |shutdown, tracer| async move {
        let listeners = bind(settings, super::shards(settings))?;
        tracing::info!(address = %settings.listen, "gateway listening");
        let admin = bind_admin(settings)?;
        let ready = |ready: openskill_gateway::Ready| {
            tracing::info!(workers = ready.workers, skills = ready.skills, "gateway ready");
        };
        let address = listeners.first().and_then(|it| it.local_addr().ok()).unwrap_or(settings.listen);
        let recorder = super::recorder_config(settings, address, None);
        let own = super::gateway_config(settings, tracer, recorder, agent);
        let config = openskill_gateway::Config { tls, mesh, identity, mcp_secret, mcp_views, ..own };
        openskill_gateway::run(config, listeners, admin, 1, ready, shutdown)
            .await
            .map_err(Failure::system("running the gateway"))
    })
}

/// Reads the settings and files that control access to the gateway.
pub(super) fn identity(settings: &Settings, raw: &RawSettings) -> Result<Option<IdentityConfig>, Failure> {
    let addresses = [(names::LISTEN, Some(settings.listen)), (names::ADMIN_LISTEN, settings.admin_listen)];
    Ok(settings.access.identity(raw, &addresses)?)
}

/// Binds the separate address of AdminService. Returns `None` if no such address is set.
pub(super) fn bind_admin(settings: &Settings) -> Result<Option<TcpListener>, Failure> {
    let Some(address) = settings.admin_listen else { return Ok(None) };
    let what = format!("listening on {address} (set another address with --admin-listen or OPENSKILL_ADMIN_LISTEN)");
    let listener = openskill_net::listen::bind_tcp(address, 1).map_err(Failure::system(what))?.pop();
    let address = listener.as_ref().and_then(|it| it.local_addr().ok()).unwrap_or(address);
    tracing::info!(%address, "AdminService listening");
    Ok(listener)
}

/// Binds the gateway's public address.
pub(super) fn bind(settings: &Settings, shards: usize) -> Result<Vec<TcpListener>, Failure> {
    let what = format!("listening on {} (set another address with --listen or OPENSKILL_LISTEN)", settings.listen);
    openskill_net::listen::bind_tcp(settings.listen, shards).map_err(Failure::system(what))
}
