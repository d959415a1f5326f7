//! Secrets in URLs outside of query parameters: passwords before a host, and secret paths.

use crate::shapes::SHAPES;
use crate::values::looks::is_mixed;

/// The maximum distance from the scheme to the host, in bytes.
const LONGEST: usize = 512;

/// Returns the part to hide between the `://` at `colon` and the host.
pub(crate) fn user_info(text: &[u8], colon: usize) -> Option<(usize, usize)> {
    let start = colon + 3;
    let rest = &text[start.min(text.len())..text.len().min(start + LONGEST)];
    let authority = authority_end(rest, is_data_source(&text[..colon]));
    let at = rest[..authority].iter().rposition(|byte| *byte == b'@')?;
    let user_info = &rest[..at];
    match user_info.iter().position(|byte| *byte == b':') {
        Some(colon) if colon + 1 == at => whole_token(user_info, start, colon),
        Some(colon) => {
            let password = &user_info[colon + 1..];
            let is_marker = matches!(password, b"x-oauth-basic" | b"x-token-auth" | b"");
            if is_marker || super::looks::is_random(&user_info[..colon], 20) {
                return Some((start, start + at));
            }
            let is_reference = matches!(password, b"***" | [b'$', b'{', ..] | [b'$', b'(', ..] | [b'{', b'{', ..]);
            (!is_reference).then_some((start + colon + 1, start + at))
        }
        None => whole_token(user_info, start, at),
    }
}

/// Returns the whole user name if it is a token.
fn whole_token(user_info: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    let name = &user_info[..end];
    (name.len() >= 16 && is_mixed(name)).then_some((start, start + end))
}

/// Where the authority ends. Passwords in data source URLs often contain characters that should have been escaped.
fn authority_end(rest: &[u8], is_data_source: bool) -> usize {
    let ends = |byte: &u8| {
        byte.is_ascii_whitespace()
            || byte.is_ascii_control()
            || matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\')
    };
    let path = rest.iter().position(|byte| ends(byte) || matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let port = rest[..path].iter().rposition(|byte| *byte == b':').map_or(&b""[..], |colon| &rest[colon + 1..path]);
    let has_password = !port.is_empty() && !port.iter().all(u8::is_ascii_digit);
    if !is_data_source || !has_password {
        return path;
    }
    let near = &rest[..rest.len().min(128)];
    let near = &near[..near.iter().position(ends).unwrap_or(near.len())];
    near.iter().rposition(|byte| *byte == b'@').map_or(path, |at| path.max(at + 1))
}

fn is_data_source(scheme: &[u8]) -> bool {
    SHAPES.sources.iter().any(|source| scheme.ends_with(source))
}

/// Returns the secret path of a webhook URL that begins with the word at `word`.
pub(crate) fn webhook(text: &[u8], word: usize) -> Option<(usize, usize)> {
    let marker = SHAPES.webhooks.iter().find(|marker| text[word..].starts_with(marker.as_bytes()))?;
    let start = word + marker.len();
    let rest = &text[start..text.len().min(start + LONGEST)];
    let belongs = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'@' | b'.' | b':' | b'+' | b'=')
    };
    let near = &rest[..rest.len().min(64)];
    let path = &near[..near.iter().position(|byte| !belongs(byte)).unwrap_or(near.len())];
    let is_secret = path.len() >= 16 && path.split(|byte| *byte == b'/').any(|part| is_mixed(part) && part.len() >= 8);
    let length = || rest.iter().position(|byte| !belongs(byte)).unwrap_or(rest.len());
    is_secret.then(|| (start, start + length()))
}

/// Returns the name and password before `@tcp(` and `@unix(`, as in Go's data source names.
pub(crate) fn go_data_source(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let rest = &text[at + 1..];
    if !(rest.starts_with(b"tcp(") || rest.starts_with(b"unix(")) {
        return None;
    }
    let before = &text[at.saturating_sub(64)..at];
    let begins = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`' | b'=');
    let user_info = before.rsplit(begins).next()?;
    let start = at - user_info.len() + user_info.iter().position(|byte| *byte == b':')? + 1;
    (start < at).then_some((start, at))
}
