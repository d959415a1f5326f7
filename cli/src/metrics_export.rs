//! Exports the metrics of this process over OTLP at intervals: the same series as `GET /metrics`.
//!
//! OpenTelemetry's SDK cannot export histograms that other code recorded, so [`message`] builds the messages. A separate thread
//! takes the snapshots and sends them. An unreachable collector delays only that thread.

use std::time::{Duration, Instant};

use openskill_metrics::telemetry::TELEMETRY;
use openskill_metrics::{Snapshot, source};
use tokio_util::sync::CancellationToken;

use crate::collector::{Collector, Rejection};
use crate::exit::Failure;
use crate::settings::Settings;

mod message;

use message::Sender;

/// Stops the export when it is dropped. Changes since the last export are not sent.
pub(crate) struct MetricsExporter(Option<(CancellationToken, std::thread::JoinHandle<()>)>);

/// Starts the export if the settings configure it. `role` becomes part of the service name.
///
/// # Errors
/// The collector's certificates are unusable, or the system cannot start a thread.
pub(crate) fn start(settings: &Settings, role: &str) -> Result<MetricsExporter, Failure> {
    let Some(destination) = &settings.metrics else { return Ok(MetricsExporter(None)) };
    let collector = Collector::new(destination)?;
    let sender = Sender {
        service: format!("{}-{role}", settings.service_name),
        instance: settings.worker_id.clone(),
        version: env!("CARGO_PKG_VERSION"),
    };
    let (interval, stop) = (settings.metrics_interval, CancellationToken::new());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::system("starting the metrics export"))?;
    let stopped = stop.clone();
    let thread = std::thread::Builder::new()
        .name("metrics-export".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = stopped.cancelled() => {}
                    () = keep_exporting(&collector, &sender, interval) => {}
                }
            });
        })
        .map_err(Failure::system("starting the metrics export"))?;
    Ok(MetricsExporter(Some((stop, thread))))
}

async fn keep_exporting(collector: &Collector, sender: &Sender, interval: Duration) {
    let mut ticks = tokio::time::interval_at((Instant::now() + interval).into(), interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        ticks.tick().await;
        let Some(snapshot) = source::snapshot() else { continue };
        let failure = export(collector, sender, &snapshot).await.err();
        TELEMETRY.metrics_exported(failure.is_none());
        // Only the first of consecutive failures is logged. The counter counts all of them.
        if let (false, Some(reason)) = (failing, &failure) {
            tracing::warn!(reason, "the metrics could not be exported");
        }
        failing = failure.is_some();
    }
}

/// Sends a snapshot. The error contains no text from the collector, so it may be logged at any level.
async fn export(collector: &Collector, sender: &Sender, snapshot: &Snapshot) -> Result<(), String> {
    for request in sender.requests(snapshot) {
        let rejected = collector.send(request).await.map_err(|error| {
            tracing::debug!(?error, "metrics export failed");
            error.to_string()
        })?;
        let Some(Rejection { count, reason }) = rejected else { continue };
        tracing::debug!(count, reason, "the collector's message about metrics");
        if count > 0 {
            return Err(format!("the collector rejected {count} data points"));
        }
    }
    Ok(())
}

impl Drop for MetricsExporter {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            stop.cancel();
            let _ = thread.join();
        }
    }
}
