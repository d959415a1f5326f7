//! The export of spans and metrics, configured by the variables that OpenTelemetry defines. Variables for one signal
//! take precedence over variables for all signals.

use std::time::Duration;

use openskill_telemetry::trace::sampler::Sampler;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Identity};
use tonic::metadata::AsciiMetadataKey;

use super::reader::Reader;

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
    let queue = reader.number("OTEL_BSP_MAX_QUEUE_SIZE", 1, 1_000_000);
    let batch = reader.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1, 100_000);
    let delay = reader.millis("OTEL_BSP_SCHEDULE_DELAY", 1, 3_600_000);
    let slow = reader.millis("OPENSKILL_TRACE_SLOW_MS", 0, 3_600_000);
    let sampler = reader.sampler();
    let destination = reader.destination(TRACES)?;
    let slow = (slow > Duration::ZERO).then_some(slow);
    Some(Otlp { destination, sampler: sampler?, slow, queue, batch, delay })
}

/// Reads the destination of metrics. Returns `None` if metrics are not exported.
pub(super) fn metrics(reader: &mut Reader<'_>) -> Option<Destination> {
    let choices = [("", None), ("otlp", Some(true)), ("none", Some(false))];
    match reader.one_of("OTEL_METRICS_EXPORTER", &choices) {
        Some(false) => None,
        Some(true) => Some(reader.destination_or_default(METRICS)),
        None => reader.destination(METRICS),
    }
}

impl Reader<'_> {
    fn sampler(&mut self) -> Option<Sampler> {
        let ratio = self.ratio("OTEL_TRACES_SAMPLER_ARG");
        let name = self.raw.value("OTEL_TRACES_SAMPLER");
        if let Ok(sampler) = Sampler::from_name(name, ratio) {
            return sampler;
        }
        let known = "one of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, \
                     parentbased_traceidratio";
        let problem = format!("'{name}' is not {known}");
        self.problem("OTEL_TRACES_SAMPLER", problem);
        None
    }
}

/// Spans and metrics, as the names of their variables have it.
const TRACES: &str = "TRACES";
const METRICS: &str = "METRICS";

/// The transport of OTLP messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Grpc,
    HttpProtobuf,
}

/// A collector and the transport of one signal's messages.
#[derive(Clone)]
pub(crate) struct Destination {
    /// The setting that contains the endpoint.
    pub(crate) setting: String,
    pub(crate) protocol: Protocol,
    /// The endpoint. With HTTP, the whole URL.
    pub(crate) endpoint: String,
    /// Request headers. Their values are secrets.
    pub(crate) headers: HeaderMap,
    /// The timeout of one export.
    pub(crate) timeout: Duration,
    /// The only trusted certificates. `None` trusts the system's certificates.
    pub(crate) trusted: Option<Vec<Certificate>>,
    /// The client certificate that this process presents to the collector, with its key.
    pub(crate) identity: Option<Identity>,
}

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Destination").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

impl Reader<'_> {
    /// Reads the collector for a signal. Returns `None` if no endpoint is set.
    fn destination(&mut self, signal: &str) -> Option<Destination> {
        let destination = self.destination_or_default(signal);
        self.raw.given(&destination.setting)?;
        Some(destination)
    }

    /// Like [`Self::destination`], with OpenTelemetry's default endpoint if none is set.
    fn destination_or_default(&mut self, signal: &str) -> Destination {
        let [setting, protocol, timeout, headers] =
            ["ENDPOINT", "PROTOCOL", "TIMEOUT", "HEADERS"].map(|part| self.either(signal, part));
        let protocol = self.one_of(&protocol, &[("grpc", Protocol::Grpc), ("http/protobuf", Protocol::HttpProtobuf)]);
        Destination {
            protocol,
            endpoint: self.endpoint(signal, protocol, &setting),
            setting,
            headers: self.header_list(&headers),
            timeout: self.millis(&timeout, 1, 600_000),
            trusted: self.trusted_certificates(signal),
            identity: self.identity(signal),
        }
    }

    /// Returns the setting for this signal if it is set, otherwise the setting for all signals.
    fn either(&self, signal: &str, part: &str) -> String {
        let own = format!("OTEL_EXPORTER_OTLP_{signal}_{part}");
        if self.raw.value(&own).is_empty() { format!("OTEL_EXPORTER_OTLP_{part}") } else { own }
    }

    fn endpoint(&mut self, signal: &str, protocol: Protocol, setting: &str) -> String {
        let default = match protocol {
            Protocol::Grpc => "http://127.0.0.1:4317",
            Protocol::HttpProtobuf => "http://127.0.0.1:4318",
        };
        let value = self.raw.given(setting).unwrap_or(default);
        self.check_url(setting, value);
        match protocol {
            // The variable for one signal already contains the whole URL.
            Protocol::HttpProtobuf if setting == "OTEL_EXPORTER_OTLP_ENDPOINT" => {
                format!("{}/v1/{}", value.trim_end_matches('/'), signal.to_ascii_lowercase())
            }
            _ => value.to_owned(),
        }
    }

    /// Parses headers written as `name=value`, separated by commas.
    pub(super) fn header_list(&mut self, name: &str) -> HeaderMap {
        let headers: Vec<_> = self.raw.list(name).map(header).collect();
        if headers.iter().any(Option::is_none) {
            // The message omits the value, which may be a secret.
            self.problem(name, "must be name=value pairs, separated by commas");
        }
        headers.into_iter().flatten().collect()
    }

    fn trusted_certificates(&mut self, signal: &str) -> Option<Vec<Certificate>> {
        let name = self.either(signal, "CERTIFICATE");
        let pem = self.file(&name)?;
        let trusted = Certificate::from_pem_bundle(&pem).ok().filter(|it| !it.is_empty());
        if trusted.is_none() {
            self.problem(&name, format!("'{}' contains no PEM certificates", self.raw.value(&name)));
        }
        trusted
    }

    fn identity(&mut self, signal: &str) -> Option<Identity> {
        let [certificate, key] = ["CLIENT_CERTIFICATE", "CLIENT_KEY"].map(|part| self.either(signal, part));
        let (mut pem, more) = self.pair([&certificate, &key], "requires", Self::file)?;
        pem.push(b'\n');
        pem.extend(more);
        let identity = Identity::from_pem(&pem).ok();
        if identity.is_none() {
            self.problem(&key, format!("{certificate} and {key} must be a PEM certificate and its private key"));
        }
        identity
    }
}

/// Parses one `name=value` pair. The value is percent-encoded.
fn header(pair: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = pair.split_once('=')?;
    // As strict as gRPC, which reserves some names for binary values.
    let name = name.trim().parse::<AsciiMetadataKey>().ok()?.as_str().parse().ok()?;
    let mut value = HeaderValue::from_str(&percent_decode(value.trim())?).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

/// Decodes `%XX`. Returns `None` if an escape is malformed, or if the result is not UTF-8.
fn percent_decode(value: &str) -> Option<String> {
    let mut parts = value.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::super::raw::RawSettings;
    use super::*;

    fn read<T>(values: &[(&'static str, &str)], read: impl Fn(&mut Reader<'_>) -> T) -> Result<T, String> {
        let raw = RawSettings::for_test(values);
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

    const COLLECTOR: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");

    #[test]
    fn nothing_is_exported_without_an_endpoint_or_by_a_sampler_that_is_off() {
        assert!(resolved(&[]).unwrap().is_none());
        assert!(resolved(&[COLLECTOR, ("OTEL_TRACES_SAMPLER", "always_off")]).unwrap().is_none());
        assert!(resolved(&[COLLECTOR]).unwrap().is_some());
    }

    #[test]
    fn the_endpoint_of_all_signals_gets_the_path_of_each_and_that_of_one_signal_is_whole() {
        let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
        let some = |traces: &str, metrics: &str| (Some(traces.to_owned()), Some(metrics.to_owned()));
        let both = some("http://collector:4318/v1/traces", "http://collector:4318/v1/metrics");
        assert_eq!(destinations(&[COLLECTOR, http]), both);
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://other/spans");
        assert_eq!(destinations(&[COLLECTOR, http, own]), some("https://other/spans", &both.1.unwrap()));
        assert_eq!(destinations(&[COLLECTOR]), some("http://collector:4318/", "http://collector:4318/"));
        assert_eq!(destinations(&[http, own]), (Some("https://other/spans".to_owned()), None));
    }

    #[test]
    fn metrics_are_sent_if_there_is_an_endpoint_or_if_they_are_asked_for() {
        let of = |values: &[(&'static str, &str)]| destinations(values).1;
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[COLLECTOR, ("OTEL_METRICS_EXPORTER", "none")]), None);
        let asked = ("OTEL_METRICS_EXPORTER", "otlp");
        assert_eq!(of(&[asked]).unwrap(), "http://127.0.0.1:4317");
        let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
        assert_eq!(of(&[asked, http]).unwrap(), "http://127.0.0.1:4318/v1/metrics");
        assert_eq!(of(&[asked, COLLECTOR]).unwrap(), COLLECTOR.1);
    }

    #[test]
    fn the_variables_of_traces_precede_those_of_all_signals() {
        let otlp = resolved(&[
            COLLECTOR,
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=1"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "Api-Key=s%20cret%3D, b=2"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "250"),
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
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_TRACES_SAMPLER", "xray"),
            ("OTEL_TRACES_SAMPLER_ARG", "2"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "s3cret"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=s3cret%zz"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nonexistent"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/proc/self/exe"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/dev/null"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "Cargo.toml"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ] {
            let problems = resolved(&[(name, value), COLLECTOR]).unwrap_err();
            assert!(problems.contains(name) && !problems.contains("s3cret"), "{problems}");
        }
    }

    #[test]
    fn a_problem_of_both_signals_is_reported_once() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317");
        let problems = read(&[endpoint], |reader| (resolve(reader), metrics(reader)));
        assert_eq!(problems.unwrap_err().matches("OTEL_EXPORTER_OTLP_ENDPOINT").count(), 1);
    }
}
