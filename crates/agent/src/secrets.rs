//! Secrets entered by users. They are only kept in memory, and replaced with references everywhere else.
//!
//! - `forms`: the encodings of a secret; `json`: replaces values within JSON; `reference`: references and marks; pure

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use openskill_identity::shares::Share;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

mod forms;
mod json;
mod reference;

use forms::Forms;
pub(crate) use reference::reference;
use reference::{KEY, MIN_SOUGHT_BYTES, references};

/// The secrets of a conversation. They are lost when the process ends.
pub(crate) struct Secrets(Mutex<SecretStore>);

struct SecretStore {
    texts: BTreeMap<String, String>,
    /// The encodings of the secrets, each with its replacement.
    forms: Forms,
    /// The share of memory that the secrets use. `None` means that their size is not counted.
    share: Option<Share>,
    used: Instant,
}

impl Default for Secrets {
    fn default() -> Self {
        let (texts, forms) = (BTreeMap::new(), Forms::default());
        Self(Mutex::new(SecretStore { texts, forms, share: None, used: Instant::now() }))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secrets").field(&self.lock().texts.len()).finish()
    }
}

/// The names of referenced secrets that are not in memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing(pub(crate) Vec<String>);

impl Secrets {
    /// Creates a store whose size counts towards `share`.
    pub(crate) fn within_share(share: Share) -> Self {
        let secrets = Self::default();
        secrets.lock().share = Some(share);
        secrets
    }

    /// Collects the values that a schema marks as secret, each given as JSON text. Strings and numbers nested in a
    /// value count as secrets too.
    pub(crate) fn from_marked_values(values: &[String]) -> Self {
        let secrets = Self::default();
        let texts = json::scalars(values);
        // These secrets have no names, so they are all replaced with the same mask.
        let forms = Forms::for_masking(texts.iter().map(String::as_str));
        secrets.lock().forms = forms;
        secrets
    }

    /// Stores a secret under a name. Returns a reference to it as JSON text, or `None` if the share is exhausted.
    pub(crate) fn keep(&self, name: &str, text: String) -> Option<String> {
        let mut store = self.lock();
        // The encodings take several times the size of the secret.
        let bytes = |text: &String| 16 * text.len() + name.len();
        // A secret replaces an earlier one with the same name.
        let (before, after) = (store.texts.get(name).map_or(0, bytes), bytes(&text));
        if store.share.as_mut().is_some_and(|it| !it.resize(it.amount() - before + after)) {
            return None;
        }
        store.texts.insert(name.to_owned(), text);
        let sought = store.texts.iter().filter(|(_, text)| text.len() >= MIN_SOUGHT_BYTES);
        store.forms = Forms::new(sought.map(|(name, text)| (name.as_str(), text.as_str())));
        Some(reference(name))
    }

    /// Returns the secret with this name.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.lock().texts.get(name).cloned()
    }

    /// Returns whether there are no secrets, or they were not used for `time`.
    pub(crate) fn is_idle(&self, time: Duration) -> bool {
        let store = self.0.lock();
        store.texts.is_empty() || store.used.elapsed() > time
    }

    /// Returns the secrets that occur in JSON text.
    pub(crate) fn within(&self, json: &str) -> Vec<String> {
        let is_within = |it: &&String| json.contains(Value::from(it.as_str()).to_string().trim_matches('"'));
        self.lock().texts.values().filter(is_within).cloned().collect()
    }

    /// Returns whether JSON text contains a secret or a reference to one.
    pub(crate) fn are_in(&self, json: &str) -> bool {
        json.contains(KEY) && !references(json).is_empty() || !self.within(json).is_empty()
    }

    /// Replaces every reference in JSON text with its secret. Returns text without references byte for byte.
    ///
    /// # Errors
    /// [`Missing`]: the user must enter these secrets again.
    pub(crate) fn reveal(&self, json: &str) -> Result<String, Missing> {
        if !json.contains(KEY) {
            return Ok(json.to_owned());
        }
        let Ok(Value::Object(_)) = serde_json::from_str(json) else { return Ok(json.to_owned()) };
        let store = self.lock();
        let (mut revealed, mut at, mut missing) = (String::with_capacity(json.len()), 0, BTreeSet::new());
        for (place, name) in references(json) {
            let Some(text) = store.texts.get(&name) else {
                missing.insert(name);
                continue;
            };
            revealed.push_str(&json[at..place.start]);
            revealed.push_str(&Value::from(text.as_str()).to_string());
            at = place.end;
        }
        revealed.push_str(&json[at..]);
        if missing.is_empty() { Ok(revealed) } else { Err(Missing(missing.into_iter().collect())) }
    }

    /// Replaces every secret in a text with a mark, in all known encodings. Valid JSON remains valid.
    pub(crate) fn conceal(&self, text: &str) -> String {
        self.lock().forms.conceal(text)
    }

    /// Like [`Self::conceal`] for a JSON value. The result is valid JSON even if the whole value is a secret.
    pub(crate) fn conceal_value(&self, json: &str) -> String {
        let listed = self.conceal(&format!("[{json}]"));
        let value = listed.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        value.map_or_else(|| self.conceal(json), str::to_owned)
    }

    /// Replaces every JSON string that is a secret with a reference, and all other occurrences of secrets with
    /// marks.
    pub(crate) fn refer(&self, json: &str) -> String {
        self.lock().forms.refer(json)
    }

    /// Returns the number of bytes at the end of a text that may be the beginning of a secret.
    pub(crate) fn begun_at_end(&self, text: &str) -> usize {
        self.lock().forms.begun_at_end(text)
    }

    fn lock(&self) -> MutexGuard<'_, SecretStore> {
        let mut store = self.0.lock();
        store.used = Instant::now();
        store
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_becomes_the_secret_and_the_secret_a_reference() {
        let secrets = Secrets::default();
        assert_eq!(secrets.keep("q1/token", "a \"b\"\n".into()).as_deref(), Some(r#"{"$secret":"q1/token"}"#));
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
    fn references_are_found_in_one_pass_however_many_braces_and_ways_of_writing_there_are() {
        let secrets = Secrets::default();
        secrets.keep("q1/a", "1".into());
        let braces = format!(r#"{{"$secret":"{}"}}"#, "{".repeat(4 << 20));
        assert!(secrets.reveal(&braces).is_ok_and(|it| it == braces) && !secrets.are_in(&braces));
        let written = |name: &str, n: usize| format!("{{\"$secret\":{:n$}\"{name}\"}}", "");
        let listed =
            |name: &str| format!(r#"{{"a":[{}]}}"#, (0..900).map(|n| written(name, n)).collect::<Vec<_>>().join(","));
        let revealed = format!(r#"{{"a":[{}]}}"#, vec![r#""1""#; 900].join(","));
        assert_eq!(secrets.reveal(&listed("q1/a")), Ok(revealed));
        assert_eq!(secrets.reveal(&listed("q1/b")), Err(Missing(vec!["q1/b".into()])));
        let long = format!(r#"{{"$secret":"{}"}}"#, "n".repeat(2000));
        assert_eq!(secrets.reveal(&long), Ok(long.clone()), "no name is that long");
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

    #[test]
    fn a_secret_is_concealed_however_it_is_written() {
        let secrets = Secrets::default();
        secrets.keep("q1/a", "h\u{fc}nter 2/x+y".into());
        secrets.keep("q1/n", "0123456".into());
        secrets.keep("q1/w", "secret".into());
        for text in [
            "h\u{fc}nter 2/x+y",
            r"h\u00fcnter 2/x+y",
            r"h\\u00fcnter 2/x+y",
            r"\u0068\u00fcnter 2\/x+y",
            "h%C3%BCnter%202%2Fx%2By",
            "h%c3%bcnter+2%2fx%2by",
            "aMO8bnRlciAyL3greQ==",
            "user aMO8bnRlciAyL3greQ end",
            "Basic dXNlcjpow7xudGVyIDIveCt5",
            "68c3bc6e74657220322f782b79",
        ] {
            let concealed = secrets.conceal(text);
            assert!(concealed.contains("[secret q1/a]"), "{text}: {concealed}");
            assert_eq!(secrets.conceal(&concealed), concealed, "a mark is no secret");
        }
        // JSON stays valid JSON, and a number becomes a string.
        let json = secrets.conceal(r#"{"n":123456,"m":"0123456","list":["{\"a\":\"0123456\"}"],"k":1234567}"#);
        let value: Value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
        assert_eq!(value["n"], "[secret q1/n]");
        assert_eq!((&value["m"], &value["k"]), (&value["n"], &Value::from(1_234_567)));
        assert_eq!(value["list"][0], r#"{"a":"[secret q1/n]"}"#);
        secrets.keep("secret/token", "short lived".into());
        assert_eq!(secrets.refer(r#"{"$secret":"0123456"}"#), r#"{"$secret":{"$secret":"q1/n"}}"#, "it is no name");
        let reference = r#"{"a":{"$secret":"secret/token"},"secret":1}"#;
        assert_eq!(secrets.refer(reference), r#"{"a":{"$secret":"secret/token"},"[secret q1/w]":1}"#);
    }

    #[test]
    fn secrets_that_exceed_a_share_are_refused() {
        let pool = openskill_identity::shares::Pool::new(1000);
        let secrets = Secrets::within_share(pool.share("ada"));
        assert!(secrets.keep("q1/a", "x".repeat(10)).is_some() && secrets.keep("q1/b", "x".repeat(100)).is_none());
        let used = pool.in_use();
        for length in [40, 1, 10] {
            assert!(secrets.keep("q1/a", "x".repeat(length)).is_some(), "it is given again");
        }
        assert_eq!(pool.in_use(), used);
        drop(secrets);
        assert_eq!(pool.in_use(), 0);
    }
}
