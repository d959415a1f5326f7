//! Exports the metrics of this process by OTLP, at intervals: the same series as `GET /metrics`.
//!
//! The SDK has no histogram that reads what is counted already, so the messages are made here: [`message`]. A thread of its
//! own takes the snapshots and sends them. An unreachable collector costs the process nothing but that thread.

use std::time::{Duration, Instant};

use openskill_metrics::source;
use openskill_metrics::telemetry::TELEMETRY;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use crate::exit::Failure;
use crate::settings::{Problem, Problems, Settings, names};

mod message;

use message::Sender;

/// How long the collector may take to accept one export.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends the exports when it is dropped. What was counted since the last one is not exported.
pub(crate) struct Exports(Option<(CancellationToken, std::thread::JoinHandle<()>)>);

/// Starts the exports, if the settings ask for them. `role` becomes part of the service name.
///
/// # Errors
/// The endpoint is not a URL, or the system has no thread.
pub(crate) fn start(settings: &Settings, role: &str) -> Result<Exports, Failure> {
    let Some(address) = settings.metrics_endpoint.clone() else { return Ok(Exports(None)) };
    let endpoint = Endpoint::from_shared(address).map_err(|error| {
        let (name, origin) = (names::OTLP_ENDPOINT.to_owned(), "settings".to_owned());
        Problems(vec![Problem { name, origin, reason: error.to_string() }])
    })?;
    let sender = Sender {
        service: format!("{}-{role}", settings.service_name),
        instance: settings.worker_id.clone(),
        version: env!("CARGO_PKG_VERSION"),
    };
    let (interval, stop) = (settings.metrics_interval, CancellationToken::new());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::system("starting the export of metrics"))?;
    let stopped = stop.clone();
    let thread = std::thread::Builder::new()
        .name("metrics-export".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                let client =
                    MetricsServiceClient::new(endpoint.timeout(PATIENCE).connect_timeout(PATIENCE).connect_lazy());
                tokio::select! {
                    () = stopped.cancelled() => {}
                    () = keep_exporting(client, &sender, interval) => {}
                }
            });
        })
        .map_err(Failure::system("starting the export of metrics"))?;
    Ok(Exports(Some((stop, thread))))
}

async fn keep_exporting(mut client: MetricsServiceClient<Channel>, sender: &Sender, interval: Duration) {
    let mut ticks = tokio::time::interval_at((Instant::now() + interval).into(), interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        ticks.tick().await;
        let Some(snapshot) = source::snapshot() else { continue };
        let mut ended = Ok(());
        for request in sender.requests(&snapshot) {
            ended = client.export(request).await.map(drop);
            if ended.is_err() {
                break;
            }
        }
        TELEMETRY.metrics_exported(ended.is_ok());
        // Once for each time it begins: the counter says how often.
        if let (false, Err(status)) = (failing, &ended) {
            tracing::warn!(code = ?status.code(), "the metrics could not be exported");
        }
        failing = ended.is_err();
    }
}

impl Drop for Exports {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            stop.cancel();
            let _ = thread.join();
        }
    }
}
