//! Where spans go, and which: the variables that OpenTelemetry defines.

use std::time::Duration;

use openskill_trace::sampler::{Name, Sampler};
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue};
use tonic::transport::Uri;

use super::names;
use super::problem::mask;
use super::reader::Reader;

/// How spans travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Grpc,
    HttpProtobuf,
}

/// The export of spans.
#[derive(Clone, PartialEq)]
pub(crate) struct Otlp {
    pub(crate) protocol: Protocol,
    /// Over HTTP, the whole URL.
    pub(crate) endpoint: String,
    /// Names and values. The values are secrets.
    pub(crate) headers: Vec<(String, String)>,
    /// The most that one export may take.
    pub(crate) timeout: Duration,
    pub(crate) sampler: Sampler,
    /// Calls that take longer are exported though they were not sampled. None: they are not.
    pub(crate) slow: Option<Duration>,
    /// How many spans may wait.
    pub(crate) queue: usize,
    /// How many spans are exported at once.
    pub(crate) batch: usize,
    /// How long a batch that is not full waits.
    pub(crate) delay: Duration,
}

impl std::fmt::Debug for Otlp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Otlp").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

/// Reads the export of spans. None: there is no endpoint, or the sampler takes nothing ever.
pub(super) fn resolve(reader: &mut Reader<'_>) -> Option<Otlp> {
    let (queue, batch) = (reader.number(names::BSP_QUEUE, 1, 1_000_000), reader.number(names::BSP_BATCH, 1, 100_000));
    let delay = reader.millis(names::BSP_DELAY, 1, 3_600_000);
    let slow = reader.millis(names::TRACE_SLOW_MS, 0, 3_600_000);
    let sampler = reader.sampler();
    let protocol = reader.protocol();
    let headers = reader.headers();
    let timeout = reader.either(names::OTLP_TRACES_TIMEOUT, names::OTLP_TIMEOUT);
    let timeout = reader.millis(timeout, 1, 600_000);
    let endpoint = reader.endpoint(protocol)?;
    let slow = (slow > Duration::ZERO).then_some(slow);
    Some(Otlp { protocol, endpoint, headers, timeout, sampler: sampler?, slow, queue, batch, delay })
}

impl Reader<'_> {
    /// The variable for traces alone if it is set, else the one for every signal.
    fn either(&self, of_traces: &'static str, of_all: &'static str) -> &'static str {
        if self.raw.value(of_traces).is_empty() { of_all } else { of_traces }
    }

    fn sampler(&mut self) -> Option<Sampler> {
        let ratio = self.ratio(names::SAMPLER_ARG);
        let value = self.raw.value(names::SAMPLER);
        match value.parse::<Name>() {
            Ok(name) => name.sampler(ratio),
            Err(_) => {
                let known = "always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, \
                             parentbased_traceidratio";
                self.problem(names::SAMPLER, format!("'{value}' is not one of {known}"));
                None
            }
        }
    }

    fn protocol(&mut self) -> Protocol {
        let name = self.either(names::OTLP_TRACES_PROTOCOL, names::OTLP_PROTOCOL);
        self.one_of(name, &[("grpc", Protocol::Grpc), ("http/protobuf", Protocol::HttpProtobuf)])
    }

    fn endpoint(&mut self, protocol: Protocol) -> Option<String> {
        let name = self.either(names::OTLP_TRACES_ENDPOINT, names::OTLP_ENDPOINT);
        let value = self.raw.value(name);
        if value.is_empty() {
            return None;
        }
        let is_url = |it: &Uri| matches!(it.scheme_str(), Some("http" | "https")) && it.host().is_some();
        if !value.parse().is_ok_and(|it| is_url(&it)) {
            self.problem(name, format!("'{}' is not an http:// or https:// URL", mask(value)));
            return None;
        }
        Some(match protocol {
            // The variable of one signal is the whole URL.
            Protocol::HttpProtobuf if name == names::OTLP_ENDPOINT => {
                format!("{}/v1/traces", value.trim_end_matches('/'))
            }
            _ => value.to_owned(),
        })
    }

    fn headers(&mut self) -> Vec<(String, String)> {
        let name = self.either(names::OTLP_TRACES_HEADERS, names::OTLP_HEADERS);
        let pairs = self.raw.value(name).split(',').map(str::trim).filter(|pair| !pair.is_empty());
        let headers: Vec<_> = pairs.map(header).collect();
        if headers.iter().any(Option::is_none) {
            // Without the value, which may be a secret.
            self.problem(name, "must be name=value pairs, separated by commas".to_owned());
        }
        headers.into_iter().flatten().collect()
    }
}

/// One `name=value`. The value is percent-encoded.
fn header(pair: &str) -> Option<(String, String)> {
    let (name, value) = pair.split_once('=')?;
    let (name, value) = (name.trim().to_ascii_lowercase(), decoded(value.trim())?);
    let is_valid = name.parse::<AsciiMetadataKey>().is_ok() && value.parse::<AsciiMetadataValue>().is_ok();
    is_valid.then_some((name, value))
}

fn decoded(value: &str) -> Option<String> {
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
    use std::path::Path;

    use super::super::raw::Raw;
    use super::*;

    fn resolved(values: &[(&'static str, &str)]) -> Result<Option<Otlp>, String> {
        let flags = values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let raw = Raw::read(&flags, |_| None, Path::new("/nonexistent"));
        let mut reader = Reader::new(&raw);
        let otlp = resolve(&mut reader);
        if reader.problems.is_empty() { Ok(otlp) } else { Err(format!("{:?}", reader.problems)) }
    }

    const COLLECTOR: (&str, &str) = (names::OTLP_ENDPOINT, "http://collector:4318/");

    #[test]
    fn nothing_is_exported_without_an_endpoint_or_by_a_sampler_that_is_off() {
        assert_eq!(resolved(&[]), Ok(None));
        assert_eq!(resolved(&[COLLECTOR, (names::SAMPLER, "always_off")]), Ok(None));
        assert!(resolved(&[COLLECTOR]).unwrap().is_some());
    }

    #[test]
    fn the_endpoint_of_all_signals_gets_the_path_of_traces_and_the_one_of_traces_is_whole() {
        let http = (names::OTLP_PROTOCOL, "http/protobuf");
        let endpoint = |values: &[(&'static str, &str)]| resolved(values).unwrap().unwrap().endpoint;
        assert_eq!(endpoint(&[COLLECTOR, http]), "http://collector:4318/v1/traces");
        let own = (names::OTLP_TRACES_ENDPOINT, "https://other/spans");
        assert_eq!(endpoint(&[COLLECTOR, http, own]), "https://other/spans");
        assert_eq!(endpoint(&[COLLECTOR]), "http://collector:4318/");
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
        assert_eq!(otlp.protocol, Protocol::HttpProtobuf);
        let expected = [("api-key", "s cret="), ("b", "2")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(otlp.headers, expected);
        assert_eq!(otlp.timeout, Duration::from_millis(250));
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
            (names::BSP_QUEUE, "0"),
        ] {
            let problems = resolved(&[(name, value), COLLECTOR]).unwrap_err();
            assert!(problems.contains(name) && !problems.contains("s3cret"), "{problems}");
        }
    }
}
