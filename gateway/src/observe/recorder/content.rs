//! Redacts and truncates text from callers, skills and workers.

use std::borrow::Cow;

use openskill_redact::Redactor;

use super::line::Line;
use super::mask;
use crate::arguments::secrets::{self, MAX_VALUES, SecretValues, Secrets, replace_ranges};

/// The maximum size of arguments, data or details in an event, in bytes.
const MAX_CONTENT_BYTES: usize = 16 * 1024;

/// The maximum size of a message in an event, in bytes.
const MAX_TEXT_BYTES: usize = 4 * 1024;

/// The maximum size of each text in a list, in bytes.
const MAX_ITEM_BYTES: usize = 512;

/// The minimum size, in bytes, at which a value in a repair may be truncated. A truncated one ends with an
/// ellipsis.
const MIN_CUT_BYTES: usize = 256;

/// Redacts the content of one call.
pub(super) struct Content<'a> {
    redactor: &'a Redactor,
    /// The parameters that the skill's schema marks as secret.
    secrets: Option<&'a Secrets>,
    /// Values that are secret because of their names. Errors and results may repeat them without the names.
    values: SecretValues,
    /// Whether some arguments could be parsed. If so, the values of the marked parameters are known.
    has_read: bool,
    /// Whether some arguments contain a secret.
    has_secrets: bool,
}

/// Redacted arguments, or a redacted answer.
pub(super) struct RedactedJson<'a> {
    text: Cow<'a, str>,
    is_redacted: bool,
}

impl<'a> Content<'a> {
    pub(super) fn new(redactor: &'a Redactor, secrets: Option<&'a Secrets>) -> Self {
        let secrets = secrets.filter(|_| redactor.is_on());
        Self { redactor, secrets, values: SecretValues::default(), has_read: false, has_secrets: false }
    }

    /// Adds the caller's secrets, which are masked in everything that is written.
    pub(super) fn know(&mut self, secrets: &[String]) {
        for secret in secrets.iter().filter(|_| self.redactor.is_on()) {
            self.values.add_text(secret);
            self.has_secrets = true;
        }
    }

    /// Adds the secrets in an unknown skill's name, which is text from the caller.
    pub(super) fn know_name(&mut self, name: &str) {
        for part in self.redactor.secrets(name) {
            self.values.add_part(part);
            self.has_secrets = true;
        }
    }

    /// Redacts arguments of the call. Masks their secrets in everything that is written later.
    pub(super) fn learn<'t>(&mut self, json: Cow<'t, str>) -> RedactedJson<'t> {
        let masked = match self.secrets {
            None => json.clone(),
            Some(secrets) => self.mask(&json, secrets),
        };
        // Only relevant if the schema marks secrets.
        self.has_read |= self.secrets.is_some() && secrets::is_json(&json);
        let text = self.redact(&json, masked);
        let is_redacted = text != json;
        self.has_secrets |= is_redacted;
        RedactedJson { text, is_redacted }
    }

    /// Redacts the answer to a question. Values that the question's schema marks as secret are never stored, even
    /// without redaction rules, and are masked everywhere else. `schema` is the question's, or None if it is
    /// unknown.
    pub(super) fn learn_answer(&mut self, json: &str, schema: Option<&str>) -> RedactedJson<'static> {
        let names_secret = |title: &str| self.redactor.names_secret(title);
        let secrets = match schema {
            Some(schema) => Secrets::from_question_schema(schema, names_secret),
            None => Some(Secrets::everything()),
        };
        let masked = match &secrets {
            Some(secrets) => self.mask(&Cow::Borrowed(json), secrets),
            None => Cow::Borrowed(json),
        };
        let text = self.redact(json, masked).into_owned().into();
        RedactedJson { text, is_redacted: false }
    }

    /// Masks the secrets in JSON, and remembers their values. Masks unparsable text as a whole.
    fn mask<'t>(&mut self, json: &Cow<'t, str>, secrets: &Secrets) -> Cow<'t, str> {
        let Some(places) = secrets.places(json) else { return Cow::Borrowed(Secrets::MASKED) };
        for place in &places {
            self.values.add(&json[place.clone()]);
        }
        replace_ranges(json.clone(), &places, |_| Secrets::MASKED)
    }

    /// Redacts JSON by the configured rules.
    fn redact<'t>(&mut self, json: &str, masked: Cow<'t, str>) -> Cow<'t, str> {
        let shown = match self.redactor.json_text(Cow::Borrowed(&masked)) {
            Cow::Owned(shown) if shown != *masked => Cow::Owned(shown),
            _ => return masked,
        };
        self.values.add_masked(json, &shown);
        // A message may quote part of a secret, or omit the name that identifies it.
        self.redactor.secrets(json).into_iter().for_each(|it| self.values.add_part(it));
        shown
    }

    /// Returns why no content of this call may be stored: it may contain secrets that can't be found. None if it
    /// may be stored.
    pub(super) fn why_hidden(&self) -> Option<String> {
        // If some arguments were read, the values of the marked parameters are known.
        if self.secrets.is_some() && !self.has_read {
            return Some("the arguments can't be read, and some parameters are secret".to_owned());
        }
        self.values.are_too_many().then(|| format!("there are more than {MAX_VALUES} secret values"))
    }

    fn is_hidden(&self) -> bool {
        self.why_hidden().is_some()
    }

    /// Writes redacted arguments.
    pub(super) fn arguments(&self, line: &mut Line<'_>, redacted: &RedactedJson<'_>) {
        let text = self.without_values(Cow::Borrowed(&redacted.text));
        write(line, "arguments", &text);
        // Readers who want to repeat the call must know this.
        line.flag_if_set("redacted", redacted.is_redacted || text != redacted.text);
    }

    /// Writes a redacted answer.
    pub(super) fn answer(&self, line: &mut Line<'_>, redacted: &RedactedJson<'_>) {
        write(line, "data", &self.without_values(Cow::Borrowed(&redacted.text)));
    }

    /// Writes another document, which should be JSON.
    pub(super) fn json(&self, line: &mut Line<'_>, key: &str, json: &[u8]) {
        write(line, key, &self.redact_json(json));
    }

    /// Writes a message. Omits an empty one.
    pub(super) fn text(&self, line: &mut Line<'_>, key: &str, text: &str) {
        if !text.is_empty() {
            line.text(key, &self.message(text));
        }
    }

    /// Redacts and truncates a message.
    pub(super) fn message<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.start_of(text, MAX_TEXT_BYTES)
    }

    /// Redacts and truncates one text of a list.
    pub(super) fn item<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.start_of(text, MAX_ITEM_BYTES)
    }

    fn start_of<'t>(&self, text: &'t str, most: usize) -> Cow<'t, str> {
        let shown = self.redact_text(text);
        if shown.len() <= most { shown } else { format!("{}…", start(&shown, most)).into() }
    }

    /// Redacts a message without truncating it.
    pub(super) fn redact_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_hidden() {
            return Cow::Borrowed(Secrets::MARK);
        }
        self.without_cuts(mask::mask_values(self.redactor.text(text), &self.values))
    }

    /// Masks truncated words, which may be part of a secret. Does nothing if no arguments contain secrets.
    fn without_cuts<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        if self.has_secrets && self.redactor.is_on() { mask::mask_cut_words(text) } else { text }
    }

    /// Writes a short value as JSON. Omits an empty one. `path` is its location in the arguments.
    pub(super) fn value(&self, line: &mut Line<'_>, key: &str, path: &str, json: &str) {
        if json.is_empty() {
            return;
        }
        // Redact it at its path, so that its name is considered.
        let placed = secrets::nest_at(path, json);
        let is_secret = self.secrets.is_some_and(|it| it.touches(path))
            || self.may_end_in_secret(path, json)
            || self.redact_json(placed.as_bytes()) != placed;
        if is_secret {
            line.text(key, Secrets::MARK);
        } else if secrets::is_json(json) {
            line.json(key, json);
        } else {
            line.text(key, json);
        }
    }

    /// Whether a value was truncated, possibly within a secret, which would then be unrecognizable. False if no
    /// arguments contain secrets. A value at the root may be more than the arguments: everything that a model wrote
    /// around them.
    fn may_end_in_secret(&self, path: &str, json: &str) -> bool {
        let is_cut = json.len() >= MIN_CUT_BYTES && json.ends_with("…\"");
        is_cut && self.redactor.is_on() && (self.has_secrets || path.is_empty())
    }

    fn redact_json<'t>(&self, json: &'t [u8]) -> Cow<'t, str> {
        if self.is_hidden() {
            return Cow::Borrowed(Secrets::MASKED);
        }
        self.without_cuts(self.without_values(self.redactor.json(json)))
    }

    /// Masks the values of secret parameters, which the rules may miss. JSON stays valid JSON.
    fn without_values<'t>(&self, json: Cow<'t, str>) -> Cow<'t, str> {
        if self.is_hidden() {
            return Cow::Borrowed(Secrets::MASKED);
        }
        mask::mask_values_in_json(json, &self.values)
    }
}

/// Writes a document, which has another key if it is not JSON or was truncated.
fn write(line: &mut Line<'_>, key: &str, shown: &str) {
    let is_cut = shown.len() > MAX_CONTENT_BYTES;
    if !is_cut && secrets::is_json(shown) {
        line.json(key, shown);
    } else {
        line.text(&format!("{key}_text"), start(shown, MAX_CONTENT_BYTES));
    }
    if is_cut {
        line.number(&format!("{key}_bytes"), shown.len() as u64);
        line.flag("cut", true);
    }
}

/// Returns the beginning of a text, at most `most` bytes long.
fn start(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
