//! Replaces values in JSON text and keeps everything else byte for byte. Does no I/O.

use openskill_proto::json::end_of_string;
use serde_json::Value;
use serde_json::value::RawValue;

use super::reference::KEY;

/// Replaces values in JSON text. `whole` returns the replacement for a complete string or number, as JSON text.
/// `part` removes secrets within a string. `is_name` tells whether a string is the name in a reference, which
/// stays unchanged. Returns `None` if the text is not a JSON object or array.
pub(super) fn replace(
    text: &str,
    is_name: &dyn Fn(&str) -> bool,
    whole: &dyn Fn(&str) -> Option<String>,
    part: &dyn Fn(&str) -> String,
) -> Option<String> {
    if !text.trim_start().starts_with(['{', '[']) || serde_json::from_str::<&RawValue>(text).is_err() {
        return None;
    }
    let (mut out, mut at, mut is_reference) = (String::with_capacity(text.len()), 0, false);
    while let Some(token) = next(text, at) {
        let written = &text[token.clone()];
        out.push_str(&text[at..token.start]);
        at = token.end;
        let is_key = text[at..].trim_start().starts_with(':');
        let string = written.starts_with('"').then(|| serde_json::from_str::<String>(written).ok()).flatten();
        let was_reference = std::mem::replace(&mut is_reference, is_key && string.as_deref() == Some(KEY));
        let instead = match string {
            _ if is_reference => None,
            Some(name) if was_reference && is_name(&name) => None,
            Some(string) if is_key => quote_changed(&string, part),
            Some(string) => whole(&string).or_else(|| quote_changed(&string, part)),
            None => whole(written),
        };
        out.push_str(instead.as_deref().unwrap_or(written));
    }
    out.push_str(&text[at..]);
    Some(out)
}

fn quote_changed(string: &str, part: &dyn Fn(&str) -> String) -> Option<String> {
    let left = part(string);
    (left != string).then(|| Value::from(left).to_string())
}

/// Returns the strings and numbers in these JSON values.
pub(super) fn scalars(values: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for value in values {
        let mut at = 0;
        while let Some(token) = next(value, at) {
            at = token.end;
            let written = &value[token];
            if !["true", "false", "null"].contains(&written) {
                found.push(serde_json::from_str::<String>(written).unwrap_or_else(|_| written.to_owned()));
            }
        }
    }
    found
}

/// Returns the range of the next string or scalar. The JSON must be valid.
fn next(text: &str, at: usize) -> Option<std::ops::Range<usize>> {
    let bytes = text.as_bytes();
    let is_structure = |it: &u8| it.is_ascii_whitespace() || b"{}[],:".contains(it);
    let start = at + bytes[at..].iter().position(|it| !is_structure(it))?;
    if bytes[start] != b'"' {
        let length = bytes[start..].iter().position(is_structure).unwrap_or(bytes.len() - start);
        return Some(start..start + length);
    }
    Some(start..end_of_string(bytes, start))
}
