//! The spans of one call in one process.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use openskill_proto::trace::{TraceContext, random_id};
use opentelemetry::trace::{Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents};

use crate::queue::Queue;

/// How many spans of a call are held, beside the process's own. A skill can cause any number of redirects and requests.
const MAX_SPANS: usize = 64;

/// Where the numbers of further spans begin: those below are the process's own.
const FURTHER: u32 = 2;

/// A span that has ended.
#[derive(Debug, Clone)]
pub struct Span {
    /// Its place among the spans of the call in this process, which determines its id. 0 is the first.
    pub number: u32,
    /// The number of its parent; none means the parent is in another process, or there is none.
    pub parent: Option<u32>,
    /// Of low cardinality: nothing that a caller wrote.
    pub name: Cow<'static, str>,
    /// Internal, unless set.
    pub kind: SpanKind,
    /// When it began.
    pub begun: Instant,
    /// When it ended.
    pub ended: Instant,
    /// Attributes, with nothing secret.
    pub attributes: Vec<KeyValue>,
    /// What happened in it.
    pub events: Vec<(&'static str, Instant, Vec<KeyValue>)>,
    /// Whether its status is an error.
    pub failed: bool,
}

impl Span {
    /// An internal span that ends now.
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

/// The ids of a call's spans, and the spans that have ended. Dropped without a decision, the spans are dropped too.
#[derive(Debug)]
pub struct CallSpans {
    queue: Arc<Queue>,
    trace_id: [u8; 16],
    /// The span in another process.
    parent: Option<[u8; 8]>,
    /// The id of the first span. The others follow it, so that each id is known before its span exists.
    first: u64,
    is_sampled: bool,
    received: Instant,
    received_at: SystemTime,
    next: AtomicU32,
    held: Mutex<Held>,
}

/// The spans so far, until it is decided what becomes of them.
#[derive(Debug)]
enum Held {
    Undecided {
        spans: Vec<Span>,
        /// How many found no room.
        left_out: usize,
    },
    Kept,
    Discarded,
}

impl CallSpans {
    pub(crate) fn new(
        queue: &Arc<Queue>,
        (trace_id, parent): ([u8; 16], Option<[u8; 8]>),
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
            held: Mutex::new(Held::Undecided { spans: Vec::new(), left_out: 0 }),
        }
    }

    /// Whether the call was sampled when it began.
    pub fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// The number of a further span, above 1: 0 and 1 are the process's own.
    pub fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// What the children of a span are told.
    pub fn context(&self, number: u32) -> TraceContext {
        TraceContext { trace_id: self.trace_id, span_id: self.id(number), flags: u8::from(self.is_sampled) }
    }

    /// Adds a span. Those beyond 64 are dropped, and counted if the call's spans are exported. The process's own always have
    /// room: the others have no parent without them.
    pub fn add(&self, span: Span) {
        let mut held = self.lock();
        match &mut *held {
            Held::Undecided { spans, .. } if span.number < FURTHER || spans.len() < MAX_SPANS => {
                spans.push(span);
            }
            Held::Undecided { left_out, .. } => *left_out += 1,
            Held::Discarded => {}
            // What a call left running may end after it.
            Held::Kept => {
                drop(held);
                self.queue.push(vec![self.data(span)]);
            }
        }
    }

    /// Exports the spans. The first decision counts.
    pub fn keep(&self) {
        if let Some((spans, left_out)) = self.decide(Held::Kept) {
            self.queue.push(spans.into_iter().map(|span| self.data(span)).collect());
            self.queue.counts().add_dropped(left_out);
        }
    }

    /// Drops the spans.
    pub fn discard(&self) {
        self.decide(Held::Discarded);
    }

    fn decide(&self, decision: Held) -> Option<(Vec<Span>, usize)> {
        let mut held = self.lock();
        match &mut *held {
            Held::Undecided { spans, left_out } => {
                let held_so_far = (std::mem::take(spans), *left_out);
                *held = decision;
                Some(held_so_far)
            }
            Held::Kept | Held::Discarded => None,
        }
    }

    fn id(&self, number: u32) -> [u8; 8] {
        let id = self.first.wrapping_add(number.into());
        // Zero would be no id.
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

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The scope of the spans that are made here.
static SCOPE: LazyLock<InstrumentationScope> =
    LazyLock::new(|| InstrumentationScope::builder("openskill").with_version(VERSION).build());

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A client span that is open: a request to a server. Dropped before it ends, its request was cancelled, or timed out if
/// the deadline had passed.
#[derive(Debug)]
pub struct Request {
    spans: Arc<CallSpans>,
    span: Option<Span>,
    deadline: Instant,
}

impl Request {
    /// Begins a request, as a child of the process's first span.
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

    /// What the server is told.
    pub fn context(&self) -> TraceContext {
        self.spans.context(self.span.as_ref().map_or(0, |span| span.number))
    }

    /// The request ended, with this error if it failed.
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

impl Drop for Request {
    fn drop(&mut self) {
        // A call is stopped a little before its deadline where its error can say more.
        let is_late = Instant::now() + Duration::from_millis(20) >= self.deadline;
        let error = if is_late { "TIMEOUT" } else { "CANCELLED" };
        self.finish([], Some(Cow::Borrowed(error)));
    }
}

#[cfg(test)]
mod tests {
    use openskill_proto::trace::Trace;

    use super::*;
    use crate::Tracer;
    use crate::sampler::Name;

    fn tracer(capacity: usize) -> (Tracer, Arc<Queue>) {
        let queue = Arc::new(Queue::new(capacity, capacity));
        let sampler = Name::Ratio { parent_based: true }.sampler(0.0).unwrap();
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
            // As at the end of a call, the process's own come last.
            (0..500).rev().for_each(|number| call.add(Span::new(number, "work", Instant::now())));
        }
        discarded.discard();
        assert_eq!(queue.counts().dropped(), 0, "nobody misses the spans of a call that is not exported");
        kept.keep();
        let first = kept.context(0).span_id;
        let spans = exported(&queue).await;
        assert_eq!(spans.len(), MAX_SPANS + FURTHER as usize);
        assert_eq!(spans.len() as u64 + queue.counts().dropped(), 500);
        assert!(spans.iter().any(|it| it.span_context.span_id().to_bytes() == first), "the others have a parent");
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_was_cancelled_or_late() {
        let (tracer, queue) = tracer(10);
        let call = Arc::new(tracer.enter(&Trace::from_headers(None, None, None), Instant::now()));
        let now = Instant::now();
        drop(Request::begin(&call, "GET", Vec::new(), now + Duration::from_secs(60)));
        drop(Request::begin(&call, "GET", Vec::new(), now));
        Request::begin(&call, "GET", Vec::new(), now).end([], None);
        call.keep();
        let errors = exported(&queue).await.into_iter().map(|span| {
            let error = span.attributes.iter().find(|it| it.key.as_str() == "error.type");
            (error.map(|it| it.value.as_str().into_owned()), span.status == Status::error(""))
        });
        let expected = [(Some("CANCELLED".to_owned()), true), (Some("TIMEOUT".to_owned()), true), (None, false)];
        assert_eq!(errors.collect::<Vec<_>>(), expected);
    }
}
