//! `openskill gateway`.

use std::process::ExitCode;

use crate::exit::Failure;
use crate::settings::Settings;

pub(crate) fn run(settings: &Settings) -> Result<ExitCode, Failure> {
    super::run(settings, "gateway", |shutdown| async move {
        let listeners = bind(settings, super::shards(settings))?;
        tracing::info!(address = %settings.listen, "gateway listening");
        let ready = |ready: openskill_gateway::Ready| {
            tracing::info!(workers = ready.workers, skills = ready.skills, "gateway ready");
        };
        openskill_gateway::run(super::gateway_config(settings), listeners, None, 1, ready, shutdown)
            .await
            .map_err(Failure::system("running the gateway"))
    })
}

/// Binds the gateway's public address.
pub(super) fn bind(settings: &Settings, shards: usize) -> Result<Vec<std::net::TcpListener>, Failure> {
    let what = format!("listening on {} (set another address with --listen or OPENSKILL_LISTEN)", settings.listen);
    openskill_net::listen::bind_tcp(settings.listen, shards).map_err(Failure::system(what))
}
