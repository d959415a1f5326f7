//! What stands for a secret: a reference in JSON, and a mark in text.

use serde_json::Value;

/// The key of a reference, as in `{"$secret": "q1/token"}`.
pub(super) const KEY: &str = "$secret";

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

/// The references in JSON text: as they are written, and the names.
pub(super) fn references(json: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (at, _) in json.match_indices('{') {
        let rest = &json[at..];
        let Some(end) = rest.find('}') else { break };
        let written = &rest[..=end];
        let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(written) else { continue };
        if fields.len() == 1
            && let Some(Value::String(name)) = fields.get(KEY)
            && !found.iter().any(|(it, _)| it == written)
        {
            found.push((written.to_owned(), name.clone()));
        }
    }
    found
}
