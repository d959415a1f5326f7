//! The headers that a manifest sets.

use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::template::{Text, TextPart, parse_scalar};

/// The maximum number of headers.
const MAX_HEADERS: usize = 32;

/// Headers that openskill or the connection sets. A manifest's value would break the request or be wrong.
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

/// A header of the request, whose value may contain arguments and variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The name in lower case.
    pub name: HeaderName,
    /// The value's template. The header is omitted if the call does not set one of its arguments.
    pub value: Text,
}

/// Parses the headers. Rejects reserved and repeated names.
pub(super) fn parse(raw: &Map<String, Value>) -> Result<Vec<Header>, String> {
    if raw.len() > MAX_HEADERS {
        return Err(format!("must have at most {MAX_HEADERS} headers"));
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
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "is not a valid header name".to_owned())?;
    if RESERVED.contains(&name.as_str()) {
        return Err("is set by openskill itself".to_owned());
    }
    let value = parse_scalar(value)?;
    for part in &value.0 {
        if let TextPart::Literal(text) = part
            && HeaderValue::from_str(text).is_err()
        {
            return Err(
                "cannot be sent: a header must not contain a line break or another control character".to_owned()
            );
        }
    }
    Ok(Header { name, value })
}
