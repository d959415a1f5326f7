//! Exports spans over OTLP, on a thread of its own.
//!
//! The queue counts what it drops, and this counts what the collector did not take. Either is said in one line of the log, in
//! no more than one a minute, and in a last one at the end. A batch is sent once: a collector that is down makes nobody wait.

use std::io::Result;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use openskill_metrics::telemetry::TELEMETRY;
use openskill_redact::Redactor;
use openskill_trace::SpanData;
use openskill_trace::queue::Queue;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::masked;
use crate::collector::{Collector, Rejected};

const TARGET: &str = "openskill::traces";

/// How often lost spans are reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// How nice the thread is: calls that are served come first.
const NICE: i32 = 10;

/// How long the last spans may take. An unreachable collector must not delay the exit.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// The thread that exports. Dropping it exports the rest and joins the thread.
#[derive(Debug)]
pub(super) struct Exporter {
    queue: Arc<Queue>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the thread. `service` is the name of this process in traces, and `delay` how long a batch that is not full waits
/// before it is redacted and sent.
///
/// # Errors
/// The system has no thread left.
pub(super) fn start(
    collector: Collector,
    service: String,
    queue: &Arc<Queue>,
    (delay, redactor): (Duration, Redactor),
) -> Result<Exporter> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel();
    let resource = (&Resource::builder().with_service_name(service).build()).into();
    let (queue, losses) = (Arc::clone(queue), Losses::default());
    let work = Work { queue: Arc::clone(&queue), collector, resource, delay, redactor, exporting: 0, losses };
    let thread = std::thread::Builder::new().name("telemetry".to_owned());
    let thread = thread.spawn(move || work.run(&runtime, stopped))?;
    Ok(Exporter { queue, stop: Some(stop), thread: Some(thread) })
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
    collector: Collector,
    resource: ResourceAttributesWithSchema,
    delay: Duration,
    redactor: Redactor,
    /// Spans on their way to the collector.
    exporting: usize,
    losses: Losses,
}

impl Work {
    fn run(mut self, runtime: &Runtime, stopped: oneshot::Receiver<()>) {
        // Of this thread alone, on Linux. It may be as nice as the process already.
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
        // There is no time left for them.
        self.queue.counts().add_failed(self.exporting);
        self.queue.abandon();
        self.losses.count(&self.queue);
        say(self.losses.rest());
    }

    async fn export_all(&mut self) {
        while let Some(spans) = self.queue.next(self.delay).await {
            if !spans.is_empty() {
                self.export(spans).await;
            }
            self.losses.count(&self.queue);
            say(self.losses.news(Instant::now()));
        }
    }

    async fn export(&mut self, mut spans: Vec<SpanData>) {
        let count = spans.len();
        let masked = catch_unwind(AssertUnwindSafe(|| masked::mask(&self.redactor, &mut spans)));
        if masked.is_err() {
            // They are not exported as they are. The panic is in the log.
            return self.queue.counts().add_failed(count);
        }
        let resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
        self.exporting = count;
        let sent = self.collector.send(ExportTraceServiceRequest { resource_spans }).await;
        self.exporting = 0;
        // A collector's words are for the level DEBUG alone.
        let failed = match sent {
            Ok(None) => 0,
            Ok(Some(Rejected { count: rejected, reason })) => {
                tracing::debug!(target: TARGET, rejected, reason, "what the collector said about spans");
                usize::try_from(rejected).map_or(count, |rejected| rejected.min(count))
            }
            Err(error) => {
                tracing::debug!(target: TARGET, ?error, "spans could not be exported");
                count
            }
        };
        self.queue.counts().add_failed(failed);
        self.queue.counts().add_exported(count - failed);
        TELEMETRY.spans_exported((count - failed) as u64);
    }
}

fn say(lost: Option<Lost>) {
    if let Some(Lost { dropped, failed }) = lost {
        tracing::warn!(
            target: TARGET,
            dropped,
            failed,
            "spans were lost: there was no room or no time for them (dropped), or the collector did not take them (failed)"
        );
    }
}

/// Numbers of spans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lost {
    dropped: u64,
    failed: u64,
}

impl Lost {
    fn since(self, before: Self) -> Self {
        Self { dropped: self.dropped - before.dropped, failed: self.failed - before.failed }
    }
}

/// The lost spans so far, and what was said about them.
#[derive(Debug, Default)]
struct Losses {
    counted: Lost,
    told: Lost,
    last: Option<Instant>,
}

impl Losses {
    /// Counts what was lost since the last time.
    fn count(&mut self, queue: &Queue) {
        let counts = queue.counts();
        let now = Lost { dropped: counts.dropped(), failed: counts.failed() };
        let more = now.since(self.counted);
        TELEMETRY.spans_dropped(more.dropped);
        TELEMETRY.spans_failed(more.failed);
        self.counted = now;
    }

    /// The spans lost since the last line, if it is time for another.
    fn news(&mut self, now: Instant) -> Option<Lost> {
        let is_early = self.last.is_some_and(|last| now < last + REPORT_INTERVAL);
        let news = if is_early { None } else { self.rest() };
        self.last = if news.is_some() { Some(now) } else { self.last };
        news
    }

    /// The spans lost since the last line.
    fn rest(&mut self) -> Option<Lost> {
        let more = self.counted.since(self.told);
        self.told = self.counted;
        (more != Lost::default()).then_some(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_at_once_then_once_a_minute_and_at_the_end() {
        let (mut losses, begun) = (Losses::default(), Instant::now());
        let mut news = |dropped, failed, seconds| {
            losses.counted = Lost { dropped, failed };
            losses.news(begun + Duration::from_secs(seconds)).map(|it| (it.dropped, it.failed))
        };
        assert_eq!(news(0, 0, 0), None);
        assert_eq!(news(3, 0, 1), Some((3, 0)));
        assert_eq!(news(5, 7, 60), None);
        assert_eq!(news(6, 7, 61), Some((3, 7)));
        assert_eq!(news(6, 7, 200), None, "there is nothing new");
        assert_eq!(news(9, 7, 201), Some((3, 0)));
        assert_eq!(news(9, 8, 202), None);
        assert_eq!(losses.rest(), Some(Lost { dropped: 0, failed: 1 }));
        assert_eq!(losses.rest(), None);
    }
}
