//! Decides which part of a value is secret, by the kind of its name. All functions are pure.

use crate::keys::{ValueKind, Words};
use crate::placeholder::{is_no_value, is_reference, is_state};
use crate::value::Value;
use crate::values::{base64, looks};

/// Returns the start and end of the secret part of a value.
pub(crate) fn secret_part(text: &[u8], value: Value, kind: ValueKind, key: &[u8]) -> Option<(usize, usize)> {
    let part = &text[value.start..value.end];
    let trimmed = part.trim_ascii();
    if trimmed.is_empty() || is_reference(trimmed) {
        return None;
    }
    let whole = Some((value.start, value.end));
    match kind {
        ValueKind::Secret | ValueKind::Password => {
            let is_directory = kind == ValueKind::Password && is_place(trimmed) && Words::parse(key).concat() == b"pwd";
            let is_none = !value.is_quoted && is_no_value(text, value, key) || is_directory;
            if is_none { None } else { whole }
        }
        ValueKind::Authorization => authorization(part, value),
        ValueKind::Cookie => (value.is_quoted || part.contains(&b'=')).then_some((value.start, value.end)),
        ValueKind::Weak | ValueKind::Query => {
            let is_secret = looks::is_random(trimmed, 16) && !looks::is_uuid(trimmed)
                || base64::is_name_and_password(trimmed) && trimmed.len() >= 12;
            if is_secret { whole } else { None }
        }
        ValueKind::Code => ((3..=12).contains(&trimmed.len()) && trimmed.iter().all(u8::is_ascii_digit))
            .then_some((value.start, value.end)),
        ValueKind::Session | ValueKind::ToolCall => {
            (value.is_quoted || !is_no_value(text, value, key)).then_some((value.start, value.end))
        }
        ValueKind::Name | ValueKind::Value => None,
    }
}

/// The first bytes of a long value that decide whether it is a secret.
const DECIDES: usize = 512;

/// Like [`secret_part`], for a value that continues up to a mark, which may be far away. Searches for the mark
/// only if the first bytes show that the value is a secret.
pub(crate) fn secret_up_to(
    text: &[u8],
    start: usize,
    end: impl Fn(&[u8]) -> usize,
    kind: ValueKind,
    key: &[u8],
) -> Option<(usize, usize)> {
    let near = &text[..text.len().min(start + DECIDES)];
    let near_end = end(near);
    let beginning = Value { start, end: near_end, next: near_end, is_quoted: true };
    let (from, _) = secret_part(near, beginning, kind, key)?;
    Some((from, end(text).max(from)))
}

/// Whether the value is a working directory, as in the shell variable `PWD`.
fn is_place(value: &[u8]) -> bool {
    matches!(value, [b'/' | b'~' | b'.', ..] | [_, b':', b'\\' | b'/', ..])
}

/// Returns the credentials after the scheme. The scheme is not hidden.
fn authorization(part: &[u8], value: Value) -> Option<(usize, usize)> {
    let scheme =
        part.iter().take(24).take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')).count();
    let rest = &part[scheme..];
    let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'+')).count();
    let has_scheme = scheme > 0
        && spaces > 0
        && !rest[spaces..].trim_ascii().is_empty()
        && part[..scheme].iter().any(u8::is_ascii_alphabetic);
    let start = if has_scheme { scheme + spaces } else { 0 };
    let credentials = part[start..].trim_ascii();
    let is_prose = !value.is_quoted
        && (is_state(part)
            || !has_scheme && credentials.len() < 8
            || credentials.split(|byte| *byte == b' ').count() > 2 && !credentials.contains(&b'='));
    (!is_prose && !credentials.is_empty() && !is_reference(credentials)).then_some((value.start + start, value.end))
}
