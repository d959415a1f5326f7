//! Exports the metrics of this process by OTLP, at intervals: the same series as `GET /metrics`.
//!
//! The SDK has no histogram that reads what is counted already, so the messages are made here: [`message`]. A thread of its
//! own takes the snapshots and sends them. An unreachable collector costs the process nothing but that thread.

use std::time::{Duration, Instant};

use openskill_metrics::telemetry::TELEMETRY;
use openskill_metrics::{Snapshot, source};
use tokio_util::sync::CancellationToken;

use crate::collector::{Collector, Rejected};
use crate::exit::Failure;
use crate::settings::Settings;

mod message;

use message::Sender;

/// Ends the exports when it is dropped. What was counted since the last one is not exported.
pub(crate) struct Exports(Option<(CancellationToken, std::thread::JoinHandle<()>)>);

/// Starts the exports, if the settings ask for them. `role` becomes part of the service name.
///
/// # Errors
/// The collector's certificates are not usable, or the system has no thread.
pub(crate) fn start(settings: &Settings, role: &str) -> Result<Exports, Failure> {
    let Some(destination) = &settings.metrics else { return Ok(Exports(None)) };
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
        .map_err(Failure::system("starting the export of metrics"))?;
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
        .map_err(Failure::system("starting the export of metrics"))?;
    Ok(Exports(Some((stop, thread))))
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
        // Once for each time it begins: the counter says how often.
        if let (false, Some(reason)) = (failing, &failure) {
            tracing::warn!(reason, "the metrics could not be exported");
        }
        failing = failure.is_some();
    }
}

/// Sends a snapshot. The error is for every level of the log.
async fn export(collector: &Collector, sender: &Sender, snapshot: &Snapshot) -> Result<(), String> {
    for request in sender.requests(snapshot) {
        let rejected = collector.send(request).await.map_err(|error| {
            tracing::debug!(?error, "why the metrics could not be exported");
            error.to_string()
        })?;
        let Some(Rejected { count, reason }) = rejected else { continue };
        tracing::debug!(count, reason, "what the collector said about the metrics");
        if count > 0 {
            return Err(format!("the collector rejected {count} data points"));
        }
    }
    Ok(())
}

impl Drop for Exports {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            stop.cancel();
            let _ = thread.join();
        }
    }
}
