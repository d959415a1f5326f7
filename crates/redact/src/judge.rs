//! Which part of a value is the secret, by what its name says. Pure.

use crate::keys::{Kind, Words};
use crate::placeholder::{is_no_value, is_reference, is_state};
use crate::value::Value;
use crate::values::{base64, looks};

/// The part of a value that is secret: from and to, in the text.
pub(crate) fn secret_part(text: &[u8], value: Value, kind: Kind, key: &[u8]) -> Option<(usize, usize)> {
    let part = &text[value.start..value.end];
    let trimmed = part.trim_ascii();
    if trimmed.is_empty() || is_reference(trimmed) {
        return None;
    }
    let whole = Some((value.start, value.end));
    match kind {
        Kind::Secret | Kind::Password => {
            let is_directory = kind == Kind::Password && is_place(trimmed) && Words::of(key).joined() == b"pwd";
            let is_none = !value.is_quoted && is_no_value(text, value, key) || is_directory;
            if is_none { None } else { whole }
        }
        Kind::Authorization => authorization(part, value),
        Kind::Cookie => (value.is_quoted || part.contains(&b'=')).then_some((value.start, value.end)),
        Kind::Weak | Kind::Query => {
            let is_secret = looks::is_random(trimmed, 16) && !looks::is_uuid(trimmed)
                || base64::is_name_and_password(trimmed) && trimmed.len() >= 12;
            if is_secret { whole } else { None }
        }
        Kind::Code => ((3..=12).contains(&trimmed.len()) && trimmed.iter().all(u8::is_ascii_digit))
            .then_some((value.start, value.end)),
        Kind::Session | Kind::ToolCall => {
            (value.is_quoted || !is_no_value(text, value, key)).then_some((value.start, value.end))
        }
        Kind::Name | Kind::Value => None,
    }
}

/// How much decides about a value whose end may be far.
const DECIDES: usize = 512;

/// The same for a value that goes on up to a mark, which may be far. Its beginning decides, and what was decided is hidden to
/// its end: no text is searched for the end of a value that is none.
pub(crate) fn secret_up_to(
    text: &[u8],
    start: usize,
    end: impl Fn(&[u8]) -> usize,
    kind: Kind,
    key: &[u8],
) -> Option<(usize, usize)> {
    let near = &text[..text.len().min(start + DECIDES)];
    let near_end = end(near);
    let beginning = Value { start, end: near_end, next: near_end, is_quoted: true };
    let (from, _) = secret_part(near, beginning, kind, key)?;
    Some((from, end(text).max(from)))
}

/// A working directory: shells call it PWD.
fn is_place(value: &[u8]) -> bool {
    matches!(value, [b'/' | b'~' | b'.', ..] | [_, b':', b'\\' | b'/', ..])
}

/// The credentials after the scheme, which stays.
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
