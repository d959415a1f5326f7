//! The spans of one call in one process.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use openskill_proto::trace::{TraceContext, random_id};
use opentelemetry::trace::{Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents};
use parking_lot::Mutex;

use crate::trace::queue::Queue;

/// The maximum number of buffered spans of a call, in addition to the process's own. A skill can cause any number
/// of redirects and requests.
const MAX_SPANS: usize = 64;

/// The number of the first additional span. Lower numbers are reserved for the process's own spans.
const FURTHER: u32 = 2;

/// A span that has ended.
#[derive(Debug, Clone)]
pub struct Span {
    /// The span's number within its call in this process, which determines its id. 0 is the first span.
    pub number: u32,
    /// The number of the parent span. `None` if the parent is in another process, or if the span is a root.
    pub parent: Option<u32>,
    /// A name of low cardinality, without text from callers.
    pub name: Cow<'static, str>,
    /// The span kind. Internal by default.
    pub kind: SpanKind,
    /// The start time.
    pub begun: Instant,
    /// The end time.
    pub ended: Instant,
    /// The span's attributes, without secrets.
    pub attributes: Vec<KeyValue>,
    /// The span's events: name, time and attributes.
    pub events: Vec<(&'static str, Instant, Vec<KeyValue>)>,
    /// Whether the span's status is an error.
    pub failed: bool,
}

impl Span {
    /// Creates an internal span that ends now.
    pub fn new(number: u32, name: impl Into<Cow<'static, str>>, begun: Instant) -> Self {
        let parent = number.checked_sub(1).map(|_| 0);
        Self {
            number,
            parent,
            name: name.into(),
            kind: SpanKind::Internal,
            begun,
            ended: Instant::now(),
            attributes: Vec::new(),
            events: Vec::new(),
            failed: false,
        }
    }
}

/// The ids of a call's spans, and the completed spans. If it is dropped without a decision, the spans are dropped
/// too.
#[derive(Debug)]
pub struct CallSpans {
    queue: Arc<Queue>,
    trace_id: [u8; 16],
    /// The id of the parent span, in another process.
    parent: Option<[u8; 8]>,
    /// The id of the first span. The others follow it, so that each id is known before its span exists.
    first: u64,
    is_sampled: bool,
    received: Instant,
    received_at: SystemTime,
    next: AtomicU32,
    buffered: Mutex<BufferedSpans>,
}

/// The completed spans, buffered until the decision about their export.
#[derive(Debug, Default)]
struct BufferedSpans {
    spans: Vec<Span>,
    /// The number of spans that did not fit.
    left_out: usize,
    /// Whether the spans are exported. `None` before the decision.
    is_kept: Option<bool>,
}

impl CallSpans {
    pub(crate) fn new(
        queue: &Arc<Queue>,
        trace_id: [u8; 16],
        parent: Option<[u8; 8]>,
        is_sampled: bool,
        received: Instant,
    ) -> Self {
        Self {
            queue: Arc::clone(queue),
            trace_id,
            parent,
            first: u64::from_be_bytes(random_id()),
            is_sampled,
            received,
            received_at: SystemTime::now().checked_sub(received.elapsed()).unwrap_or(SystemTime::UNIX_EPOCH),
            next: AtomicU32::new(FURTHER),
            buffered: Mutex::default(),
        }
    }

    /// Whether the call was sampled at its start.
    pub fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// Reserves a number for an additional span. The number is above 1: 0 and 1 are reserved for the process's own
    /// spans.
    pub fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the trace context for the children of a span.
    pub fn context(&self, number: u32) -> TraceContext {
        TraceContext { trace_id: self.trace_id, span_id: self.id(number), flags: u8::from(self.is_sampled) }
    }

    /// Adds a span. Beyond 64, additional spans are dropped, and counted if the call's spans are exported. The
    /// process's own spans are always kept, because the others would have no parent without them.
    pub fn add(&self, span: Span) {
        let mut buffered = self.buffered.lock();
        match buffered.is_kept {
            None if span.number < FURTHER || buffered.spans.len() < MAX_SPANS => buffered.spans.push(span),
            None => buffered.left_out += 1,
            Some(false) => {}
            // Background work of the call may outlive the call.
            Some(true) => {
                drop(buffered);
                self.queue.push(vec![self.data(span)]);
            }
        }
    }

    /// Exports the spans. Only the first decision takes effect.
    pub fn keep(&self) {
        if let Some(BufferedSpans { spans, left_out, .. }) = self.decide(true) {
            self.queue.push(spans.into_iter().map(|span| self.data(span)).collect());
            if left_out > 0 {
                self.queue.add_dropped(left_out);
            }
        }
    }

    /// Drops the spans. Only the first decision takes effect.
    pub fn discard(&self) {
        self.decide(false);
    }

    /// Returns the spans so far if this decision is the first.
    fn decide(&self, is_kept: bool) -> Option<BufferedSpans> {
        let mut buffered = self.buffered.lock();
        let decided = BufferedSpans { is_kept: Some(is_kept), ..BufferedSpans::default() };
        buffered.is_kept.is_none().then(|| std::mem::replace(&mut *buffered, decided))
    }

    fn id(&self, number: u32) -> [u8; 8] {
        let id = self.first.wrapping_add(number.into());
        // Zero is not a valid id.
        if id == 0 { u64::from(u32::MAX) + 1 } else { id }.to_be_bytes()
    }

    fn data(&self, span: Span) -> SpanData {
        let at = |moment: Instant| self.received_at + moment.saturating_duration_since(self.received);
        let is_remote = span.parent.is_none() && self.parent.is_some();
        let parent = span.parent.map(|number| self.id(number)).or(self.parent);
        let mut events = SpanEvents::default();
        events.events = span
            .events
            .into_iter()
            .map(|(name, moment, attributes)| Event::new(name, at(moment), attributes, 0))
            .collect();
        SpanData {
            span_context: SpanContext::new(
                TraceId::from_bytes(self.trace_id),
                SpanId::from_bytes(self.id(span.number)),
                if self.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() },
                false,
                TraceState::NONE,
            ),
            parent_span_id: parent.map_or(SpanId::INVALID, SpanId::from_bytes),
            parent_span_is_remote: is_remote,
            span_kind: span.kind,
            name: span.name,
            start_time: at(span.begun),
            end_time: at(span.ended.max(span.begun)),
            attributes: span.attributes,
            dropped_attributes_count: 0,
            events,
            links: opentelemetry_sdk::trace::SpanLinks::default(),
            status: if span.failed { Status::error("") } else { Status::Unset },
            instrumentation_scope: SCOPE.clone(),
        }
    }
}

/// The instrumentation scope of this crate's spans.
static SCOPE: LazyLock<InstrumentationScope> =
    LazyLock::new(|| InstrumentationScope::builder("openskill").with_version(env!("CARGO_PKG_VERSION")).build());

/// An open client span: a request to a server. Dropping it before [`Self::end`] marks the request as cancelled, or
/// as timed out if the deadline has passed.
#[derive(Debug)]
pub struct ClientSpan {
    spans: Arc<CallSpans>,
    span: Option<Span>,
    deadline: Instant,
}

impl ClientSpan {
    /// Starts the span of a request, as a child of the process's first span.
    pub fn begin(
        spans: &Arc<CallSpans>,
        name: impl Into<Cow<'static, str>>,
        attributes: Vec<KeyValue>,
        deadline: Instant,
    ) -> Self {
        let span = Span::new(spans.number(), name, Instant::now());
        let span = Span { kind: SpanKind::Client, attributes, ..span };
        Self { spans: Arc::clone(spans), span: Some(span), deadline }
    }

    /// Returns the trace context to send to the server.
    pub fn context(&self) -> TraceContext {
        self.spans.context(self.span.as_ref().map_or(0, |span| span.number))
    }

    /// Ends the span, with `error` if the request failed.
    pub fn end(mut self, attributes: impl IntoIterator<Item = KeyValue>, error: Option<Cow<'static, str>>) {
        self.finish(attributes, error);
    }

    fn finish(&mut self, attributes: impl IntoIterator<Item = KeyValue>, error: Option<Cow<'static, str>>) {
        let Some(mut span) = self.span.take() else { return };
        span.ended = Instant::now();
        span.failed = error.is_some();
        span.attributes.extend(attributes);
        span.attributes.extend(error.map(|error| KeyValue::new("error.type", error)));
        self.spans.add(span);
    }
}

impl Drop for ClientSpan {
    fn drop(&mut self) {
        // Some calls are stopped slightly before their deadline, so that the error can give more detail. They
        // still count as timed out.
        let is_late = Instant::now() + Duration::from_millis(20) >= self.deadline;
        let error = if is_late { "TIMEOUT" } else { "CANCELLED" };
        self.finish([], Some(Cow::Borrowed(error)));
    }
}

#[cfg(test)]
mod tests {
    use openskill_proto::trace::Trace;

    use super::*;
    use crate::trace::Tracer;
    use crate::trace::sampler::Sampler;

    fn tracer(capacity: usize) -> (Tracer, Arc<Queue>) {
        let queue = Arc::new(Queue::new(capacity, capacity));
        let sampler = Sampler::from_name("parentbased_traceidratio", 0.0).unwrap().unwrap();
        (Tracer::new(sampler, Some(Duration::from_secs(1)), Arc::clone(&queue)), queue)
    }

    async fn exported(queue: &Queue) -> Vec<SpanData> {
        queue.end();
        queue.next(Duration::ZERO).await.unwrap_or_default()
    }

    #[tokio::test]
    async fn ids_are_known_before_the_spans_exist() {
        let (tracer, queue) = tracer(10);
        let call = tracer.enter(&Trace::from_headers(None, None, None), Instant::now());
        let promised = call.context(1);
        call.add(Span::new(1, "child", Instant::now()));
        call.add(Span::new(0, "first", Instant::now()));
        call.keep();
        let spans = exported(&queue).await;
        assert_eq!(spans[0].span_context.span_id().to_bytes(), promised.span_id);
        assert_eq!(spans[0].parent_span_id, spans[1].span_context.span_id());
        assert_eq!(spans[1].parent_span_id, SpanId::INVALID);
        assert_eq!(promised.flags, 0, "it is not sampled");
    }

    #[tokio::test]
    async fn the_first_decision_counts_for_all_spans_also_for_later_ones() {
        let (tracer, queue) = tracer(10);
        let [kept, discarded] = [(); 2].map(|()| tracer.enter(&Trace::from_headers(None, None, None), Instant::now()));
        for call in [&kept, &discarded] {
            call.add(Span::new(0, "first", Instant::now()));
        }
        kept.keep();
        kept.discard();
        discarded.discard();
        discarded.keep();
        for call in [&kept, &discarded] {
            call.add(Span::new(1, "late", Instant::now()));
        }
        let names: Vec<_> = exported(&queue).await.into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["first", "late"]);
    }

    #[tokio::test]
    async fn spans_of_a_call_are_bounded_and_the_rest_is_counted_if_they_are_exported() {
        let (tracer, queue) = tracer(1000);
        let [kept, discarded] = [(); 2].map(|()| tracer.enter(&Trace::from_headers(None, None, None), Instant::now()));
        for call in [&kept, &discarded] {
            // As at the end of a call, add the process's own spans last.
            (0..500).rev().for_each(|number| call.add(Span::new(number, "work", Instant::now())));
        }
        discarded.discard();
        assert_eq!(queue.lost_spans().dropped, 0, "nobody misses the spans of a call that is not exported");
        kept.keep();
        let first = kept.context(0).span_id;
        let spans = exported(&queue).await;
        assert_eq!(spans.len(), MAX_SPANS + FURTHER as usize);
        assert_eq!(spans.len() as u64 + queue.lost_spans().dropped, 500);
        assert!(spans.iter().any(|it| it.span_context.span_id().to_bytes() == first), "the others have a parent");
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_was_cancelled_or_late() {
        let (tracer, queue) = tracer(10);
        let call = Arc::new(tracer.enter(&Trace::from_headers(None, None, None), Instant::now()));
        let now = Instant::now();
        drop(ClientSpan::begin(&call, "GET", Vec::new(), now + Duration::from_secs(60)));
        drop(ClientSpan::begin(&call, "GET", Vec::new(), now));
        ClientSpan::begin(&call, "GET", Vec::new(), now).end([], None);
        call.keep();
        let errors = exported(&queue).await.into_iter().map(|span| {
            let error = span.attributes.iter().find(|it| it.key.as_str() == "error.type");
            (error.map(|it| it.value.as_str().into_owned()), span.status == Status::error(""))
        });
        let expected = [(Some("CANCELLED".to_owned()), true), (Some("TIMEOUT".to_owned()), true), (None, false)];
        assert_eq!(errors.collect::<Vec<_>>(), expected);
    }
}
