//! The settings of an `http` skill: the request as a template, the place of the answer, and the egress rules.
//!
//! Every mistake is found when the file is read. No call can change the scheme, the host or the structure of the path.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::Fault;

mod allow;
mod body;
mod headers;
mod method;
mod target;
mod template;

pub(crate) use allow::{Allowed, Net};
pub(crate) use body::{Body, Node};
pub(crate) use headers::Header;
pub(crate) use method::Method;
pub(crate) use target::{Target, is_dots};
pub(crate) use template::{Part, Text};

/// The highest number of redirects, which is also the default.
const MAX_REDIRECTS: u8 = 5;

/// How many pairs the query may have.
const MAX_QUERY: usize = 64;

/// The longest JSON pointer.
const MAX_POINTER_BYTES: usize = 256;

/// As written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Raw {
    method: Option<Method>,
    headers: Map<String, Value>,
    query: Map<String, Value>,
    body: Option<Value>,
    response: Response,
    stream: Stream,
    allow: Vec<String>,
    redirects: Option<u8>,
}

/// The places of data and messages in the server's answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Response {
    /// JSON pointer to the data of a success; the whole body if empty.
    pub data: String,
    /// JSON pointer to the message of a failure; common places if empty.
    pub error: String,
    /// Whether bodies that are neither JSON nor text become `{content_type, base64}`. They are refused otherwise.
    pub binary: bool,
}

/// How a body of events or lines is handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Each event is a partial result; the result is the list of all.
    #[default]
    Auto,
    /// Each event is a partial result; the result is the last.
    Last,
    /// As plain text.
    Off,
}

/// A request to a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    /// The URL.
    pub target: Target,
    /// The method.
    pub method: Method,
    /// Headers in addition to those that openskill sets.
    pub headers: Vec<Header>,
    /// Pairs of the query, in order: those of `entry`, then those of `query`.
    pub query: Vec<(String, Text)>,
    /// The template of the body.
    pub body: Body,
    /// The places of data and messages in the answer.
    pub response: Response,
    /// How a stream is handled.
    pub stream: Stream,
    /// Hosts that may be reached outside the public internet.
    pub allow: Allowed,
    /// How many redirects are followed.
    pub redirects: u8,
    /// The arguments that the templates name.
    pub placed: BTreeSet<String>,
    /// The worker's variables that the templates name: secrets.
    pub variables: BTreeSet<String>,
}

/// Checks the settings. `env`: the variables that the manifest names.
pub(super) fn resolve(raw: Raw, entry: &str, env: &[String]) -> Result<Http, Fault> {
    let (target, mut query) = target::parse(entry).map_err(|reason| Fault::from(("entry", reason)))?;
    let http = |reason: String| Fault::from(("http", reason));
    let method = raw.method.unwrap_or_default();
    for (name, value) in &raw.query {
        let text = template::of_scalar(value).map_err(|reason| http(format!("query: {name}: {reason}")))?;
        query.push((name.clone(), text));
    }
    if query.len() > MAX_QUERY {
        return Err(http(format!("query: at most {MAX_QUERY} pairs")));
    }
    let headers = headers::parse(&raw.headers).map_err(|reason| http(format!("headers: {reason}")))?;
    let body = body::parse(raw.body, method).map_err(|reason| http(format!("body: {reason}")))?;
    for (name, pointer) in [("data", &raw.response.data), ("error", &raw.response.error)] {
        check_pointer(pointer).map_err(|reason| http(format!("response: {name}: {reason}")))?;
    }
    let allow = Allowed::parse(&raw.allow).map_err(|reason| http(format!("allow: {reason}")))?;
    let redirects = raw.redirects.unwrap_or(MAX_REDIRECTS);
    if redirects > MAX_REDIRECTS {
        return Err(http(format!("redirects: at most {MAX_REDIRECTS}")));
    }
    let texts = target.texts().chain(query.iter().map(|it| &it.1)).chain(headers.iter().map(|it| &it.value));
    let texts: Vec<_> = texts.chain(body.texts()).collect();
    let placed = texts.iter().flat_map(|it| it.arguments()).map(str::to_owned).collect();
    let variables: BTreeSet<_> = texts.iter().flat_map(|it| it.variables()).map(str::to_owned).collect();
    if let Some(name) = variables.iter().find(|it| !env.contains(it)) {
        return Err(http(format!("'${{{name}}}' must be named in the manifest's env list: env: [{name}]")));
    }
    let Raw { response, stream, .. } = raw;
    Ok(Http { target, method, headers, query, body, response, stream, allow, redirects, placed, variables })
}

fn check_pointer(pointer: &str) -> Result<(), String> {
    let escapes_are_whole = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if !(pointer.is_empty() || pointer.starts_with('/')) || !escapes_are_whole || pointer.len() > MAX_POINTER_BYTES {
        return Err(format!("'{pointer}' is no JSON pointer: it looks like /current/items/0"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
