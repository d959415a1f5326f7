//! What callers, skills and workers wrote, made fit to keep: redacted, and not too long.

use std::borrow::Cow;

use openskill_redact::Redactor;

use super::line::Line;
use super::{cut, values};
use crate::arguments::secrets::{self, MAX_VALUES, SecretValues, Secrets, replaced};

/// How many bytes of arguments, data or details an event has at most.
const MAX_CONTENT_BYTES: usize = 16 * 1024;

/// How many bytes of a message an event has at most.
const MAX_TEXT_BYTES: usize = 4 * 1024;

/// How many bytes each text in a list has at most.
const MAX_ITEM_BYTES: usize = 512;

/// From how many bytes on a value of a repair may be a part only, which ends with an ellipsis.
const MIN_CUT_BYTES: usize = 256;

/// The keys under which a document stands.
pub(super) struct Keys {
    /// As JSON.
    json: &'static str,
    /// As text, if it is no JSON, or was cut.
    text: &'static str,
    /// The length of what was cut.
    bytes: &'static str,
}

pub(super) const ARGUMENTS: Keys = Keys { json: "arguments", text: "arguments_text", bytes: "arguments_bytes" };
pub(super) const DATA: Keys = Keys { json: "data", text: "data_text", bytes: "data_bytes" };
pub(super) const DETAILS: Keys = Keys { json: "details", text: "details_text", bytes: "details_bytes" };

/// Redacts the content of one call.
pub(super) struct Content<'a> {
    redactor: &'a Redactor,
    /// What the skill's schema marks as secret.
    secrets: Option<&'a Secrets>,
    /// What is secret for its name. Errors and results may repeat it, under no name.
    values: SecretValues,
    /// Some arguments could be read, so that the values that the schema marks are known.
    has_read: bool,
    /// Some arguments have a secret.
    has_secrets: bool,
}

/// Arguments, redacted.
pub(super) struct Shown<'a> {
    text: Cow<'a, str>,
    is_redacted: bool,
}

impl<'a> Content<'a> {
    pub(super) fn new(redactor: &'a Redactor, secrets: Option<&'a Secrets>) -> Self {
        let secrets = secrets.filter(|_| redactor.is_on());
        Self { redactor, secrets, values: SecretValues::default(), has_read: false, has_secrets: false }
    }

    /// Finds these secrets of the caller's in everything that is written.
    pub(super) fn know(&mut self, secrets: &[String]) {
        for secret in secrets.iter().filter(|_| self.redactor.is_on()) {
            self.values.add_text(secret);
            self.has_secrets = true;
        }
    }

    /// Finds what is secret in the name of a skill that nobody has. It is the caller's text.
    pub(super) fn know_name(&mut self, name: &str) {
        for part in self.redactor.secrets(name) {
            self.values.add_part(part);
            self.has_secrets = true;
        }
    }

    /// Redacts arguments of the call. What they have of secrets is found in everything that is written later.
    pub(super) fn learn<'t>(&mut self, json: Cow<'t, str>) -> Shown<'t> {
        let masked = match self.secrets {
            None => json.clone(),
            Some(secrets) => self.mask(&json, secrets),
        };
        // Nobody asks if nothing is marked.
        self.has_read |= self.secrets.is_some() && secrets::is_json(&json);
        let text = self.redact(&json, masked);
        let is_redacted = text != json;
        self.has_secrets |= is_redacted;
        Shown { text, is_redacted }
    }

    /// Redacts the answer to a question. What the question's schema marks as secret is never kept, also if nothing else is
    /// redacted, and found in everything else. `schema`: of the question; none if nobody knows it.
    pub(super) fn learn_answer(&mut self, json: &str, schema: Option<&str>) -> Shown<'static> {
        let names_secret = |title: &str| self.redactor.names_secret(title);
        let secrets = match schema {
            Some(schema) => Secrets::of_question(schema, names_secret),
            None => Some(Secrets::everything()),
        };
        let masked = match &secrets {
            Some(secrets) => self.mask(&Cow::Borrowed(json), secrets),
            None => Cow::Borrowed(json),
        };
        let text = self.redact(json, masked).into_owned().into();
        Shown { text, is_redacted: false }
    }

    /// JSON without its secrets, whose values are known from now on. Text that can't be read is masked whole.
    fn mask<'t>(&mut self, json: &Cow<'t, str>, secrets: &Secrets) -> Cow<'t, str> {
        let Some(places) = secrets.places(json) else { return Cow::Borrowed(Secrets::MASKED) };
        for place in &places {
            self.values.add(&json[place.clone()]);
        }
        replaced(json.clone(), &places, |_| Secrets::MASKED)
    }

    /// JSON without what the rules say.
    fn redact<'t>(&mut self, json: &str, masked: Cow<'t, str>) -> Cow<'t, str> {
        let shown = match self.redactor.json_text(Cow::Borrowed(&masked)) {
            Cow::Owned(shown) if shown != *masked => Cow::Owned(shown),
            _ => return masked,
        };
        self.values.add_masked(json, &shown);
        // A message may quote them in part, or without the name that told them.
        self.redactor.secrets(json).into_iter().for_each(|it| self.values.add_part(it));
        shown
    }

    /// Why no content of this call is kept, if none is: it may hold secrets that nobody would find in it.
    pub(super) fn why_hidden(&self) -> Option<String> {
        if self.is_unread() {
            return Some("the arguments can not be read, and some parameters are secret".to_owned());
        }
        self.values.are_too_many().then(|| format!("there are more than {MAX_VALUES} secret values"))
    }

    fn is_hidden(&self) -> bool {
        self.values.are_too_many() || self.is_unread()
    }

    fn is_unread(&self) -> bool {
        self.secrets.is_some() && !self.has_read
    }

    /// Writes arguments.
    pub(super) fn arguments(&self, line: &mut Line<'_>, shown: &Shown<'_>) {
        let text = self.without_values(Cow::Borrowed(&shown.text));
        write(line, &ARGUMENTS, &text);
        // A caller that wants to make the call again has to know.
        line.flag_if_set("redacted", shown.is_redacted || text != shown.text);
    }

    /// Writes an answer.
    pub(super) fn answer(&self, line: &mut Line<'_>, shown: &Shown<'_>) {
        write(line, &DATA, &self.without_values(Cow::Borrowed(&shown.text)));
    }

    /// Writes another document, which should be JSON.
    pub(super) fn json(&self, line: &mut Line<'_>, keys: &Keys, json: &[u8]) {
        write(line, keys, &self.redacted(json));
    }

    /// Writes a message, unless it is empty.
    pub(super) fn text(&self, line: &mut Line<'_>, key: &str, text: &str) {
        if !text.is_empty() {
            line.text(key, &self.shown(text));
        }
    }

    /// A message as it is kept.
    pub(super) fn shown<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.start_of(text, MAX_TEXT_BYTES)
    }

    /// A text of a list as it is kept.
    pub(super) fn item<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.start_of(text, MAX_ITEM_BYTES)
    }

    fn start_of<'t>(&self, text: &'t str, most: usize) -> Cow<'t, str> {
        let shown = self.whole(text);
        if shown.len() <= most { shown } else { format!("{}…", start(&shown, most)).into() }
    }

    /// A message without secrets, and as long as it is.
    pub(super) fn whole<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_hidden() {
            return Cow::Borrowed(Secrets::MARK);
        }
        self.without_cuts(values::masked(self.redactor.text(text), &self.values))
    }

    /// What was cut of an argument may be a part of a secret. Arguments without secrets have none to cut.
    fn without_cuts<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        if self.has_secrets && self.redactor.is_on() { cut::masked(text) } else { text }
    }

    /// Writes a short value as JSON, unless it is empty. `path`: where it is in the arguments.
    pub(super) fn value(&self, line: &mut Line<'_>, key: &str, path: &str, json: &str) {
        if json.is_empty() {
            return;
        }
        // In its place, so that its name counts.
        let placed = secrets::placed(path, json);
        let is_secret = self.secrets.is_some_and(|it| it.touches(path))
            || self.may_end_in_secret(path, json)
            || self.redacted(placed.as_bytes()) != placed;
        if is_secret {
            line.text(key, Secrets::MARK);
        } else if secrets::is_json(json) {
            line.json(key, json);
        } else {
            line.text(key, json);
        }
    }

    /// Whether a value was cut, perhaps within a secret, which nobody would recognize then. Arguments without secrets have none
    /// to cut. A value at the root may be more than the arguments: all that a model wrote around them.
    fn may_end_in_secret(&self, path: &str, json: &str) -> bool {
        let is_cut = json.len() >= MIN_CUT_BYTES && json.ends_with("…\"");
        is_cut && self.redactor.is_on() && (self.has_secrets || path.is_empty())
    }

    fn redacted<'t>(&self, json: &'t [u8]) -> Cow<'t, str> {
        if self.is_hidden() {
            return Cow::Borrowed(Secrets::MASKED);
        }
        self.without_cuts(self.without_values(self.redactor.json(json)))
    }

    /// A document without the values of secret parameters, which the rules may not know. It stays JSON if it is.
    fn without_values<'t>(&self, json: Cow<'t, str>) -> Cow<'t, str> {
        if self.is_hidden() {
            return Cow::Borrowed(Secrets::MASKED);
        }
        values::masked_json(json, &self.values)
    }
}

fn write(line: &mut Line<'_>, keys: &Keys, shown: &str) {
    let is_cut = shown.len() > MAX_CONTENT_BYTES;
    if !is_cut && secrets::is_json(shown) {
        line.json(keys.json, shown);
    } else {
        line.text(keys.text, start(shown, MAX_CONTENT_BYTES));
    }
    if is_cut {
        line.number(keys.bytes, shown.len() as u64);
        line.flag("cut", true);
    }
}

/// The beginning of a text.
fn start(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
