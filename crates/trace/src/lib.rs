//! The spans of a call: their ids, whether they are sampled, and what becomes of them at the call's end.
//!
//! Spans are made when they end, from times that are known then. A call's spans are held until the call ends. Then all of them
//! are exported, or none: those of a sampled call are, and so are those of a call that failed, though it was not sampled.
//!
//! ```text
//! Tracer -> CallSpans (ids, held spans) -> Queue (bounded; counts what it drops) -> the binary's exporter
//! ```
//!
//! - [`sampler`]: the decision at a call's begin
//! - [`call`]: the spans of one call
//! - [`queue`]: spans on their way to the exporter, and [`queue::Counts`] of what became of them
//! - [`embedded`]: spans that Rust functions make themselves, inside a call

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use opentelemetry::trace::SpanKind;
pub use opentelemetry::{KeyValue, StringValue, Value};
pub use opentelemetry_sdk::trace::SpanData;

use openskill_proto::trace::{Trace, TraceContext};

pub mod call;
pub mod embedded;
pub mod queue;
pub mod sampler;

use call::CallSpans;
use queue::{Counts, Queue};
use sampler::Sampler;

/// Makes the spans of calls. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tracer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    sampler: Sampler,
    slow: Option<Duration>,
    queue: Arc<Queue>,
}

impl Tracer {
    /// Spans go to `queue`. A call that takes longer than `slow` counts as slow; none does without it.
    pub fn new(sampler: Sampler, slow: Option<Duration>, queue: Arc<Queue>) -> Self {
        Self(Arc::new(Inner { sampler, slow, queue }))
    }

    /// The spans of a call that enters openskill here. The sampler decides.
    pub fn enter(&self, trace: &Trace, received: Instant) -> CallSpans {
        let is_sampled = self.0.sampler.samples(trace);
        let parent = trace.has_parent.then_some(trace.context.span_id);
        CallSpans::new(&self.0.queue, (trace.context.trace_id, parent), is_sampled, received)
    }

    /// The spans of a call whose parent span is another openskill process's. That process decided.
    pub fn follow(&self, parent: TraceContext, received: Instant) -> CallSpans {
        let ids = (parent.trace_id, Some(parent.span_id));
        CallSpans::new(&self.0.queue, ids, parent.is_sampled(), received)
    }

    /// Whether a call that took so long is slow.
    pub fn is_slow(&self, took: Duration) -> bool {
        self.0.slow.is_some_and(|slow| took > slow)
    }

    /// What became of the spans so far.
    pub fn counts(&self) -> &Counts {
        self.0.queue.counts()
    }
}
