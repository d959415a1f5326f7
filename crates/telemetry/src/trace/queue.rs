//! A bounded queue of spans for the exporter. Spans that do not fit are dropped and counted. No call waits here.

use std::time::Duration;

use opentelemetry_sdk::trace::SpanData;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::metrics::telemetry::TELEMETRY;

/// The number of spans lost since the process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LostSpans {
    /// Spans dropped because the queue was full, or because time ran out at the end.
    pub dropped: u64,
    /// Spans that could not be sent, or that the collector did not accept.
    pub failed: u64,
}

/// A span queue that many threads fill and one exporter empties.
#[derive(Debug)]
pub struct Queue {
    waiting: Mutex<QueueState>,
    /// The maximum number of waiting spans.
    capacity: usize,
    /// The maximum number of spans in one export.
    batch: usize,
    /// Notified when a batch is full, and at the end.
    ready: Notify,
}

#[derive(Debug, Default)]
struct QueueState {
    spans: std::collections::VecDeque<SpanData>,
    has_ended: bool,
    lost: LostSpans,
}

impl Queue {
    /// Creates a queue of at most `capacity` spans, which returns at most `batch` at a time. Both must be at least
    /// 1.
    pub fn new(capacity: usize, batch: usize) -> Self {
        let (capacity, batch) = (capacity.max(1), batch.clamp(1, capacity.max(1)));
        Self { waiting: Mutex::default(), capacity, batch, ready: Notify::new() }
    }

    /// Returns how many spans were lost.
    pub fn lost_spans(&self) -> LostSpans {
        self.waiting.lock().lost
    }

    /// Counts spans that could not be exported.
    pub fn add_failed(&self, spans: usize) {
        self.waiting.lock().lost.failed += spans as u64;
        TELEMETRY.spans_failed(spans as u64);
    }

    pub(crate) fn add_dropped(&self, spans: usize) {
        self.waiting.lock().lost.dropped += spans as u64;
        TELEMETRY.spans_dropped(spans as u64);
    }

    /// Adds the spans of a call: all of them, or none if they do not fit, because a partial call would mislead.
    pub fn push(&self, spans: Vec<SpanData>) {
        let mut waiting = self.waiting.lock();
        if waiting.has_ended || waiting.spans.len() + spans.len() > self.capacity {
            drop(waiting);
            return self.add_dropped(spans.len());
        }
        let before = waiting.spans.len();
        waiting.spans.extend(spans);
        let is_ready = before < self.batch && waiting.spans.len() >= self.batch;
        drop(waiting);
        if is_ready {
            self.ready.notify_one();
        }
    }

    /// Returns the next spans to export, when a batch is full or after `delay`. May be empty. Returns `None` at
    /// the end.
    pub async fn next(&self, delay: Duration) -> Option<Vec<SpanData>> {
        let is_ready = {
            let waiting = self.waiting.lock();
            waiting.has_ended || waiting.spans.len() >= self.batch
        };
        if !is_ready {
            // Export the waiting spans both after a timeout and after a notification.
            let _ = tokio::time::timeout(delay, self.ready.notified()).await;
        }
        let mut waiting = self.waiting.lock();
        let count = waiting.spans.len().min(self.batch);
        if count == 0 && waiting.has_ended {
            return None;
        }
        Some(waiting.spans.drain(..count).collect())
    }

    /// Stops accepting spans. [`Queue::next`] returns the waiting spans, and then `None`.
    pub fn end(&self) {
        self.waiting.lock().has_ended = true;
        self.ready.notify_one();
    }

    /// Drops and counts the waiting spans, because there is no time left to export them. Called after
    /// [`Queue::end`].
    pub fn abandon(&self) {
        let left = std::mem::take(&mut self.waiting.lock().spans);
        self.add_dropped(left.len());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use openskill_proto::trace::Trace;

    use super::*;
    use crate::trace::Tracer;
    use crate::trace::call::Span;
    use crate::trace::sampler::Sampler;

    const DELAY: Duration = Duration::from_secs(5);

    /// Exports a call with this number of spans.
    fn call(queue: &Arc<Queue>, spans: u32) {
        let sampler = Sampler::from_name("always_on", 1.0).unwrap().unwrap();
        let call =
            Tracer::new(sampler, None, Arc::clone(queue)).enter(&Trace::from_headers(None, None, None), Instant::now());
        (0..spans).for_each(|number| call.add(Span::new(number, "work", Instant::now())));
        call.keep();
    }

    #[tokio::test]
    async fn a_full_batch_is_ready_at_once_and_less_after_the_delay() {
        let queue = Arc::new(Queue::new(100, 4));
        call(&queue, 5);
        assert_eq!(queue.next(Duration::MAX).await.unwrap().len(), 4);
        // A permit stored for the first batch may wake the second one early, but not the third.
        let delay = Duration::from_millis(50);
        let _ = queue.next(delay).await;
        call(&queue, 1);
        let begun = Instant::now();
        assert_eq!(queue.next(delay).await.unwrap().len(), 1);
        assert!(begun.elapsed() >= delay);
    }

    #[test]
    fn a_call_that_does_not_fit_is_dropped_whole_and_counted() {
        let queue = Arc::new(Queue::new(5, 5));
        call(&queue, 3);
        call(&queue, 3);
        call(&queue, 2);
        assert_eq!(queue.lost_spans().dropped, 3);
        assert_eq!(queue.waiting.lock().spans.len(), 5);
    }

    #[tokio::test]
    async fn the_end_hands_out_what_waits_and_drops_what_comes_later() {
        let queue = Arc::new(Queue::new(10, 10));
        call(&queue, 3);
        queue.end();
        call(&queue, 2);
        assert_eq!(queue.next(DELAY).await.unwrap().len(), 3);
        assert!(queue.next(DELAY).await.is_none());
        assert_eq!(queue.lost_spans().dropped, 2);
    }

    #[tokio::test]
    async fn what_still_waits_when_there_is_no_time_left_is_counted() {
        let queue = Arc::new(Queue::new(10, 2));
        call(&queue, 5);
        queue.end();
        assert_eq!(queue.next(DELAY).await.unwrap().len(), 2);
        queue.abandon();
        assert!(queue.next(DELAY).await.is_none());
        assert_eq!(queue.lost_spans().dropped, 3);
    }
}
