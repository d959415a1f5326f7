//! The long-running commands: gateway, worker, `up` and agent.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use openskill_agent::hosted::Setup;
use openskill_gateway::config::RecorderConfig;
use openskill_trace::Tracer;
use tokio_util::sync::CancellationToken;

use crate::exit::{Failure, INTERRUPTED};
use crate::metrics_export;
use crate::settings::{Settings, TraceDir, unknown_variables};
use crate::signals::Signals;
use crate::telemetry;

pub(crate) mod agent;
pub(crate) mod gateway;
#[cfg(feature = "worker")]
pub(crate) mod up;
#[cfg(feature = "worker")]
pub(crate) mod worker;

/// The time that load balancers have to notice that a gateway is about to shut down. With a drain timeout of 20 s,
/// both fit into the 30 s that Kubernetes allows.
const LAME_DUCK: Duration = Duration::from_secs(5);

/// Runs `work` on this thread with logs, traces and signal handlers, then shuts everything down in order.
fn run<F>(
    settings: &Settings,
    role: &str,
    work: impl FnOnce(CancellationToken, Option<Tracer>) -> F,
) -> Result<ExitCode, Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let telemetry = telemetry::start(settings, role)?;
    let tracer = telemetry.tracer();
    name_unknown_variables();
    let exports = metrics_export::start(settings, role)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::system("starting a runtime"))?;
    let ended = runtime.block_on(async {
        let signals = Signals::listen().map_err(Failure::system("listening for signals"))?;
        let shutdown = CancellationToken::new();
        match signals.guard(shutdown.clone(), work(shutdown, tracer)).await {
            Some(ended) => ended.map(|()| ExitCode::SUCCESS),
            None => Ok(ExitCode::from(INTERRUPTED)),
        }
    });
    runtime.shutdown_background();
    drop(exports);
    drop(telemetry);
    ended
}

/// Warns about unknown variables, because a misspelled setting has no effect.
fn name_unknown_variables() {
    // Workers of `up` inherit its environment, and `up` has already warned.
    if std::env::args_os().any(|it| it == "--exit-with-parent") {
        return;
    }
    for variable in unknown_variables() {
        tracing::warn!(variable, "unknown variable ignored: `openskill config --reference` lists all settings");
    }
}

fn shards(settings: &Settings) -> usize {
    settings.shards.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Configures the recorder of the gateway that listens on `address`. `by_default` is the directory to use if no
/// setting names one. If both are missing, calls are kept in memory.
fn recorder_config(settings: &Settings, address: SocketAddr, by_default: Option<PathBuf>) -> Option<RecorderConfig> {
    let recorder = &settings.recorder;
    let folder = match &recorder.dir {
        TraceDir::Off => return None,
        TraceDir::Memory => None,
        TraceDir::Folder(folder) => Some(folder.clone()),
        TraceDir::Default => by_default,
    };
    Some(RecorderConfig {
        gateway: gateway_id(&rustix::system::uname().nodename().to_string_lossy(), address),
        folder,
        max_bytes: recorder.max_bytes,
        max_age: recorder.max_age,
        redaction: recorder.redaction.clone(),
    })
}

/// Identifies this gateway by host and address among those that record to the same directory.
fn gateway_id(host: &str, address: SocketAddr) -> String {
    format!("{host}/{address}")
}

/// Builds the gateway's configuration from the settings.
fn gateway_config(
    settings: &Settings,
    tracer: Option<Tracer>,
    recorder: Option<RecorderConfig>,
    agent: Option<Setup>,
) -> openskill_gateway::Config {
    openskill_gateway::Config {
        workers: settings.workers.clone(),
        refresh_interval: settings.refresh,
        default_timeout: settings.timeout,
        max_in_flight: settings.max_in_flight,
        max_in_flight_of_skill: settings.max_in_flight_of_skill,
        adaptive_limit: settings.adaptive_limit,
        circuits: settings.circuits,
        idempotency_lifetime: settings.idempotency_lifetime,
        max_connections: settings.max_connections,
        max_connections_of_peer: settings.max_connections_of_peer,
        sites: settings.sites.clone(),
        // Each command sets these for its own addresses.
        tls: None,
        mesh: None,
        identity: None,
        mcp_secret: None,
        mcp_tasks: settings.mcp.tasks(None),
        mcp_views: None,
        mcp_resumable: settings.mcp.resumable,
        mcp_result_bytes: settings.mcp.result_bytes,
        public_url: settings.public_url.clone(),
        measured_skills: settings.measured_skills,
        recorder,
        agent,
        lame_duck: settings.lame_duck.unwrap_or(LAME_DUCK),
        drain_timeout: settings.drain_timeout,
        tracer,
    }
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
