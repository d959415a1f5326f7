//! The redactor: a compiled set of rules, and the ways to use it.

use std::borrow::Cow;
use std::sync::Arc;

use crate::custom::Custom;
use crate::ids::Ids;
use crate::json;
use crate::judge::secret_part;
use crate::keys::{Names, Words, classify};
use crate::layers::Layers;
use crate::rules::{RuleError, Rules};
use crate::scan::Options;
use crate::span::{MASK, Span, has_mask, join, render};
use crate::value::Value;

/// Replaces secrets by `***`. Cheap to clone. Its time is linear in the text, whatever the text is.
#[derive(Clone, Debug)]
pub struct Redactor {
    /// None: nothing is redacted.
    compiled: Option<Arc<Compiled>>,
}

#[derive(Debug)]
struct Compiled {
    options: Options,
    custom: Custom,
}

impl Default for Redactor {
    /// With the built-in rules.
    fn default() -> Self {
        let Rules { built_in, emails, phones, .. } = Rules::default();
        let names = Names { built_in, ..Names::default() };
        let options = Options { names, emails, phones, ids: Ids::new(None) };
        Self { compiled: Some(Arc::new(Compiled { options, custom: Custom::default() })) }
    }
}

impl Redactor {
    /// What stands in place of a secret.
    pub const MASK: &'static str = MASK;

    /// Compiles rules.
    ///
    /// # Errors
    /// [`RuleError`]: there are too many literals and tokens.
    pub fn new(rules: Rules) -> Result<Self, RuleError> {
        let joined = |names: &[String]| names.iter().map(|name| Words::of(name.as_bytes()).joined().to_vec()).collect();
        let names = Names { built_in: rules.built_in, secret: joined(&rules.names), kept: joined(&rules.keep) };
        let ids = Ids::new(rules.id_key.as_deref());
        let options = Options { names, emails: rules.emails, phones: rules.phones, ids };
        let custom = Custom::new(&rules.literals, &rules.tokens);
        let too_many = |error| RuleError { line: 0, message: format!("{error}: use fewer literals and tokens") };
        Ok(Self { compiled: Some(Arc::new(Compiled { options, custom: custom.map_err(too_many)? })) })
    }

    /// One that redacts nothing.
    pub fn off() -> Self {
        Self { compiled: None }
    }

    /// Whether it redacts anything.
    pub fn is_on(&self) -> bool {
        self.compiled.is_some()
    }

    /// Redacts free text: prose, lines of logs, stderr, URLs, headers, query strings, code. Text that is a JSON document
    /// stays one.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        replaced(Cow::Borrowed(text), self.spans(text))
    }

    /// What is redacted in free text.
    pub(crate) fn spans(&self, text: &str) -> Vec<Span> {
        match &self.compiled {
            Some(compiled) => compiled.layers(text).text(text.as_bytes(), 0),
            None => Vec::new(),
        }
    }

    /// Redacts a JSON document, by names and by values. Everything else stays as it is, byte for byte. What is no JSON
    /// counts as free text, and bytes that are no UTF-8 as U+FFFD.
    pub fn json<'t>(&self, json: &'t [u8]) -> Cow<'t, str> {
        // Nearly all is UTF-8, and this way is several times as fast.
        self.json_text(str::from_utf8(json).map_or_else(|_| String::from_utf8_lossy(json), Cow::Borrowed))
    }

    /// The same for a document that is known to be UTF-8.
    pub fn json_text<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        let Some(compiled) = &self.compiled else { return text };
        let spans = compiled.layers(&text).json(text.as_bytes(), 0);
        let spans = spans.unwrap_or_else(|| compiled.layers(&text).text(text.as_bytes(), 0));
        replaced(text, spans)
    }

    /// The secrets of a JSON document, or of other text: what [`Self::json`] replaces and is more than private, as it is
    /// written there.
    pub fn secrets<'t>(&self, json: &'t str) -> Vec<&'t str> {
        let Some(compiled) = &self.compiled else { return Vec::new() };
        let spans = compiled.layers(json).json(json.as_bytes(), 0);
        let mut spans = spans.unwrap_or_else(|| compiled.layers(json).text(json.as_bytes(), 0));
        join(&mut spans);
        let place = |span: &Span| json.floor_char_boundary(span.start)..json.ceil_char_boundary(span.end);
        spans.iter().filter(|span| span.is_secret).map(|span| &json[place(span)]).collect()
    }

    /// Redacts the value of a field, such as an attribute of a span, by the field's name and by what it looks like.
    pub fn value<'t>(&self, name: &str, value: &'t str) -> Cow<'t, str> {
        let Some(compiled) = &self.compiled else { return Cow::Borrowed(value) };
        let (options, text) = (&compiled.options, value.as_bytes());
        let whole = Value { start: 0, end: text.len(), next: text.len(), is_quoted: true };
        let kind = json::kind(name.as_bytes(), &options.names);
        let secret = kind.and_then(|kind| Some((kind, secret_part(text, whole, kind, b"")?)));
        match secret {
            None => self.text(value),
            Some((kind, (start, end))) => match kind.id() {
                Some(id) if !has_mask(text) => Cow::Owned(options.ids.hash(id, text)),
                _ => replaced(Cow::Borrowed(value), vec![Span::secret(start, end)]),
            },
        }
    }

    /// Whether a field, a header or a question of this name has a secret as its value. False if redaction is off.
    pub fn names_secret(&self, name: &str) -> bool {
        let is_secret = |names| classify(name.as_bytes(), names).is_some_and(|kind| kind.id().is_none());
        self.compiled.as_ref().is_some_and(|it| is_secret(&it.options.names))
    }

    /// The 128 bits of the hash that [`Self::id`] gives. None if redaction is off.
    pub fn id_bits(&self, kind: &str, id: &str) -> Option<[u8; 16]> {
        self.compiled.as_ref().map(|it| it.options.ids.bits(kind, id.as_bytes()))
    }

    /// A stable hash of an id, such as `session_3f9c…` with 32 hexadecimal digits, whatever the id looks like: the same id
    /// has the same hash, as long as the key of the rules is the same. The id itself if redaction is off.
    pub fn id(&self, kind: &str, id: &str) -> String {
        match &self.compiled {
            Some(compiled) => compiled.options.ids.hash(kind, id.as_bytes()),
            None => id.to_owned(),
        }
    }
}

impl Compiled {
    fn layers(&self, text: &str) -> Layers<'_> {
        Layers::new(&self.options, &self.custom, text.len())
    }
}

fn replaced<'t>(text: Cow<'t, str>, mut spans: Vec<Span>) -> Cow<'t, str> {
    if spans.is_empty() {
        return text;
    }
    join(&mut spans);
    Cow::Owned(render(&text, &spans))
}
