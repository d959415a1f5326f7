//! The URL of a skill: a fixed origin, a path whose segments contain their values, and the pairs of a query.

use url::Url;

use super::template::{Part, Text};

/// The longest URL template.
const MAX_URL_BYTES: usize = 8 * 1024;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Scheme, host and port, with the path `/`.
    pub origin: Url,
    /// The segments of the path, in order. Literal parts are percent-encoded.
    pub path: Vec<Text>,
}

impl Target {
    /// Its templates.
    pub(super) fn texts(&self) -> impl Iterator<Item = &Text> {
        self.path.iter()
    }
}

/// Reads a URL template: the target, and the pairs of the query.
pub(super) fn parse(entry: &str) -> Result<(Target, Vec<(String, Text)>), String> {
    if entry.len() > MAX_URL_BYTES {
        return Err(format!("a URL has at most {MAX_URL_BYTES} bytes"));
    }
    let is_plain = |it: char| !it.is_control() && !it.is_whitespace() && it != '\\' && it != '#';
    if !entry.chars().all(is_plain) {
        return Err("a URL must not contain a space, a control character, '\\' or '#'".to_owned());
    }
    let (before, query) = entry.split_once('?').unwrap_or((entry, ""));
    let after_scheme = before
        .strip_prefix("https://")
        .or_else(|| before.strip_prefix("http://"))
        .ok_or("must be the URL of a server: it begins with https:// or http://")?;
    let scheme = &before[..before.len() - after_scheme.len()];
    let (authority, path) = after_scheme.split_once('/').unwrap_or((after_scheme, ""));
    if authority.contains(['{', '}', '$']) {
        return Err("the host and the port are fixed: an argument or a variable cannot be part of them".to_owned());
    }
    if authority.contains('@') {
        return Err("a URL must not contain a user or a password: use a header with ${NAME}".to_owned());
    }
    let origin = Url::parse(&format!("{scheme}{authority}/")).map_err(|error| format!("no URL: {error}"))?;
    let path = path.split('/').map(segment).collect::<Result<_, _>>()?;
    let pairs = query.split('&').filter(|it| !it.is_empty()).map(pair).collect::<Result<_, _>>()?;
    Ok((Target { origin, path }, pairs))
}

fn segment(text: &str) -> Result<Text, String> {
    let segment = Text::parse(text)?;
    let mut whole = String::new();
    for part in &segment.0 {
        match part {
            Part::Literal(text) if !text.bytes().all(stands_in_a_path) || !escapes_are_whole(text) => {
                return Err(format!("'{text}' is not valid in a path: percent-encode it"));
            }
            Part::Literal(text) => whole.push_str(text),
            Part::Argument(_) | Part::Variable(_) => whole.push('x'),
        }
    }
    if is_dots(&whole) {
        return Err("a path must not contain '.' or '..'".to_owned());
    }
    Ok(segment)
}

/// Whether a segment is `.` or `..`, also with percent-encoded dots.
pub(crate) fn is_dots(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    plain == "." || plain == ".."
}

fn stands_in_a_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%".contains(&byte)
}

fn escapes_are_whole(text: &str) -> bool {
    let hex = |rest: &str, at: usize| rest.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
    text.split('%').skip(1).all(|rest| hex(rest, 0) && hex(rest, 1))
}

fn pair(text: &str) -> Result<(String, Text), String> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    if key.contains(['{', '}']) {
        return Err(format!("'{key}': the names of a query are fixed"));
    }
    let value = Text::parse(value)?.0.into_iter().map(|part| match part {
        Part::Literal(text) => Part::Literal(decode(&text)),
        other => other,
    });
    Ok((decode(key), Text(value.collect())))
}

/// A decoded part of a query.
fn decode(text: &str) -> String {
    // The parser looks for these two; a value may hold a '='.
    let text = text.replace('=', "%3D");
    url::form_urlencoded::parse(text.as_bytes()).next().map(|(key, _)| key.into_owned()).unwrap_or_default()
}
