//! Secrets that users gave: in memory only, and by reference everywhere else.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// The key of a reference, as in `{"$secret": "q1/token"}`.
const KEY: &str = "$secret";

/// The shortest secret that is looked for in other texts. Shorter ones are everywhere.
const MIN_SOUGHT_BYTES: usize = 4;

/// The secrets of one conversation. Lost when the process ends.
#[derive(Default)]
pub(crate) struct Secrets(Mutex<BTreeMap<String, String>>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secrets").field(&self.all().len()).finish()
    }
}

/// References whose secrets are not in memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing(pub(crate) Vec<String>);

impl Secrets {
    /// Keeps a secret under a name, and returns the reference to it, as JSON text.
    pub(crate) fn keep(&self, name: &str, text: String) -> String {
        self.all().insert(name.to_owned(), text);
        reference(name)
    }

    /// The secret of a reference.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.all().get(name).cloned()
    }

    /// The secrets that a JSON text holds.
    pub(crate) fn within(&self, json: &str) -> Vec<String> {
        let is_within = |it: &&String| json.contains(Value::from(it.as_str()).to_string().trim_matches('"'));
        self.all().values().filter(is_within).cloned().collect()
    }

    /// Whether JSON text holds a secret, or a reference to one.
    pub(crate) fn are_in(&self, json: &str) -> bool {
        json.contains(KEY) && !references(json).is_empty() || !self.within(json).is_empty()
    }

    /// JSON text with every reference replaced by its secret. Text without references comes back byte for byte.
    ///
    /// # Errors
    /// [`Missing`]: the user has to give these again.
    pub(crate) fn reveal(&self, json: &str) -> Result<String, Missing> {
        if !json.contains(KEY) {
            return Ok(json.to_owned());
        }
        let Ok(Value::Object(_)) = serde_json::from_str(json) else { return Ok(json.to_owned()) };
        let secrets = self.all();
        let (mut revealed, mut missing) = (json.to_owned(), Vec::new());
        for (written, name) in references(json) {
            match secrets.get(&name) {
                Some(text) => revealed = revealed.replace(&written, &Value::from(text.as_str()).to_string()),
                None => missing.push(name),
            }
        }
        if missing.is_empty() { Ok(revealed) } else { Err(Missing(missing)) }
    }

    /// Text with every secret replaced by a mark, however JSON escapes it. `in_json`: the mark is the reference where the
    /// secret is a whole JSON string.
    pub(crate) fn conceal(&self, text: &str) -> String {
        let mut concealed = text.to_owned();
        for (name, secret) in self.all().iter().filter(|(_, secret)| secret.len() >= MIN_SOUGHT_BYTES) {
            let quoted = Value::from(secret.as_str()).to_string();
            concealed = concealed.replace(&quoted, &Value::from(mark(name)).to_string());
            concealed = concealed.replace(quoted.trim_matches('"'), &mark(name));
            concealed = concealed.replace(secret.as_str(), &mark(name));
        }
        concealed
    }

    /// JSON text with every secret that is a whole string replaced by its reference, and every other mention by a mark.
    pub(crate) fn refer(&self, json: &str) -> String {
        let mut referred = json.to_owned();
        for (name, secret) in self.all().iter().filter(|(_, secret)| !secret.is_empty()) {
            let quoted = Value::from(secret.as_str()).to_string();
            if secret.len() >= MIN_SOUGHT_BYTES {
                referred = referred.replace(&quoted, &reference(name));
            }
        }
        self.conceal(&referred)
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reference to a secret, as JSON text.
pub(crate) fn reference(name: &str) -> String {
    serde_json::json!({ KEY: name }).to_string()
}

fn mark(name: &str) -> String {
    format!("[secret {name}]")
}

/// The references in JSON text: as they are written, and the names.
fn references(json: &str) -> Vec<(String, String)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_becomes_the_secret_and_the_secret_a_reference() {
        let secrets = Secrets::default();
        assert_eq!(secrets.keep("q1/token", "a \"b\"\n".into()), r#"{"$secret":"q1/token"}"#);
        let json = r#"{"n": 12345678901234567890123, "token": { "$secret" : "q1/token" }}"#;
        let revealed = secrets.reveal(json).unwrap_or_default();
        assert_eq!(revealed, r#"{"n": 12345678901234567890123, "token": "a \"b\"\n"}"#);
        assert_eq!(secrets.refer(&revealed), r#"{"n": 12345678901234567890123, "token": {"$secret":"q1/token"}}"#);
    }

    #[test]
    fn a_secret_that_is_not_in_memory_is_named() {
        let missing = Secrets::default().reveal(r#"{"a": {"$secret": "q1/a"}}"#);
        assert_eq!(missing, Err(Missing(vec!["q1/a".into()])));
    }

    #[test]
    fn a_secret_is_concealed_within_other_text_and_escaped() {
        let secrets = Secrets::default();
        secrets.keep("q1/a", "line\nbreak".into());
        secrets.keep("q1/b", "xyz".into());
        assert_eq!(
            secrets.conceal("got line\nbreak and \"line\\nbreak!\" xyz"),
            "got [secret q1/a] and \"[secret q1/a]!\" xyz"
        );
    }
}
