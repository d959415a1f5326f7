//! What callers, skills and workers wrote, made fit to keep: redacted, and not too long.

use std::borrow::Cow;

use openskill_redact::Redactor;
use serde::de::IgnoredAny;

use super::line::Line;
use crate::arguments::secrets::{self, Secrets};

/// How many bytes of arguments, data or details an event has at most.
const MAX_CONTENT_BYTES: usize = 16 * 1024;

/// How many bytes of a message an event has at most.
const MAX_TEXT_BYTES: usize = 4 * 1024;

/// How many bytes each text in a list has at most.
const MAX_ITEM_BYTES: usize = 512;

/// How many items of a list an event has at most.
pub(super) const MAX_ITEMS: usize = 64;

/// How much of a secret value is enough to recognize it.
const MIN_PART_BYTES: usize = 12;

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
    /// Values in the arguments that are secret for their names. Errors and results may repeat them, under no name.
    values: Vec<String>,
}

/// Arguments, redacted.
pub(super) struct Shown<'a> {
    text: Cow<'a, str>,
    is_redacted: bool,
}

impl<'a> Content<'a> {
    pub(super) fn new(redactor: &'a Redactor, secrets: Option<&'a Secrets>) -> Self {
        Self { redactor, secrets: secrets.filter(|_| redactor.is_on()), values: Vec::new() }
    }

    /// Redacts arguments of the call. What they have of secrets is found in everything that is redacted later.
    pub(super) fn learn<'t>(&mut self, json: &'t [u8]) -> Shown<'t> {
        if let Some(secrets) = self.secrets {
            self.values.extend(secrets.values(json));
        }
        let shown = match self.secrets.map(|it| it.mask(json)) {
            Some(masked) => Cow::Owned(self.redactor.json(&masked).into_owned()),
            None => self.redactor.json(json),
        };
        let is_redacted = shown.as_bytes() != json;
        if is_redacted {
            secrets::masked_values(json, &shown, &mut self.values);
            // A value may hold another one.
            self.values.sort_by_key(|it| std::cmp::Reverse(it.len()));
            self.values.dedup();
        }
        Shown { text: shown, is_redacted }
    }

    /// Writes arguments.
    pub(super) fn arguments(&self, line: &mut Line<'_>, shown: &Shown<'_>) {
        let text = self.without_values(Cow::Borrowed(&shown.text));
        write(line, &ARGUMENTS, &text);
        // A caller that wants to make the call again has to know.
        line.flag_if_set("redacted", shown.is_redacted || text != shown.text);
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
        let shown = self.without_values(self.redactor.text(text));
        if shown.len() <= most { shown } else { format!("{}…", start(&shown, most)).into() }
    }

    /// Writes a short value as JSON, unless it is empty. `path`: where it is in the arguments.
    pub(super) fn value(&self, line: &mut Line<'_>, key: &str, path: &str, json: &str) {
        if json.is_empty() {
            return;
        }
        // In its place, so that its name counts.
        let placed = secrets::placed(path, json);
        let is_secret = self.secrets.is_some_and(|it| it.touches(path)) || self.redacted(placed.as_bytes()) != placed;
        if is_secret {
            line.text(key, Secrets::MARK);
        } else if is_json(json) {
            line.json(key, json);
        } else {
            line.text(key, json);
        }
    }

    fn redacted<'t>(&self, json: &'t [u8]) -> Cow<'t, str> {
        self.without_values(self.redactor.json(json))
    }

    /// Without the values of secret parameters, which the rules may not know.
    fn without_values<'t>(&self, mut text: Cow<'t, str>) -> Cow<'t, str> {
        for value in &self.values {
            if let Some(masked) = without(&text, value) {
                text = masked.into();
            }
        }
        text
    }
}

/// The text without a value, or its beginning: messages quote long values in part. None if it has neither.
fn without(text: &str, value: &str) -> Option<String> {
    let beginning = start(value, MIN_PART_BYTES);
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(beginning) {
        let (before, found) = rest.split_at(at);
        let same = found.chars().zip(value.chars()).take_while(|(one, other)| one == other);
        let length: usize = same.map(|(it, _)| it.len_utf8()).sum();
        out.push_str(before);
        out.push_str(Secrets::MARK);
        rest = &found[length..];
    }
    (rest.len() < text.len()).then(|| out + rest)
}

fn write(line: &mut Line<'_>, keys: &Keys, shown: &str) {
    let is_cut = shown.len() > MAX_CONTENT_BYTES;
    if !is_cut && is_json(shown) {
        line.json(keys.json, shown);
    } else {
        line.text(keys.text, start(shown, MAX_CONTENT_BYTES));
    }
    if is_cut {
        line.number(keys.bytes, shown.len() as u64);
        line.flag("cut", true);
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The beginning of a text.
fn start(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_masked_wherever_it_is_quoted_whole_or_in_part() {
        let value = "correct horse battery staple";
        for (text, expected) in [
            ("it is correct horse battery staple!", Some("it is ***!")),
            ("not \"correct horse batt…\"", Some("not \"***…\"")),
            ("correct horse battery staple, correct horse b", Some("***, ***")),
            ("correct hor", None),
        ] {
            assert_eq!(without(text, value).as_deref(), expected, "{text}");
        }
        assert_eq!(without("pin 1234, 12345", "1234").as_deref(), Some("pin ***, ***5"));
    }
}
