//! Exports spans over OTLP, on a thread of its own.
//!
//! The queue counts what it drops, and this counts what the collector did not take. Either is said in one line of the log, and
//! in no more than one a minute. A batch is sent once: a collector that is down makes nobody wait.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use openskill_metrics::telemetry::TELEMETRY;
use openskill_trace::SpanData;
use openskill_trace::queue::Queue;
use opentelemetry_otlp::{
    ExporterBuildError, SpanExporter, WithExportConfig as _, WithHttpConfig as _, WithTonicConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};

use crate::settings::otlp::{Otlp, Protocol};

/// How often lost spans are reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// How long the last spans may take. An unreachable collector must not delay the exit.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// The thread that exports. Dropping it exports the rest and joins the thread.
#[derive(Debug)]
pub(super) struct Exporter {
    queue: Arc<Queue>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Why nothing can be exported.
#[derive(Debug)]
pub(super) enum NoExporter {
    Setting(ExporterBuildError),
    System(std::io::Error),
}

/// Starts the thread. `service` is the name of this process in traces.
pub(super) fn start(otlp: &Otlp, service: String, queue: &Arc<Queue>) -> Result<Exporter, NoExporter> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(NoExporter::System)?;
    let mut exporter = {
        let _context = runtime.enter();
        build(otlp).map_err(NoExporter::Setting)?
    };
    exporter.set_resource(&Resource::builder().with_service_name(service).build());
    let (stop, stopped) = oneshot::channel();
    let work = Work { queue: Arc::clone(queue), exporter, timeout: otlp.timeout, delay: otlp.delay };
    let thread = std::thread::Builder::new().name("telemetry".to_owned());
    let thread = thread.spawn(move || work.run(&runtime, stopped)).map_err(NoExporter::System)?;
    Ok(Exporter { queue: Arc::clone(queue), stop: Some(stop), thread: Some(thread) })
}

fn build(otlp: &Otlp) -> Result<SpanExporter, ExporterBuildError> {
    // Both clients use the provider of this process. Another thread may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match otlp.protocol {
        Protocol::Grpc => {
            let exporter = SpanExporter::builder().with_tonic().with_endpoint(&otlp.endpoint);
            exporter.with_timeout(otlp.timeout).with_metadata(metadata(&otlp.headers)).build()
        }
        Protocol::HttpProtobuf => {
            let exporter = SpanExporter::builder().with_http().with_endpoint(&otlp.endpoint);
            exporter.with_timeout(otlp.timeout).with_headers(otlp.headers.iter().cloned().collect()).build()
        }
    }
}

fn metadata(headers: &[(String, String)]) -> MetadataMap {
    let mut metadata = MetadataMap::new();
    for (name, value) in headers {
        // Settings are resolved only if both are valid.
        if let (Ok(name), Ok(mut value)) = (name.parse::<AsciiMetadataKey>(), value.parse::<AsciiMetadataValue>()) {
            value.set_sensitive(true);
            metadata.insert(name, value);
        }
    }
    metadata
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.queue.end();
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work {
    queue: Arc<Queue>,
    exporter: SpanExporter,
    timeout: Duration,
    delay: Duration,
}

impl Work {
    fn run(self, runtime: &Runtime, stopped: oneshot::Receiver<()>) {
        runtime.block_on(async {
            let too_late = async {
                let _ = stopped.await;
                tokio::time::sleep(FINISH_TIMEOUT).await;
            };
            tokio::select! {
                () = self.export_all() => {}
                () = too_late => {}
            }
        });
    }

    async fn export_all(&self) {
        let (mut losses, mut dropped) = (Losses::default(), 0);
        while let Some(spans) = self.queue.next(self.delay).await {
            if !spans.is_empty() {
                self.export(spans).await;
            }
            let counts = self.queue.counts();
            TELEMETRY.spans_dropped(counts.dropped() - dropped);
            dropped = counts.dropped();
            if let Some((dropped, failed)) = losses.news(dropped, counts.failed(), Instant::now()) {
                tracing::warn!(
                    target: "openskill::traces",
                    dropped,
                    failed,
                    "spans were lost: the queue was full (dropped), or the collector did not take them (failed)"
                );
            }
        }
    }

    async fn export(&self, spans: Vec<SpanData>) {
        let count = spans.len();
        match tokio::time::timeout(self.timeout, self.exporter.export(spans)).await {
            Ok(Ok(())) => {
                self.queue.counts().add_exported(count);
                TELEMETRY.spans_exported(count as u64);
            }
            failed => {
                self.queue.counts().add_failed(count);
                TELEMETRY.spans_failed(count as u64);
                // A server's words are for this level alone.
                tracing::debug!(target: "openskill::traces", ?failed, "spans could not be exported");
            }
        }
    }
}

/// What was said about lost spans.
#[derive(Debug, Default)]
struct Losses {
    told: (u64, u64),
    last: Option<Instant>,
}

impl Losses {
    /// The spans lost since the last line, if it is time for another.
    fn news(&mut self, dropped: u64, failed: u64, now: Instant) -> Option<(u64, u64)> {
        let is_early = self.last.is_some_and(|last| now < last + REPORT_INTERVAL);
        let more = (dropped - self.told.0, failed - self.told.1);
        if is_early || more == (0, 0) {
            return None;
        }
        (self.told, self.last) = ((dropped, failed), Some(now));
        Some(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_at_once_and_then_once_a_minute() {
        let (mut losses, begun) = (Losses::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(losses.news(0, 0, at(0)), None);
        assert_eq!(losses.news(3, 0, at(1)), Some((3, 0)));
        assert_eq!(losses.news(5, 7, at(60)), None);
        assert_eq!(losses.news(6, 7, at(61)), Some((3, 7)));
        assert_eq!(losses.news(6, 7, at(200)), None, "there is nothing new");
    }
}
