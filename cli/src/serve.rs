//! The long-running commands: gateway, worker, `up` and agent.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use openskill_gateway::config::RecorderConfig;
use openskill_telemetry::trace::Tracer;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::Failure;
use crate::metrics_export;
use crate::runtime::single_threaded;
use crate::settings::{Settings, unknown_variables};
use crate::telemetry;

pub(crate) mod agent;
pub(crate) mod gateway;
#[cfg(feature = "worker")]
pub(crate) mod up;
#[cfg(feature = "worker")]
pub(crate) mod worker;

/// Runs `work` on this thread with logs, traces and signal handlers, then shuts everything down in order.
fn run(
    settings: &Settings,
    role: &str,
    work: impl AsyncFnOnce(CancellationToken, Option<Tracer>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let telemetry = telemetry::start(settings, role)?;
    let tracer = telemetry.tracer.clone();
    name_unknown_variables();
    let exports = metrics_export::start(settings, role)?;
    let runtime = single_threaded()?;
    let ended = runtime.block_on(async {
        let shutdown = CancellationToken::new();
        let ended = until_signals(shutdown.clone(), work(shutdown, tracer)).await;
        ended.map_err(Failure::system("listening for signals"))?.unwrap_or(Err(Failure::Interrupted))
    });
    runtime.shutdown_background();
    drop(exports);
    drop(telemetry);
    ended
}

/// Runs `work`, and cancels `shutdown` on the first SIGTERM or SIGINT, so that `work` can drain. Returns `None` if a
/// second signal stopped it.
async fn until_signals<T>(shutdown: CancellationToken, work: impl Future<Output = T>) -> std::io::Result<Option<T>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut next_signal = async || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let mut work = std::pin::pin!(work);
    tokio::select! {
        ended = &mut work => return Ok(Some(ended)),
        () = next_signal() => {
            tracing::info!("shutting down: in-flight calls finish; a second signal stops at once");
            shutdown.cancel();
        }
    }
    tokio::select! {
        ended = work => Ok(Some(ended)),
        () = next_signal() => Ok(None),
    }
}

/// Whether this is a worker of `up`, which inherits its environment and directory, and has already warned.
pub(crate) fn is_worker_of_up() -> bool {
    std::env::args_os().any(|it| it == "--exit-with-parent")
}

/// Warns about unknown variables, because a misspelled setting has no effect.
fn name_unknown_variables() {
    if is_worker_of_up() {
        return;
    }
    for variable in unknown_variables() {
        tracing::warn!(variable, "unknown variable ignored: `openskill config --reference` lists all settings");
    }
}

fn shards(settings: &Settings) -> usize {
    settings.shards.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Binds an address once for each shard. `flag` and `setting` name another one.
fn bind(address: SocketAddr, shards: usize, flag: &str, setting: &str) -> Result<Vec<TcpListener>, Failure> {
    let what = format!("listening on {address} (set another address with {flag} or {setting})");
    openskill_net::listen::bind_tcp(address, shards).map_err(Failure::system(what))
}

/// Binds a separate address. Returns the listener with its real address, or `None` if no such address is set.
fn bind_one(
    address: Option<SocketAddr>,
    flag: &str,
    setting: &str,
) -> Result<Option<(TcpListener, SocketAddr)>, Failure> {
    let Some(address) = address else { return Ok(None) };
    let Some(listener) = bind(address, 1, flag, setting)?.pop() else { return Ok(None) };
    let address = listener.local_addr().unwrap_or(address);
    Ok(Some((listener, address)))
}

/// Configures the recorder of the gateway that listens on `address`. `by_default` is the directory to use if no
/// setting names one. If both are missing, calls are kept in memory.
fn recorder_config(settings: &Settings, address: SocketAddr, by_default: Option<PathBuf>) -> Option<RecorderConfig> {
    let recorder = &settings.recorder;
    Some(RecorderConfig {
        gateway: gateway_id(&rustix::system::uname().nodename().to_string_lossy(), address),
        folder: recorder.store.as_ref()?.path_or(by_default),
        max_bytes: recorder.max_bytes,
        max_age: recorder.max_age,
        redaction: recorder.redaction.clone(),
    })
}

/// Identifies this gateway by host and address among those that record to the same directory.
fn gateway_id(host: &str, address: SocketAddr) -> String {
    format!("{host}/{address}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_on_one_host_have_ids_of_their_own() {
        let id = |address: &str| gateway_id("host", address.parse().unwrap());
        assert_eq!(id("127.0.0.1:8000"), "host/127.0.0.1:8000");
        assert_ne!(id("127.0.0.1:8000"), id("127.0.0.2:8000"));
        assert_ne!(id("127.0.0.1:8000"), id("127.0.0.1:8001"));
    }
}
