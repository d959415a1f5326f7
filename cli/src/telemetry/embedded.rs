//! Spans that functions in the worker create with `tracing`. Spans with the target `otel` that belong to a sampled
//! call are exported.

use std::sync::Arc;
use std::time::Duration;

use openskill_telemetry::trace::SpanData;
use openskill_telemetry::trace::queue::Queue;
use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, Span, SpanProcessor};

/// Creates a provider that puts spans into `queue`.
pub(super) fn provider(queue: &Arc<Queue>) -> SdkTracerProvider {
    SdkTracerProvider::builder()
        .with_span_processor(Forward(Arc::clone(queue)))
        // A span outside of a call is not exported.
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOff)))
        .build()
}

/// Puts each span into the queue when it ends.
#[derive(Debug)]
struct Forward(Arc<Queue>);

impl SpanProcessor for Forward {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() {
            self.0.push(vec![span]);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use openskill_proto::trace::TraceContext;
    use opentelemetry::trace::TracerProvider as _;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[tokio::test]
    async fn a_span_of_a_function_is_a_child_of_its_run_if_that_is_sampled() {
        let queue = Arc::new(Queue::new(10, 10));
        let layer = tracing_opentelemetry::layer().with_tracer(provider(&queue).tracer("openskill"));
        let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        for flags in [0, 1] {
            let parent = TraceContext { trace_id: [7; 16], span_id: [flags + 1; 8], flags };
            let work = async { drop(tracing::info_span!(target: "otel", "look up")) };
            openskill_telemetry::trace::embedded::within(parent, work).await;
        }
        drop(tracing::info_span!(target: "otel", "of nobody"));
        queue.end();
        let spans = queue.next(Duration::ZERO).await.unwrap();
        assert_eq!(spans.len(), 1);
        assert_eq!(spans[0].span_context.trace_id().to_bytes(), [7; 16]);
        assert_eq!(spans[0].parent_span_id.to_bytes(), [2; 8]);
    }
}
