//! Fills the manifest's templates with a call's arguments. Pure.

use bytes::Bytes;
use openskill_proto::uri_template::percent_encode;
use openskill_proto::v1::{ErrorCode, SkillError};
use percent_encoding::percent_decode_str;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;
use url::Url;

use super::raw_json::{Budget, CallArguments, text, texts, unfit};
use super::secrets::Secrets;
use crate::manifest::http::{Body, Header, Http, Method, Node, Text, TextPart, is_dots};

/// The maximum length of a request's URL, in bytes.
const MAX_URL_BYTES: usize = 16 * 1024;

/// The maximum length of a header's value, in bytes.
const MAX_HEADER_BYTES: usize = 8 * 1024;

/// The maximum size of a request's body, in bytes. A template may repeat an argument.
const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// The content type of most bodies.
const JSON: &str = "application/json";

/// The length of the separator between a name and its value.
const SEPARATOR: usize = "=".len();

/// A request that is ready to be sent.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: reqwest::Method,
    pub(super) url: Url,
    /// The headers in the manifest.
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
}

/// Fills the manifest's templates.
///
/// # Errors
/// Fails if a required argument is missing or a value can't be used in its place.
pub(super) fn fill(http: &Http, input: &Bytes, secrets: &Secrets) -> Result<Request, SkillError> {
    let arguments = CallArguments::read(input)?;
    let url = url(http, &arguments, secrets)?;
    let mut headers = HeaderMap::with_capacity(http.headers.len() + 2);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*;q=0.5"));
    for header in &http.headers {
        if let Some(value) = header_value(header, &arguments, secrets)? {
            headers.insert(header.name.clone(), value);
        }
    }
    let others = || arguments.others(|name| http.placed.contains(name));
    let body: Option<(&'static str, Bytes)> = match &http.body {
        Body::None => None,
        Body::Json if http.placed.is_empty() => Some((JSON, input.clone())),
        Body::Json => {
            let fields = others().map(|(name, value)| format!("{}:{value}", Value::from(name)));
            Some((JSON, format!("{{{}}}", fields.collect::<Vec<_>>().join(",")).into()))
        }
        Body::Form => {
            let mut budget = Budget::new(MAX_BODY_BYTES, "body");
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            for (name, value) in others().filter(|it| it.1.get() != "null") {
                let values = texts(value, name.len() + SEPARATOR, &mut budget)?;
                form.extend_pairs(values.into_iter().map(|value| (name, value)));
            }
            let bytes = form.finish();
            // The budget counted the text before percent-encoding, which can triple its length.
            if bytes.len() > MAX_BODY_BYTES {
                return Err(budget.over());
            }
            Some(("application/x-www-form-urlencoded", bytes.into()))
        }
        Body::Template(node) => {
            let mut json = String::new();
            write(node, &arguments, secrets, &mut json)?;
            Some((JSON, json.into()))
        }
    };
    if let Some(&(content_type, _)) = body.as_ref()
        && !headers.contains_key(CONTENT_TYPE)
    {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    Ok(Request { method: method(http.method), url, headers, body: body.map(|(_, bytes)| bytes) })
}

fn url(http: &Http, arguments: &CallArguments<'_>, secrets: &Secrets) -> Result<Url, SkillError> {
    let mut path = String::new();
    for segment in &http.target.path {
        path.push('/');
        path.push_str(&filled_segment(segment, arguments, secrets)?);
    }
    let mut url = http.target.origin.clone();
    url.set_path(&path);
    if url.path() != path {
        // Percent-encoding leaves nothing to normalize, so only a bug in it leads here.
        return Err(SkillError::new(ErrorCode::InvalidArgument, "the arguments do not form a path of the skill's URL"));
    }
    let mut budget = Budget::new(MAX_URL_BYTES, "URL");
    let mut pairs = Vec::new();
    for (name, text) in &http.query {
        let values = arguments.expand(text, secrets, &mut budget)?;
        budget.spend((name.len() + SEPARATOR).saturating_mul(values.len()))?;
        pairs.extend(values.into_iter().map(|value| (name.as_str(), value)));
    }
    let others = || arguments.others(|name| http.placed.contains(name)).filter(|it| it.1.get() != "null");
    let others: Vec<_> = if http.body == Body::None { others().collect() } else { Vec::new() };
    for (name, value) in others {
        let values = texts(value, name.len() + SEPARATOR, &mut budget)?;
        pairs.extend(values.into_iter().map(|value| (name, value)));
    }
    if !pairs.is_empty() {
        url.query_pairs_mut().extend_pairs(pairs);
    }
    if url.as_str().len() > MAX_URL_BYTES {
        return Err(budget.over());
    }
    Ok(url)
}

/// Fills one path segment. A value can't add more segments.
fn filled_segment(segment: &Text, arguments: &CallArguments<'_>, secrets: &Secrets) -> Result<String, SkillError> {
    let mut filled = String::new();
    let mut last = "";
    for part in &segment.0 {
        match part {
            TextPart::Literal(text) => filled.push_str(text),
            TextPart::Variable(name) => filled.push_str(&percent_encode(secrets.get(name))),
            TextPart::Argument(name) => {
                let value = arguments.get(name).filter(|it| it.get() != "null");
                let value = value.ok_or_else(|| unfit(name, "must be given: it is a part of the skill's URL"))?;
                if value.get().starts_with(['[', '{']) {
                    return Err(unfit(
                        name,
                        "must be a string, a number or a boolean: it is a part of the skill's URL",
                    ));
                }
                let value = text(value);
                if let Some(reason) = leads_out(&value) {
                    return Err(unfit(name, reason));
                }
                filled.push_str(&percent_encode(&value));
                last = name;
            }
        }
        if filled.len() > MAX_URL_BYTES {
            return Err(Budget::new(MAX_URL_BYTES, "URL").over());
        }
    }
    if is_dots(&filled) {
        return Err(unfit(last, "must not turn a part of the skill's URL into '.' or '..'"));
    }
    Ok(filled)
}

/// Returns why a value can't be part of a path. According to the standard, percent-encoding keeps it in its
/// segment. But some servers decode a path before they look for slashes and dots, some even twice.
fn leads_out(value: &str) -> Option<&'static str> {
    if value.is_empty() {
        return Some("must not be empty: it is a part of the skill's URL");
    }
    let mut seen = value.to_owned();
    for _ in 0..3 {
        if seen.chars().any(char::is_control) {
            return Some("must not contain a control character: it is a part of the skill's URL");
        }
        if seen.split(['/', '\\']).any(|it| it == "..") {
            return Some("must not contain '..' as a part of a path");
        }
        seen = percent_decode_str(&seen).decode_utf8_lossy().into_owned();
    }
    None
}

fn header_value(
    header: &Header,
    arguments: &CallArguments<'_>,
    secrets: &Secrets,
) -> Result<Option<HeaderValue>, SkillError> {
    let Header { name, value } = header;
    let is_list = |argument: &&str| arguments.get(argument).is_some_and(|it| it.get().starts_with('['));
    if let Some(list) = value.arguments().find(is_list) {
        return Err(unfit(list, "must not be a list: it is sent in a header"));
    }
    let values = arguments.expand(value, secrets, &mut Budget::new(MAX_HEADER_BYTES, "header"))?;
    let refuse = |reason: &str| {
        let argument = value.arguments().next().unwrap_or(name.as_str());
        Err(unfit(argument, reason))
    };
    let Some(text) = values.first() else { return Ok(None) };
    if text.chars().any(char::is_control) {
        return refuse("must not contain a line break or another control character: it is sent in a header");
    }
    let Ok(mut sent) = HeaderValue::from_str(text).or_else(|_| HeaderValue::from_bytes(text.as_bytes())) else {
        return refuse("can't be sent in a header");
    };
    // It contains one of the worker's variables or is intended for credentials.
    sent.set_sensitive(value.variables().next().is_some() || *name == reqwest::header::AUTHORIZATION);
    Ok(Some(sent))
}

/// Writes JSON. Returns false if it wrote nothing because an argument is absent.
fn write(node: &Node, arguments: &CallArguments<'_>, secrets: &Secrets, json: &mut String) -> Result<bool, SkillError> {
    let budget = || Budget::new(MAX_BODY_BYTES, "body");
    match node {
        Node::Literal(text) => json.push_str(text),
        Node::Argument(name, _) => match arguments.get(name) {
            Some(value) => json.push_str(value.get()),
            None => return Ok(false),
        },
        Node::Text(text) => match &arguments.expand(text, secrets, &mut budget())?[..] {
            [] => return Ok(false),
            [one] => json.push_str(&Value::from(one.as_str()).to_string()),
            _ => return Err(unfit(text.arguments().next().unwrap_or_default(), "must not be a list here")),
        },
        Node::List(items) => write_all(json, ['[', ']'], items, |it, json| write(it, arguments, secrets, json))?,
        Node::Object(fields) => write_all(json, ['{', '}'], fields, |(name, it), json| {
            json.push_str(&Value::from(name.as_str()).to_string());
            json.push(':');
            write(it, arguments, secrets, json)
        })?,
    }
    if json.len() > MAX_BODY_BYTES {
        return Err(budget().over());
    }
    Ok(true)
}

/// Writes a list or an object. Omits items without a value.
fn write_all<T>(
    json: &mut String,
    [open, close]: [char; 2],
    items: &[T],
    write: impl Fn(&T, &mut String) -> Result<bool, SkillError>,
) -> Result<(), SkillError> {
    json.push(open);
    let mut first = true;
    for item in items {
        let before = json.len();
        if !first {
            json.push(',');
        }
        if write(item, json)? {
            first = false;
        } else {
            json.truncate(before);
        }
    }
    json.push(close);
    Ok(())
}

fn method(method: Method) -> reqwest::Method {
    match method {
        Method::Get => reqwest::Method::GET,
        Method::Head => reqwest::Method::HEAD,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Patch => reqwest::Method::PATCH,
        Method::Delete => reqwest::Method::DELETE,
    }
}

#[cfg(test)]
mod tests;
