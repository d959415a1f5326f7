//! Masks the worker's secrets in servers' answers.
//!
//! A server may return what it received, in an error, an echo or a URL. Exact occurrences are masked, also in URL
//! and JSON encodings. A value of less than six characters can't be distinguished from other text and is not
//! masked.

use std::borrow::Cow;
use std::collections::BTreeMap;

use openskill_proto::json::end_of_string;
use openskill_proto::uri_template::percent_encode;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::config::Variables;
use crate::manifest::http::Http;

/// The minimum length of a value that is masked, in characters.
const MIN_CHARS: usize = 6;

/// Replaces each secret.
const MASK: &str = "[secret]";

/// The secrets of one skill.
#[derive(Default)]
pub(crate) struct Secrets {
    values: BTreeMap<String, String>,
    /// All encodings of each value, longest first, because one may contain another.
    forms: Vec<String>,
}

impl Secrets {
    /// Reads a skill's secrets from the worker's variables.
    ///
    /// # Errors
    /// Returns the name of a variable that is unset, is empty, or can't be sent in a header.
    pub(super) fn read(http: &Http, variables: &Variables) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for name in &http.variables {
            let value = variables.get(name).unwrap_or_default();
            if value.is_empty() {
                return Err(format!("the variable {name}, which its manifest names in env, is not set for the worker"));
            }
            if value.chars().any(char::is_control) {
                return Err(format!("the worker's variable {name} contains a line break or another control character"));
            }
            values.insert(name.clone(), value);
        }
        Ok(Self::new(values))
    }

    /// Reads the values of these variables. Skips unset ones.
    pub(crate) fn for_variables<'a>(names: impl Iterator<Item = &'a str>, variables: &Variables) -> Self {
        Self::new(names.filter_map(|name| Some((name.to_owned(), variables.get(name)?))).collect())
    }

    fn new(values: BTreeMap<String, String>) -> Self {
        let mut forms: Vec<String> =
            values.values().filter(|it| it.chars().count() >= MIN_CHARS).flat_map(|it| spellings(it)).collect();
        forms.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        forms.dedup();
        Self { values, forms }
    }

    /// Creates secrets with this one value, for tests.
    #[cfg(test)]
    pub(crate) fn made_of(value: &str) -> Self {
        Self::new(BTreeMap::from([("TOKEN".to_owned(), value.to_owned())]))
    }

    /// Returns a variable's value, or an empty string if it is unknown.
    pub(super) fn get(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// Masks secrets in text.
    pub(crate) fn scrub_text(&self, mut text: String) -> String {
        for form in &self.forms {
            if text.contains(form) {
                text = text.replace(form, MASK);
            }
        }
        text
    }

    /// Masks secrets in bytes.
    pub(crate) fn scrub_bytes(&self, bytes: bytes::Bytes) -> bytes::Bytes {
        if self.forms.is_empty() {
            return bytes;
        }
        // Latin-1 maps each byte to one character, so no byte is lost.
        let text = self.forms.iter().fold(latin(&bytes), |text, form| text.replace(&latin(form.as_bytes()), MASK));
        text.chars().map(|it| it as u8).collect::<Vec<u8>>().into()
    }

    /// Masks secrets in JSON text, and leaves everything else unchanged.
    pub(crate) fn scrub_json(&self, text: String) -> String {
        let hidden = || text.contains("\\u") || text.contains("\\/");
        if self.forms.is_empty() || !(hidden() || self.is_in(&text)) {
            return text;
        }
        match serde_json::from_str::<IgnoredAny>(&text) {
            Ok(_) => self.scrub_tokens(&text),
            Err(_) => self.scrub_text(text),
        }
    }

    /// Masks strings and numbers in JSON text one by one. Parsing all of it into values could take a hundred times
    /// as much memory.
    fn scrub_tokens(&self, text: &str) -> String {
        let mut scrubbed = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let is_string = rest.starts_with('"');
            let end = match is_string {
                true => end_of_string(rest.as_bytes(), 0),
                false => rest.find(|it: char| "\"[]{},: \t\r\n".contains(it)).unwrap_or(rest.len()).max(1),
            };
            let (token, after) = rest.split_at(end);
            match is_string.then(|| serde_json::from_str::<Cow<'_, str>>(token)) {
                Some(Ok(string)) if self.is_in(&string) => {
                    scrubbed.push_str(&Value::from(self.scrub_text(string.into_owned())).to_string());
                }
                // Half of a surrogate pair can't be decoded.
                Some(Err(_)) => scrubbed.push_str(&self.scrub_text(token.to_owned())),
                None if self.is_in(token) => scrubbed.push_str(&Value::from(MASK).to_string()),
                _ => scrubbed.push_str(token),
            }
            rest = after;
        }
        scrubbed
    }

    fn is_in(&self, text: &str) -> bool {
        self.forms.iter().any(|it| text.contains(it))
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Returns the encodings of a value: plain, in JSON, in a form, and in a path.
fn spellings(value: &str) -> Vec<String> {
    let json = Value::String(value.to_owned()).to_string();
    let form: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
    let path = percent_encode(value);
    let lower = |text: &str| text.split('%').enumerate().map(lower_escape).collect::<String>();
    let mut forms = vec![value.to_owned(), json[1..json.len() - 1].to_owned(), lower(&form), lower(&path), form, path];
    forms.retain(|it| it.len() >= MIN_CHARS);
    forms
}

/// Writes the two hexadecimal digits after a `%` in lower case.
fn lower_escape((index, piece): (usize, &str)) -> String {
    match piece.get(..2) {
        Some(digits) if index > 0 => format!("%{}{}", digits.to_ascii_lowercase(), &piece[2..]),
        _ => piece.to_owned(),
    }
}

fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|it| char::from(*it)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[(&str, &str)]) -> Secrets {
        Secrets::new(values.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect())
    }

    #[test]
    fn a_secret_is_replaced_wherever_it_stands() {
        let secrets = secrets(&[("TOKEN", "s3cr3t/tok\"en")]);
        for echoed in [
            r#"{"a": "Bearer s3cr3t/tok\"en!"}"#,
            r#"{"s3cr3t\/tok\"en": [1]}"#,
            r#"["\u00733cr3t/tok\u0022en"]"#,
            r#"["/path?key=s3cr3t%2Ftok%22en"]"#,
            r#"["/path?key=s3cr3t%2ftok%22en"]"#,
        ] {
            let scrubbed = secrets.scrub_json(echoed.to_owned());
            assert!(scrubbed.contains(MASK) && !scrubbed.contains("3cr3t"), "{echoed}: {scrubbed}");
            serde_json::from_str::<Value>(&scrubbed).unwrap();
        }
        assert_eq!(secrets.scrub_text("x s3cr3t/tok\"en y".to_owned()), "x [secret] y");
        assert_eq!(&secrets.scrub_bytes("\u{ff}s3cr3t/tok\"en".into())[..], "\u{ff}[secret]".as_bytes());
    }

    #[test]
    fn a_number_that_is_a_secret_is_replaced_too() {
        let scrubbed = secrets(&[("PIN", "123456789")]).scrub_json(r#"{"pin": 123456789, "n": 12}"#.to_owned());
        assert_eq!(scrubbed, r#"{"pin": "[secret]", "n": 12}"#);
    }

    #[test]
    fn what_holds_no_secret_stays_as_it_is() {
        let text = r#"{"n": 1.00000000000000000001, "t": "\u0041"}"#;
        assert_eq!(secrets(&[("TOKEN", "s3cr3t-token")]).scrub_json(text.to_owned()), text);
        assert_eq!(secrets(&[("SHORT", "12345")]).scrub_json("[12345]".to_owned()), "[12345]");
    }

    #[test]
    fn a_longer_secret_is_not_left_in_part() {
        let secrets = secrets(&[("A", "abcdef"), ("B", "abcdefghij")]);
        assert_eq!(secrets.scrub_text("abcdefghij abcdef".to_owned()), "[secret] [secret]");
    }
}
