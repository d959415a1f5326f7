//! Masks secrets in the names and attributes of spans, which may contain text from callers, skills and servers.

use std::borrow::Cow;

use openskill_redact::Redactor;
use openskill_telemetry::trace::SpanData;
use opentelemetry::trace::Status;
use opentelemetry::{Array, KeyValue, StringValue, Value};

/// Masks the secrets of spans.
pub(super) fn mask(redactor: &Redactor, spans: &mut [SpanData]) {
    if redactor.is_on() {
        spans.iter_mut().for_each(|span| mask_span(redactor, span));
    }
}

fn mask_span(redactor: &Redactor, span: &mut SpanData) {
    mask_text(redactor, &mut span.name);
    if let Status::Error { description } = &mut span.status {
        mask_text(redactor, description);
    }
    span.attributes.iter_mut().for_each(|it| mask_attribute(redactor, it));
    for event in &mut span.events.events {
        mask_text(redactor, &mut event.name);
        event.attributes.iter_mut().for_each(|it| mask_attribute(redactor, it));
    }
    for link in &mut span.links.links {
        link.attributes.iter_mut().for_each(|it| mask_attribute(redactor, it));
    }
}

fn mask_text(redactor: &Redactor, text: &mut Cow<'static, str>) {
    if let Cow::Owned(masked) = redactor.text(text) {
        *text = masked.into();
    }
}

fn mask_attribute(redactor: &Redactor, attribute: &mut KeyValue) {
    let masked = |value: &str| match redactor.value(attribute.key.as_str(), value) {
        Cow::Owned(masked) => Some(masked),
        Cow::Borrowed(_) => None,
    };
    let replaced = match &attribute.value {
        Value::String(text) => masked(text.as_str()).map(Value::from),
        Value::I64(number) => masked(&number.to_string()).map(Value::from),
        Value::F64(number) => masked(&number.to_string()).map(Value::from),
        Value::Array(Array::String(texts)) => {
            let masked = texts.iter().map(|it| masked(it.as_str()).map_or_else(|| it.clone(), StringValue::from));
            Some(Value::Array(Array::String(masked.collect())))
        }
        // Booleans and lists of numbers cannot contain secrets.
        _ => None,
    };
    if let Some(value) = replaced {
        attribute.value = value;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use openskill_proto::trace::{Trace, TraceContext};
    use openskill_telemetry::trace::Tracer;
    use openskill_telemetry::trace::call::Span;
    use openskill_telemetry::trace::queue::Queue;
    use openskill_telemetry::trace::sampler::Sampler;
    use opentelemetry::trace::TracerProvider as _;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::telemetry::embedded;

    /// Creates a span like a function's, with a secret in its name, an attribute and an event.
    async fn span() -> Vec<SpanData> {
        let queue = Arc::new(Queue::new(10, 10));
        let layer = tracing_opentelemetry::layer().with_tracer(embedded::provider(&queue).tracer("openskill"));
        let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        let parent = TraceContext { trace_id: [7; 16], span_id: [1; 8], flags: 1 };
        let work = async {
            let name = "look up AKIAABCDEFGHIJKLMNOP";
            let span = tracing::info_span!(target: "otel", "look up", otel.name = name, password = "hunter2", pin = 1234, rows = 1234, gen_ai.tool.call.id = "call-7");
            let _in = span.enter();
            tracing::info!(target: "otel", api_key = "hunter2", "used ghp_abcdefghijklmnopqrstuvwxyz0123456789");
        };
        openskill_telemetry::trace::embedded::within(parent, work).await;
        queue.end();
        queue.next(Duration::ZERO).await.unwrap()
    }

    #[tokio::test]
    async fn names_attributes_and_events_of_spans_have_no_secrets() {
        let mut spans = span().await;
        assert!(format!("{spans:?}").contains("hunter2"));
        let redactor = Redactor::default();
        mask(&redactor, &mut spans);
        let text = format!("{spans:?}");
        for secret in ["hunter2", "AKIAABC", "ghp_abc", "call-7"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        let value = |name: &str| {
            let found = spans[0].attributes.iter().find(|it| it.key.as_str() == name);
            found.map(|it| it.value.to_string()).unwrap()
        };
        assert_eq!((spans[0].name.as_ref(), &*value("password"), &*value("pin")), ("look up ***", "***", "***"));
        assert_eq!((value("rows"), value("gen_ai.tool.call.id")), ("1234".into(), redactor.id("tool_call", "call-7")));
    }

    #[tokio::test]
    async fn what_others_wrote_in_our_own_spans_is_masked_too() {
        let queue = Arc::new(Queue::new(10, 10));
        let sampler = Sampler::from_name("always_on", 1.0).unwrap().unwrap();
        let call = Tracer::new(sampler, None, Arc::clone(&queue))
            .enter(&Trace::from_headers(None, None, None), Instant::now());
        let key = "AKIAABCDEFGHIJKLMNOP";
        let attributes = vec![
            KeyValue::new("rpc.method", "Invoke"),
            KeyValue::new("openskill.attempts", 2),
            KeyValue::new("openskill.runner", key),
        ];
        let events = vec![("openskill.repair", Instant::now(), vec![KeyValue::new("openskill.repair.path", key)])];
        call.add(Span { attributes, events, ..Span::new(0, format!("execute_tool {key}"), Instant::now()) });
        call.keep();
        queue.end();
        let mut spans = queue.next(Duration::ZERO).await.unwrap();
        mask(&Redactor::default(), &mut spans);
        let span = &spans[0];
        let values: Vec<_> = span.attributes.iter().map(|it| it.value.to_string()).collect();
        assert_eq!((&*span.name, &values[..]), ("execute_tool ***", &["Invoke", "2", "***"].map(str::to_owned)[..]));
        assert!(!format!("{spans:?}").contains(key), "{spans:?}");
    }

    #[tokio::test]
    async fn spans_stay_as_they_are_if_redaction_is_off() {
        let mut spans = span().await;
        mask(&Redactor::off(), &mut spans);
        assert!(format!("{spans:?}").contains("hunter2"));
    }
}
