//! What stands for a secret: a reference in JSON, and a mark in text.

use std::ops::Range;

use serde_json::Value;

/// The key of a reference, as in `{"$secret": "q1/token"}`.
pub(super) const KEY: &str = "$secret";

/// The longest reference, as it is written.
const MAX_REFERENCE_BYTES: usize = 1 << 10;

/// The shortest secret that is looked for in other texts. Shorter ones are everywhere.
pub(super) const MIN_SOUGHT_BYTES: usize = 4;

/// A reference to a secret, as JSON text.
pub(crate) fn reference(name: &str) -> String {
    serde_json::json!({ KEY: name }).to_string()
}

/// What is written in place of a secret within other text.
pub(super) fn mark(name: &str) -> String {
    format!("[secret {name}]")
}

/// The references in JSON text, in order: where each stands, and its name. Takes time in proportion to the text, however many
/// braces that has.
pub(super) fn references(json: &str) -> Vec<(Range<usize>, String)> {
    let (mut found, mut open) = (Vec::new(), None);
    for (at, brace) in json.match_indices(['{', '}']) {
        if brace == "{" {
            // A name has no brace: only the last one before the end can begin a reference.
            open = Some(at);
        } else if let Some(start) = open.take()
            && let Some(name) = name(&json[start..=at])
        {
            found.push((start..at + 1, name));
        }
    }
    found
}

/// The name in a JSON object, if that is a reference.
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
