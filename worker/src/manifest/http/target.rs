//! The URL of a skill: a fixed origin, a path template, and the query pairs.

use url::Url;

use super::template::{Text, TextPart};

/// The maximum length of a URL template, in bytes.
const MAX_URL_BYTES: usize = 8 * 1024;

/// A URL template without its query.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The scheme, host and port, with the path `/`.
    pub origin: Url,
    /// The path segments in order. Literal parts are percent-encoded.
    pub path: Vec<Text>,
}

impl Target {
    /// Returns all text templates in the URL.
    pub(super) fn texts(&self) -> impl Iterator<Item = &Text> {
        self.path.iter()
    }
}

/// Parses a URL template into the target and the query pairs.
pub(super) fn parse(entry: &str) -> Result<(Target, Vec<(String, Text)>), String> {
    if entry.len() > MAX_URL_BYTES {
        return Err(format!("a URL must have at most {MAX_URL_BYTES} bytes"));
    }
    let is_plain = |it: char| !it.is_control() && !it.is_whitespace() && it != '\\' && it != '#';
    if !entry.chars().all(is_plain) {
        return Err("a URL must not contain a space, a control character, '\\' or '#'".to_owned());
    }
    let (before, query) = entry.split_once('?').unwrap_or((entry, ""));
    let after_scheme = before
        .strip_prefix("https://")
        .or_else(|| before.strip_prefix("http://"))
        .ok_or("must be a server URL that begins with https:// or http://")?;
    let scheme = &before[..before.len() - after_scheme.len()];
    let (authority, path) = after_scheme.split_once('/').unwrap_or((after_scheme, ""));
    if authority.contains(['{', '}', '$']) {
        return Err("the host and the port are fixed: an argument or a variable cannot be part of them".to_owned());
    }
    if authority.contains('@') {
        return Err("a URL must not contain a user or a password: use a header with ${NAME}".to_owned());
    }
    let origin = Url::parse(&format!("{scheme}{authority}/")).map_err(|error| format!("is not a URL: {error}"))?;
    let path = path.split('/').map(segment).collect::<Result<_, _>>()?;
    let pairs = query.split('&').filter(|it| !it.is_empty()).map(pair).collect::<Result<_, _>>()?;
    Ok((Target { origin, path }, pairs))
}

fn segment(text: &str) -> Result<Text, String> {
    let segment = Text::parse(text)?;
    let mut whole = String::new();
    for part in &segment.0 {
        match part {
            TextPart::Literal(text) if !text.bytes().all(stands_in_a_path) || !escapes_are_whole(text) => {
                return Err(format!("'{text}' is not valid in a path: percent-encode it"));
            }
            TextPart::Literal(text) => whole.push_str(text),
            TextPart::Argument(_) | TextPart::Variable(_) => whole.push('x'),
        }
    }
    if is_dots(&whole) {
        return Err("a path must not contain '.' or '..'".to_owned());
    }
    Ok(segment)
}

/// Returns whether a segment is `.` or `..`, including percent-encoded dots.
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
        return Err(format!("'{key}': the names in a query must be fixed"));
    }
    let value = Text::parse(value)?.0.into_iter().map(|part| match part {
        TextPart::Literal(text) => TextPart::Literal(decode(&text)),
        other => other,
    });
    Ok((decode(key), Text(value.collect())))
}

/// Decodes one part of a query.
fn decode(text: &str) -> String {
    // The parser splits at '&' and '=', but a value may contain '='.
    let text = text.replace('=', "%3D");
    url::form_urlencoded::parse(text.as_bytes()).next().map(|(key, _)| key.into_owned()).unwrap_or_default()
}
