//! The export of spans and metrics, configured by the variables that OpenTelemetry defines.

use std::time::Duration;

use openskill_trace::sampler::{Sampler, SamplerName};

use super::names;
use super::reader::Reader;

pub(crate) mod destination;

use destination::{Destination, METRICS, TRACES};

/// The settings for exporting spans.
#[derive(Debug, Clone)]
pub(crate) struct Otlp {
    pub(crate) destination: Destination,
    pub(crate) sampler: Sampler,
    /// Calls that take longer than this are exported even if they were not sampled. `None` exports only sampled
    /// calls.
    pub(crate) slow: Option<Duration>,
    /// The maximum number of spans in the queue.
    pub(crate) queue: usize,
    /// The maximum number of spans in one export.
    pub(crate) batch: usize,
    /// The maximum time that a partial batch waits.
    pub(crate) delay: Duration,
}

/// Reads the settings for exporting spans. Returns `None` if no endpoint is set, or if the sampler never samples.
pub(super) fn resolve(reader: &mut Reader<'_>) -> Option<Otlp> {
    let (queue, batch) = (reader.number(names::BSP_QUEUE, 1, 1_000_000), reader.number(names::BSP_BATCH, 1, 100_000));
    let delay = reader.millis(names::BSP_DELAY, 1, 3_600_000);
    let slow = reader.millis(names::TRACE_SLOW_MS, 0, 3_600_000);
    let sampler = reader.sampler();
    let destination = reader.destination(&TRACES)?;
    let slow = (slow > Duration::ZERO).then_some(slow);
    Some(Otlp { destination, sampler: sampler?, slow, queue, batch, delay })
}

/// Reads the destination of metrics. Returns `None` if metrics are not exported.
pub(super) fn metrics(reader: &mut Reader<'_>) -> Option<Destination> {
    let choices = [("", None), ("otlp", Some(true)), ("none", Some(false))];
    match reader.one_of(names::METRICS_EXPORTER, &choices) {
        Some(false) => None,
        Some(true) => Some(reader.destination_or_default(&METRICS)),
        None => reader.destination(&METRICS),
    }
}

impl Reader<'_> {
    fn sampler(&mut self) -> Option<Sampler> {
        let ratio = self.ratio(names::SAMPLER_ARG);
        let value = self.raw.value(names::SAMPLER);
        match value.parse::<SamplerName>() {
            Ok(name) => name.sampler(ratio),
            Err(_) => {
                let known = "always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, \
                             parentbased_traceidratio";
                self.problem(names::SAMPLER, format!("'{value}' is not one of {known}"));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::raw::RawSettings;
    use super::destination::Protocol;
    use super::*;

    fn read<T>(values: &[(&'static str, &str)], read: impl Fn(&mut Reader<'_>) -> T) -> Result<T, String> {
        let flags = values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let raw = RawSettings::read(&flags, |_| None, Path::new("/nonexistent"));
        let mut reader = Reader::new(&raw);
        let value = read(&mut reader);
        if reader.problems.is_empty() { Ok(value) } else { Err(format!("{:?}", reader.problems)) }
    }

    fn resolved(values: &[(&'static str, &str)]) -> Result<Option<Otlp>, String> {
        read(values, resolve)
    }

    fn destinations(values: &[(&'static str, &str)]) -> (Option<String>, Option<String>) {
        let (traces, metrics) = read(values, |reader| (resolve(reader), metrics(reader))).unwrap();
        (traces.map(|it| it.destination.endpoint), metrics.map(|it| it.endpoint))
    }

    const COLLECTOR: (&str, &str) = (names::OTLP_ENDPOINT, "http://collector:4318/");

    #[test]
    fn nothing_is_exported_without_an_endpoint_or_by_a_sampler_that_is_off() {
        assert!(resolved(&[]).unwrap().is_none());
        assert!(resolved(&[COLLECTOR, (names::SAMPLER, "always_off")]).unwrap().is_none());
        assert!(resolved(&[COLLECTOR]).unwrap().is_some());
    }

    #[test]
    fn the_endpoint_of_all_signals_gets_the_path_of_each_and_that_of_one_signal_is_whole() {
        let http = (names::OTLP_PROTOCOL, "http/protobuf");
        let some = |traces: &str, metrics: &str| (Some(traces.to_owned()), Some(metrics.to_owned()));
        let both = some("http://collector:4318/v1/traces", "http://collector:4318/v1/metrics");
        assert_eq!(destinations(&[COLLECTOR, http]), both);
        let own = (names::OTLP_TRACES_ENDPOINT, "https://other/spans");
        assert_eq!(destinations(&[COLLECTOR, http, own]), some("https://other/spans", &both.1.unwrap()));
        assert_eq!(destinations(&[COLLECTOR]), some("http://collector:4318/", "http://collector:4318/"));
        assert_eq!(destinations(&[http, own]), (Some("https://other/spans".to_owned()), None));
    }

    #[test]
    fn metrics_are_sent_if_there_is_an_endpoint_or_if_they_are_asked_for() {
        let of = |values: &[(&'static str, &str)]| destinations(values).1;
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[COLLECTOR, (names::METRICS_EXPORTER, "none")]), None);
        let asked = (names::METRICS_EXPORTER, "otlp");
        assert_eq!(of(&[asked]).unwrap(), "http://127.0.0.1:4317");
        assert_eq!(of(&[asked, (names::OTLP_PROTOCOL, "http/protobuf")]).unwrap(), "http://127.0.0.1:4318/v1/metrics");
        assert_eq!(of(&[asked, COLLECTOR]).unwrap(), COLLECTOR.1);
    }

    #[test]
    fn the_variables_of_traces_precede_those_of_all_signals() {
        let otlp = resolved(&[
            COLLECTOR,
            (names::OTLP_TRACES_PROTOCOL, "http/protobuf"),
            (names::OTLP_HEADERS, "a=1"),
            (names::OTLP_TRACES_HEADERS, "Api-Key=s%20cret%3D, b=2"),
            (names::OTLP_TIMEOUT, "1"),
            (names::OTLP_TRACES_TIMEOUT, "250"),
        ]);
        let otlp = otlp.unwrap().unwrap();
        let destination = &otlp.destination;
        assert_eq!(destination.protocol, Protocol::HttpProtobuf);
        let headers: Vec<_> =
            destination.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(headers, [("api-key", &b"s cret="[..]), ("b", b"2")]);
        assert_eq!(destination.timeout, Duration::from_millis(250));
        assert!(!format!("{otlp:?}").contains("s cret"));
    }

    #[test]
    fn what_is_no_setting_is_refused_without_showing_secrets() {
        for (name, value) in [
            (names::OTLP_PROTOCOL, "http/json"),
            (names::SAMPLER, "xray"),
            (names::SAMPLER_ARG, "2"),
            (names::OTLP_HEADERS, "s3cret"),
            (names::OTLP_HEADERS, "a=s3cret%zz"),
            (names::OTLP_ENDPOINT, "collector:4317"),
            (names::OTLP_CERTIFICATE, "/nonexistent"),
            (names::OTLP_CERTIFICATE, "/proc/self/exe"),
            (names::OTLP_CERTIFICATE, "/dev/null"),
            (names::OTLP_CLIENT_KEY, "Cargo.toml"),
            (names::BSP_QUEUE, "0"),
        ] {
            let problems = resolved(&[(name, value), COLLECTOR]).unwrap_err();
            assert!(problems.contains(name) && !problems.contains("s3cret"), "{problems}");
        }
    }

    #[test]
    fn a_problem_of_both_signals_is_reported_once() {
        let problems = read(&[(names::OTLP_ENDPOINT, "collector:4317")], |reader| (resolve(reader), metrics(reader)));
        assert_eq!(problems.unwrap_err().matches(names::OTLP_ENDPOINT).count(), 1);
    }
}
