//! The spans of a call: their ids, whether they are sampled, and whether they are exported at the call's end.
//!
//! A span is created when it ends, from times known at that point. A call's spans are buffered until the call
//! ends. Then all or none of them are exported: the spans of a sampled call are exported, and those of a failed
//! call, even if it was not sampled.
//!
//! ```text
//! Tracer -> CallSpans (ids, buffered spans) -> Queue (bounded; counts what it drops) -> the binary's exporter
//! ```
//!
//! - [`sampler`]: the sampling decision at a call's start
//! - [`call`]: the spans of one call
//! - [`queue`]: spans on their way to the exporter, and how many were lost
//!   ([`queue::LostSpans`])
//! - [`embedded`]: spans that Rust functions create inside a call

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
use queue::Queue;
use sampler::Sampler;

/// Creates the spans of calls. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tracer {
    sampler: Sampler,
    slow: Option<Duration>,
    queue: Arc<Queue>,
}

impl Tracer {
    /// Creates a tracer. Spans go to `queue`. A call that takes longer than `slow` counts as slow. With `None`, no
    /// call does.
    pub fn new(sampler: Sampler, slow: Option<Duration>, queue: Arc<Queue>) -> Self {
        Self { sampler, slow, queue }
    }

    /// Creates the spans of a call that enters openskill here. The sampler decides whether they are sampled.
    pub fn enter(&self, trace: &Trace, received: Instant) -> CallSpans {
        let is_sampled = self.sampler.samples(trace);
        let parent = trace.has_parent.then_some(trace.context.span_id);
        CallSpans::new(&self.queue, trace.context.trace_id, parent, is_sampled, received)
    }

    /// Creates the spans of a call whose parent span is in another openskill process, which made the sampling
    /// decision.
    pub fn follow(&self, parent: TraceContext, received: Instant) -> CallSpans {
        CallSpans::new(&self.queue, parent.trace_id, Some(parent.span_id), parent.is_sampled(), received)
    }

    /// Whether a call with this duration is slow.
    pub fn is_slow(&self, took: Duration) -> bool {
        self.slow.is_some_and(|slow| took > slow)
    }
}
