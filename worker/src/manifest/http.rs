//! The settings of an `http` skill: the request as a template, the location of data in the response, and the egress
//! rules.
//!
//! Validation when the file is read finds all mistakes. A call can't change the scheme, the host or the structure
//! of the path.

use std::collections::BTreeSet;

use openskill_net::egress::allow::Allowed;
use reqwest::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::checks::ManifestFault;

mod template;

pub(crate) use template::{Body, Method, Node, Target, Text, TextPart, is_dots};
use template::{parse_body, parse_scalar, parse_target};

/// The maximum number of redirects, which is also the default.
const MAX_REDIRECTS: u8 = 5;

/// The maximum number of query pairs.
const MAX_QUERY: usize = 64;

/// The maximum number of headers.
const MAX_HEADERS: usize = 32;

/// Headers that openskill or the connection sets. A manifest's value would break the request or be wrong.
const RESERVED_HEADERS: &str = include_str!("http/reserved_headers.txt");

/// The maximum length of a JSON pointer, in bytes.
const MAX_POINTER_BYTES: usize = 256;

/// The settings as the manifest contains them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawHttp {
    method: Option<Method>,
    headers: Map<String, Value>,
    query: Map<String, Value>,
    body: Option<Value>,
    response: Response,
    stream: Stream,
    allow: Vec<String>,
    redirects: Option<u8>,
}

/// The locations of data and messages in the server's response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Response {
    /// A JSON pointer to the data of a successful response. Empty selects the whole body.
    pub data: String,
    /// A JSON pointer to the message of a failed response. If empty, common places are tried.
    pub error: String,
    /// Whether bodies that are neither JSON nor text become `{content_type, base64}`. Otherwise they are rejected.
    pub binary: bool,
}

/// How to treat a body of server-sent events or JSON lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Each event is a partial result. The result is a list of all events.
    #[default]
    Auto,
    /// Each event is a partial result. The result is the last event.
    Last,
    /// The body is treated as plain text, not as a stream.
    Off,
}

/// A template of the request that a skill sends.
#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    /// The URL without its query.
    pub target: Target,
    /// The HTTP method of the request.
    pub method: Method,
    /// The headers in addition to those that openskill sets.
    pub headers: Vec<Header>,
    /// The query pairs in order: first those in `entry`, then those in `query`.
    pub query: Vec<(String, Text)>,
    /// The template of the request's body.
    pub body: Body,
    /// The locations of data and messages in the response.
    pub response: Response,
    /// How to treat a streamed body.
    pub stream: Stream,
    /// The hosts outside the public internet that the skill may reach.
    pub allow: Allowed,
    /// The maximum number of redirects that are followed.
    pub redirects: u8,
    /// The arguments that the templates use.
    pub placed: BTreeSet<String>,
    /// The worker's variables that the templates use. Their values are secrets.
    pub variables: BTreeSet<String>,
}

/// A header of the request, whose value may contain arguments and variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The name in lower case.
    pub name: HeaderName,
    /// The value's template. The header is omitted if the call does not set one of its arguments.
    pub value: Text,
}

/// Validates the settings. `env`: the variables that the manifest lists.
pub(super) fn resolve(raw: RawHttp, entry: &str, env: &[String]) -> Result<Http, ManifestFault> {
    let (target, mut query) = parse_target(entry).map_err(|reason| ManifestFault::new("entry", reason))?;
    let http = |reason: String| ManifestFault::new("http", reason);
    let method = raw.method.unwrap_or_default();
    for (name, value) in &raw.query {
        let text = parse_scalar(value).map_err(|reason| http(format!("query: {name}: {reason}")))?;
        query.push((name.clone(), text));
    }
    if query.len() > MAX_QUERY {
        return Err(http(format!("query: must have at most {MAX_QUERY} pairs")));
    }
    let headers = parse_headers(&raw.headers).map_err(|reason| http(format!("headers: {reason}")))?;
    let body = parse_body(raw.body, method).map_err(|reason| http(format!("body: {reason}")))?;
    for (name, pointer) in [("data", &raw.response.data), ("error", &raw.response.error)] {
        check_pointer(pointer).map_err(|reason| http(format!("response: {name}: {reason}")))?;
    }
    let allow = Allowed::parse(&raw.allow).map_err(|reason| http(format!("allow: {reason}")))?;
    let redirects = raw.redirects.unwrap_or(MAX_REDIRECTS);
    if redirects > MAX_REDIRECTS {
        return Err(http(format!("redirects: must be at most {MAX_REDIRECTS}")));
    }
    let texts = target.path.iter().chain(query.iter().map(|it| &it.1)).chain(headers.iter().map(|it| &it.value));
    let texts: Vec<_> = texts.chain(body.texts()).collect();
    let placed = texts.iter().flat_map(|it| it.arguments()).map(str::to_owned).collect();
    let variables: BTreeSet<_> = texts.iter().flat_map(|it| it.variables()).map(str::to_owned).collect();
    if let Some(name) = variables.iter().find(|it| !env.contains(it)) {
        return Err(http(format!("'${{{name}}}' must be named in the manifest's env list: env: [{name}]")));
    }
    let RawHttp { response, stream, .. } = raw;
    Ok(Http { target, method, headers, query, body, response, stream, allow, redirects, placed, variables })
}

/// Parses the headers. Rejects reserved and repeated names.
fn parse_headers(raw: &Map<String, Value>) -> Result<Vec<Header>, String> {
    if raw.len() > MAX_HEADERS {
        return Err(format!("must have at most {MAX_HEADERS} headers"));
    }
    let mut headers: Vec<Header> = Vec::with_capacity(raw.len());
    for (name, value) in raw {
        let header = parse_header(name, value).map_err(|reason| format!("{name}: {reason}"))?;
        if headers.iter().any(|it| it.name == header.name) {
            return Err(format!("{name} is given twice"));
        }
        headers.push(header);
    }
    Ok(headers)
}

fn parse_header(name: &str, value: &Value) -> Result<Header, String> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "is not a valid header name".to_owned())?;
    if RESERVED_HEADERS.lines().any(|it| name == it) {
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

fn check_pointer(pointer: &str) -> Result<(), String> {
    let escapes_are_whole = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if !(pointer.is_empty() || pointer.starts_with('/')) || !escapes_are_whole || pointer.len() > MAX_POINTER_BYTES {
        return Err(format!("'{pointer}' is not a JSON pointer: a pointer looks like /current/items/0"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
