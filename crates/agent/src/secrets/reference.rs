//! The placeholders for a secret: references in JSON, and marks in text.

use std::ops::Range;

use serde_json::Value;

/// The key of a reference, as in `{"$secret": "q1/token"}`.
pub(super) const KEY: &str = "$secret";

/// The maximum length of a reference in JSON text, in bytes.
const MAX_REFERENCE_BYTES: usize = 1 << 10;

/// The minimum length of a secret to search for in other texts, in bytes. Shorter secrets would match by accident.
pub(super) const MIN_SOUGHT_BYTES: usize = 4;

/// Formats a reference to a secret as JSON text.
pub(crate) fn reference(name: &str) -> String {
    serde_json::json!({ KEY: name }).to_string()
}

/// Returns the mark that replaces a secret within other text.
pub(super) fn mark(name: &str) -> String {
    format!("[secret {name}]")
}

/// Finds the references in JSON text, in order. Returns their ranges and names. Takes linear time even if the text
/// has many braces.
pub(super) fn references(json: &str) -> Vec<(Range<usize>, String)> {
    let (mut found, mut open) = (Vec::new(), None);
    for (at, brace) in json.match_indices(['{', '}']) {
        if brace == "{" {
            // Names contain no braces, so only the last opening brace before a closing brace can begin a
            // reference.
            open = Some(at);
        } else if let Some(start) = open.take()
            && let Some(name) = name(&json[start..=at])
        {
            found.push((start..at + 1, name));
        }
    }
    found
}

/// Returns the name in a JSON object if the object is a reference.
fn name(written: &str) -> Option<String> {
    if written.len() > MAX_REFERENCE_BYTES {
        return None;
    }
    match serde_json::from_str::<Value>(written).ok()? {
        Value::Object(mut fields) if fields.len() == 1 => match fields.remove(KEY)? {
            Value::String(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}
