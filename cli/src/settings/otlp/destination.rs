//! The collector for one signal. Variables for one signal take precedence over variables for all signals.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Identity};
use tonic::metadata::AsciiMetadataKey;
use tonic::transport::Uri;

use super::super::problem::mask;
use super::super::reader::Reader;
use crate::settings::names;

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
    pub(crate) setting: &'static str,
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

/// The setting for one signal, and the corresponding setting for all signals.
type SettingPair = [&'static str; 2];

/// The setting names of one signal: spans or metrics.
pub(super) struct Signal {
    /// The path that is appended to the endpoint for all signals with HTTP.
    path: &'static str,
    endpoint: SettingPair,
    protocol: SettingPair,
    headers: SettingPair,
    timeout: SettingPair,
    certificate: SettingPair,
    client_certificate: SettingPair,
    client_key: SettingPair,
}

pub(super) const TRACES: Signal = Signal {
    path: "/v1/traces",
    endpoint: [names::OTLP_TRACES_ENDPOINT, names::OTLP_ENDPOINT],
    protocol: [names::OTLP_TRACES_PROTOCOL, names::OTLP_PROTOCOL],
    headers: [names::OTLP_TRACES_HEADERS, names::OTLP_HEADERS],
    timeout: [names::OTLP_TRACES_TIMEOUT, names::OTLP_TIMEOUT],
    certificate: [names::OTLP_TRACES_CERTIFICATE, names::OTLP_CERTIFICATE],
    client_certificate: [names::OTLP_TRACES_CLIENT_CERTIFICATE, names::OTLP_CLIENT_CERTIFICATE],
    client_key: [names::OTLP_TRACES_CLIENT_KEY, names::OTLP_CLIENT_KEY],
};

pub(super) const METRICS: Signal = Signal {
    path: "/v1/metrics",
    endpoint: [names::OTLP_METRICS_ENDPOINT, names::OTLP_ENDPOINT],
    protocol: [names::OTLP_METRICS_PROTOCOL, names::OTLP_PROTOCOL],
    headers: [names::OTLP_METRICS_HEADERS, names::OTLP_HEADERS],
    timeout: [names::OTLP_METRICS_TIMEOUT, names::OTLP_TIMEOUT],
    certificate: [names::OTLP_METRICS_CERTIFICATE, names::OTLP_CERTIFICATE],
    client_certificate: [names::OTLP_METRICS_CLIENT_CERTIFICATE, names::OTLP_CLIENT_CERTIFICATE],
    client_key: [names::OTLP_METRICS_CLIENT_KEY, names::OTLP_CLIENT_KEY],
};

impl Reader<'_> {
    /// Reads the collector for a signal. Returns `None` if no endpoint is set.
    pub(super) fn destination(&mut self, signal: &Signal) -> Option<Destination> {
        let destination = self.destination_or_default(signal);
        let is_set = !self.raw.value(destination.setting).is_empty();
        is_set.then_some(destination)
    }

    /// Like [`Self::destination`], with OpenTelemetry's default endpoint if none is set.
    pub(super) fn destination_or_default(&mut self, signal: &Signal) -> Destination {
        let protocol = self.protocol(signal);
        let timeout = self.either(signal.timeout);
        let setting = self.either(signal.endpoint);
        Destination {
            setting,
            protocol,
            endpoint: self.endpoint(signal, protocol, setting),
            headers: self.headers(signal),
            timeout: self.millis(timeout, 1, 600_000),
            trusted: self.trusted_certificates(signal),
            identity: self.identity(signal),
        }
    }

    /// Returns the setting for this signal if it is set, otherwise the setting for all signals.
    fn either(&self, [of_signal, of_all]: SettingPair) -> &'static str {
        if self.raw.value(of_signal).is_empty() { of_all } else { of_signal }
    }

    fn protocol(&mut self, signal: &Signal) -> Protocol {
        let name = self.either(signal.protocol);
        self.one_of(name, &[("grpc", Protocol::Grpc), ("http/protobuf", Protocol::HttpProtobuf)])
    }

    fn endpoint(&mut self, signal: &Signal, protocol: Protocol, setting: &str) -> String {
        let default = match protocol {
            Protocol::Grpc => "http://127.0.0.1:4317",
            Protocol::HttpProtobuf => "http://127.0.0.1:4318",
        };
        let value = Some(self.raw.value(setting)).filter(|it| !it.is_empty()).unwrap_or(default);
        let is_url = |it: &Uri| matches!(it.scheme_str(), Some("http" | "https")) && it.host().is_some();
        if !value.parse().is_ok_and(|it| is_url(&it)) {
            self.problem(setting, format!("'{}' is not an http:// or https:// URL", mask(value)));
        }
        match protocol {
            // The variable for one signal already contains the whole URL.
            Protocol::HttpProtobuf if setting == names::OTLP_ENDPOINT => {
                format!("{}{}", value.trim_end_matches('/'), signal.path)
            }
            _ => value.to_owned(),
        }
    }

    fn headers(&mut self, signal: &Signal) -> HeaderMap {
        self.header_list(self.either(signal.headers))
    }

    /// Parses headers written as `name=value`, separated by commas.
    pub(in crate::settings) fn header_list(&mut self, name: &str) -> HeaderMap {
        let pairs = self.raw.value(name).split(',').map(str::trim).filter(|pair| !pair.is_empty());
        let headers: Vec<_> = pairs.map(header).collect();
        if headers.iter().any(Option::is_none) {
            // The message omits the value, which may be a secret.
            self.problem(name, "must be name=value pairs, separated by commas".to_owned());
        }
        headers.into_iter().flatten().collect()
    }

    fn trusted_certificates(&mut self, signal: &Signal) -> Option<Vec<Certificate>> {
        let name = self.either(signal.certificate);
        let pem = self.file(name)?;
        let trusted = Certificate::from_pem_bundle(&pem).ok().filter(|it| !it.is_empty());
        if trusted.is_none() {
            self.problem(name, format!("'{}' contains no PEM certificates", self.raw.value(name)));
        }
        trusted
    }

    fn identity(&mut self, signal: &Signal) -> Option<Identity> {
        let [certificate, key] = [signal.client_certificate, signal.client_key].map(|names| self.either(names));
        let [has_certificate, has_key] = [certificate, key].map(|name| !self.raw.value(name).is_empty());
        if has_certificate != has_key {
            let (set, missing) = if has_key { (key, certificate) } else { (certificate, key) };
            self.problem(set, format!("requires {missing}"));
        }
        let (mut pem, more) = (self.file(certificate)?, self.file(key)?);
        pem.push(b'\n');
        pem.extend(more);
        let identity = Identity::from_pem(&pem).ok();
        if identity.is_none() {
            self.problem(key, format!("{certificate} and {key} must be a PEM certificate and its private key"));
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
