//! Exports spans over OTLP on a separate thread.
//!
//! The queue counts the spans that it drops, and this thread counts those that the collector did not accept. One
//! log line reports both, at most once a minute and once at the end. Each batch is sent only once, so that an
//! unreachable collector delays nothing.

use std::io::Result;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_redact::Redactor;
use openskill_telemetry::metrics::telemetry::TELEMETRY;
use openskill_telemetry::trace::SpanData;
use openskill_telemetry::trace::queue::{LostSpans, Queue};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::masked;
use crate::background::BackgroundThread;
use crate::collector::{Collector, Rejection};

const TARGET: &str = "openskill::traces";

/// The interval between reports of lost spans.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The niceness of the thread. Calls have priority.
const NICE: i32 = 10;

/// The time limit for exporting the last spans. An unreachable collector must not delay the exit.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts the thread. Dropping it exports the remaining spans. `service` is the name of this process in traces.
/// `delay` is how long a partial batch waits before it is redacted and sent.
///
/// # Errors
/// The system cannot start another thread.
pub(super) fn start(
    collector: Collector,
    service: String,
    queue: &Arc<Queue>,
    delay: Duration,
    redactor: Redactor,
) -> Result<BackgroundThread> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let resource = (&Resource::builder().with_service_name(service).build()).into();
    let (ended, losses) = (Arc::clone(queue), LossReporter::default());
    let queue = Arc::clone(queue);
    let work = ExportLoop { queue, collector, resource, delay, redactor, exporting: 0, losses };
    let stop = move || {
        ended.end();
        drop(stop);
    };
    BackgroundThread::start("telemetry", stop, move || work.run(&runtime, stopped))
}

struct ExportLoop {
    queue: Arc<Queue>,
    collector: Collector,
    resource: ResourceAttributesWithSchema,
    delay: Duration,
    redactor: Redactor,
    /// The number of spans in the current export.
    exporting: usize,
    losses: LossReporter,
}

impl ExportLoop {
    fn run(mut self, runtime: &Runtime, stopped: oneshot::Receiver<()>) {
        // On Linux, this sets the priority of this thread only. It fails if the process already has a higher niceness.
        let _ = rustix::process::setpriority_process(None, NICE);
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
        // The spans in flight and in the queue missed the time limit, so count them as lost.
        self.queue.add_failed(self.exporting);
        self.queue.abandon();
        log_lost(self.losses.take_unreported(self.queue.lost_spans()));
    }

    async fn export_all(&mut self) {
        while let Some(spans) = self.queue.next(self.delay).await {
            if !spans.is_empty() {
                self.export(spans).await;
            }
            log_lost(self.losses.take_due(self.queue.lost_spans(), Instant::now()));
        }
    }

    async fn export(&mut self, mut spans: Vec<SpanData>) {
        let count = spans.len();
        let masked = catch_unwind(AssertUnwindSafe(|| masked::mask(&self.redactor, &mut spans)));
        if masked.is_err() {
            // Masking panicked. Spans are never exported unmasked. The log contains the panic.
            return self.queue.add_failed(count);
        }
        let resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
        self.exporting = count;
        let sent = self.collector.send(ExportTraceServiceRequest { resource_spans }).await;
        self.exporting = 0;
        // Text from the collector is logged only at level DEBUG.
        let failed = match sent {
            Ok(None) => 0,
            Ok(Some(Rejection { count: rejected, reason })) => {
                tracing::debug!(target: TARGET, rejected, reason, "the collector's message about spans");
                usize::try_from(rejected).map_or(count, |rejected| rejected.min(count))
            }
            Err(error) => {
                tracing::debug!(target: TARGET, ?error, "spans could not be exported");
                count
            }
        };
        self.queue.add_failed(failed);
        TELEMETRY.spans_exported((count - failed) as u64);
    }
}

fn log_lost(lost: Option<LostSpans>) {
    if let Some(LostSpans { dropped, failed }) = lost {
        tracing::warn!(
            target: TARGET,
            dropped,
            failed,
            "spans were lost: the queue was full or time ran out (dropped), or the collector refused them (failed)"
        );
    }
}

/// The lost spans that the log already reported.
#[derive(Debug, Default)]
struct LossReporter {
    reported: LostSpans,
    last: Option<Instant>,
}

impl LossReporter {
    /// Returns the spans lost since the last log line, if the next line is due.
    fn take_due(&mut self, lost: LostSpans, now: Instant) -> Option<LostSpans> {
        let is_early = self.last.is_some_and(|last| now < last + REPORT_INTERVAL);
        let news = if is_early { None } else { self.take_unreported(lost) };
        self.last = if news.is_some() { Some(now) } else { self.last };
        news
    }

    /// Returns the spans lost since the last log line.
    fn take_unreported(&mut self, lost: LostSpans) -> Option<LostSpans> {
        let (dropped, failed) = (lost.dropped - self.reported.dropped, lost.failed - self.reported.failed);
        self.reported = lost;
        (dropped + failed > 0).then_some(LostSpans { dropped, failed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_at_once_then_once_a_minute_and_at_the_end() {
        let (mut losses, begun) = (LossReporter::default(), Instant::now());
        let mut news = |dropped, failed, seconds| {
            let lost = LostSpans { dropped, failed };
            losses.take_due(lost, begun + Duration::from_secs(seconds)).map(|it| (it.dropped, it.failed))
        };
        assert_eq!(news(0, 0, 0), None);
        assert_eq!(news(3, 0, 1), Some((3, 0)));
        assert_eq!(news(5, 7, 60), None);
        assert_eq!(news(6, 7, 61), Some((3, 7)));
        assert_eq!(news(6, 7, 200), None, "there is nothing new");
        assert_eq!(news(9, 7, 201), Some((3, 0)));
        assert_eq!(news(9, 8, 202), None);
        let lost = LostSpans { dropped: 9, failed: 8 };
        assert_eq!(losses.take_unreported(lost), Some(LostSpans { dropped: 0, failed: 1 }));
        assert_eq!(losses.take_unreported(lost), None);
    }
}
