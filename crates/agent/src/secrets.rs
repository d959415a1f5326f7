//! Secrets that users gave: in memory only, and by reference everywhere else.
//!
//! - `forms`: how a secret may be written; `json`: within JSON; `reference`: what stands for one; pure

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use openskill_identity::shares::Share;
use serde_json::Value;

mod forms;
mod json;
mod reference;

use forms::Forms;
pub(crate) use reference::reference;
use reference::{KEY, MIN_SOUGHT_BYTES, references};

/// The secrets of one conversation. Lost when the process ends.
pub(crate) struct Secrets(Mutex<Kept>);

struct Kept {
    texts: BTreeMap<String, String>,
    /// How they may be written, and what is written instead.
    forms: Forms,
    /// None: they are not counted.
    share: Option<Share>,
    used: Instant,
}

impl Default for Secrets {
    fn default() -> Self {
        let (texts, forms) = (BTreeMap::new(), Forms::default());
        Self(Mutex::new(Kept { texts, forms, share: None, used: Instant::now() }))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secrets").field(&self.kept().texts.len()).finish()
    }
}

/// References whose secrets are not in memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing(pub(crate) Vec<String>);

impl Secrets {
    /// Secrets whose bytes are counted.
    pub(crate) fn within_share(share: Share) -> Self {
        let secrets = Self::default();
        secrets.kept().share = Some(share);
        secrets
    }

    /// Values that a schema marks as secret, each as JSON text: strings and numbers, also those within them.
    pub(crate) fn marked(values: &[String]) -> Self {
        let secrets = Self::default();
        let texts = json::scalars(values);
        // All have one mark.
        let forms = Forms::masked(texts.iter().map(String::as_str));
        secrets.kept().forms = forms;
        secrets
    }

    /// Keeps a secret under a name, and returns the reference to it, as JSON text. None: there is no room.
    pub(crate) fn keep(&self, name: &str, text: String) -> Option<String> {
        let mut kept = self.kept();
        // With the forms it takes some times its length.
        let bytes = |text: &String| 16 * text.len() + name.len();
        // One that is given again takes the place of the earlier one.
        let (before, after) = (kept.texts.get(name).map_or(0, bytes), bytes(&text));
        if kept.share.as_mut().is_some_and(|it| !it.resize(it.amount() - before + after)) {
            return None;
        }
        kept.texts.insert(name.to_owned(), text);
        let sought = kept.texts.iter().filter(|(_, text)| text.len() >= MIN_SOUGHT_BYTES);
        kept.forms = Forms::new(sought.map(|(name, text)| (name.as_str(), text.as_str())));
        Some(reference(name))
    }

    /// The secret of a reference.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.kept().texts.get(name).cloned()
    }

    /// Whether nothing was done with them for so long, or there are none.
    pub(crate) fn is_idle(&self, time: Duration) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.texts.is_empty() || kept.used.elapsed() > time
    }

    /// The secrets that a JSON text holds.
    pub(crate) fn within(&self, json: &str) -> Vec<String> {
        let is_within = |it: &&String| json.contains(Value::from(it.as_str()).to_string().trim_matches('"'));
        self.kept().texts.values().filter(is_within).cloned().collect()
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
        let kept = self.kept();
        let (mut revealed, mut at, mut missing) = (String::with_capacity(json.len()), 0, BTreeSet::new());
        for (place, name) in references(json) {
            let Some(text) = kept.texts.get(&name) else {
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

    /// Text, JSON or not, with every secret replaced by a mark, however it is written. JSON stays JSON.
    pub(crate) fn conceal(&self, text: &str) -> String {
        self.kept().forms.conceal(text)
    }

    /// The same of any JSON value: a string or a number that is a secret stays JSON, too.
    pub(crate) fn conceal_value(&self, json: &str) -> String {
        let listed = self.conceal(&format!("[{json}]"));
        let value = listed.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        value.map_or_else(|| self.conceal(json), str::to_owned)
    }

    /// JSON text with every secret that is a whole string replaced by its reference, and every other mention by a mark.
    pub(crate) fn refer(&self, json: &str) -> String {
        self.kept().forms.refer(json)
    }

    /// How many bytes at the end of a text may be the beginning of a secret.
    pub(crate) fn begun_at_end(&self, text: &str) -> usize {
        self.kept().forms.begun_at_end(text)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.used = Instant::now();
        kept
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
        // JSON stays JSON, and a number is one as text.
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
        let used = pool.used();
        for length in [40, 1, 10] {
            assert!(secrets.keep("q1/a", "x".repeat(length)).is_some(), "it is given again");
        }
        assert_eq!(pool.used(), used);
        drop(secrets);
        assert_eq!(pool.used(), 0);
    }
}
