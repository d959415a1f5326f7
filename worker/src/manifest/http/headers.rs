//! The headers of a manifest.

use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::template::{Part, Text, of_scalar};

/// How many headers a manifest may have.
const MAX_HEADERS: usize = 32;

/// Headers that openskill or the connection sets. Another value would break the request, or be false.
const RESERVED: [&str; 18] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "accept-encoding",
    "http2-settings",
    "traceparent",
    "tracestate",
    "x-trace-id",
    "x-openskill-principal",
];

/// A header of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// In lower case.
    pub name: HeaderName,
    /// Omitted if the call lacks one of its arguments.
    pub value: Text,
}

/// Reads the headers.
pub(super) fn parse(raw: &Map<String, Value>) -> Result<Vec<Header>, String> {
    if raw.len() > MAX_HEADERS {
        return Err(format!("at most {MAX_HEADERS}"));
    }
    let mut headers: Vec<Header> = Vec::with_capacity(raw.len());
    for (name, value) in raw {
        let header = one(name, value).map_err(|reason| format!("{name}: {reason}"))?;
        if headers.iter().any(|it| it.name == header.name) {
            return Err(format!("{name} is given twice"));
        }
        headers.push(header);
    }
    Ok(headers)
}

fn one(name: &str, value: &Value) -> Result<Header, String> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "is no name of a header".to_owned())?;
    if RESERVED.contains(&name.as_str()) {
        return Err("is set by openskill itself".to_owned());
    }
    let value = of_scalar(value)?;
    for part in &value.0 {
        if let Part::Literal(text) = part
            && HeaderValue::from_str(text).is_err()
        {
            return Err(
                "cannot be sent: a header must not contain a line break or another control character".to_owned()
            );
        }
    }
    Ok(Header { name, value })
}
