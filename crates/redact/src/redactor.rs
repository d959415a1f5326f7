//! The redactor: compiled rules and the public API.

use std::borrow::Cow;
use std::sync::Arc;

use crate::custom::Custom;
use crate::ids::Ids;
use crate::json;
use crate::judge::secret_part;
use crate::keys::{NameRules, Words, classify};
use crate::layers::Layers;
use crate::rules::{RuleError, Rules};
use crate::scan::Options;
use crate::span::{MASK, Span, has_mask, join, render};
use crate::value::Value;

/// Replaces secrets with `***`. Cheap to clone. Runs in time linear in the length of the text.
#[derive(Clone, Debug)]
pub struct Redactor {
    /// `None` if redaction is off.
    compiled: Option<Arc<Compiled>>,
}

#[derive(Debug)]
struct Compiled {
    options: Options,
    custom: Custom,
}

impl Default for Redactor {
    /// Creates a redactor with the built-in rules.
    fn default() -> Self {
        Self::compile(&Rules::default(), Custom::default())
    }
}

impl Redactor {
    /// The replacement of a secret.
    pub const MASK: &'static str = MASK;

    /// Compiles rules.
    ///
    /// # Errors
    /// [`RuleError`]: there are too many literals and tokens.
    pub fn new(rules: Rules) -> Result<Self, RuleError> {
        let custom = Custom::new(&rules.literals, &rules.tokens);
        let too_many = |error| RuleError { line: 0, message: format!("{error}: use fewer literals and tokens") };
        Ok(Self::compile(&rules, custom.map_err(too_many)?))
    }

    fn compile(rules: &Rules, custom: Custom) -> Self {
        let joined =
            |names: &[String]| names.iter().map(|name| Words::parse(name.as_bytes()).concat().to_vec()).collect();
        let (secret, kept) = (joined(&rules.names), joined(&rules.keep));
        let names = NameRules { built_in: !rules.replaces_built_in, secret, kept };
        let ids = Ids::new(rules.id_key.as_deref());
        let options = Options { names, emails: rules.emails, phones: rules.phones, ids };
        Self { compiled: Some(Arc::new(Compiled { options, custom })) }
    }

    /// Creates a redactor that changes nothing.
    pub fn off() -> Self {
        Self { compiled: None }
    }

    /// Whether redaction is on.
    pub fn is_on(&self) -> bool {
        self.compiled.is_some()
    }

    /// Redacts free text: prose, log lines, stderr, URLs, headers, query strings, code. Text that is a JSON
    /// document stays a JSON document.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        replace(Cow::Borrowed(text), self.spans(text))
    }

    /// Returns the spans of free text that need a replacement.
    pub(crate) fn spans(&self, text: &str) -> Vec<Span> {
        match &self.compiled {
            Some(compiled) => compiled.layers(text).text(text.as_bytes(), 0),
            None => Vec::new(),
        }
    }

    /// Redacts a JSON document by names and by values. The rest stays unchanged, byte for byte. Text that is not
    /// JSON is redacted as free text. Bytes that are not UTF-8 become U+FFFD.
    pub fn json<'t>(&self, json: &'t [u8]) -> Cow<'t, str> {
        // Nearly all documents are UTF-8. This check is several times faster than the lossy conversion.
        self.json_text(str::from_utf8(json).map_or_else(|_| String::from_utf8_lossy(json), Cow::Borrowed))
    }

    /// Like [`Self::json`], but takes valid UTF-8, owned or borrowed.
    pub fn json_text<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        let Some(compiled) = &self.compiled else { return text };
        let spans = compiled.layers(&text).json(text.as_bytes(), 0);
        let spans = spans.unwrap_or_else(|| compiled.layers(&text).text(text.as_bytes(), 0));
        replace(text, spans)
    }

    /// Returns the secrets in a JSON document or another text, as written there: the parts that [`Self::json`]
    /// replaces, without ids and other merely private parts.
    pub fn secrets<'t>(&self, json: &'t str) -> Vec<&'t str> {
        let Some(compiled) = &self.compiled else { return Vec::new() };
        let spans = compiled.layers(json).json(json.as_bytes(), 0);
        let mut spans = spans.unwrap_or_else(|| compiled.layers(json).text(json.as_bytes(), 0));
        join(&mut spans);
        let place = |span: &Span| json.floor_char_boundary(span.start)..json.ceil_char_boundary(span.end);
        spans.iter().filter(|span| span.is_secret).map(|span| &json[place(span)]).collect()
    }

    /// Redacts the value of a field, such as a span attribute, by the field's name and by the value's look.
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
                _ => replace(Cow::Borrowed(value), vec![Span::secret(start, end)]),
            },
        }
    }

    /// Whether the name of a field, a header or a question announces a secret. Returns `false` if redaction is
    /// off.
    pub fn names_secret(&self, name: &str) -> bool {
        let is_secret = |names| classify(name.as_bytes(), names).is_some_and(|kind| kind.id().is_none());
        self.compiled.as_ref().is_some_and(|it| is_secret(&it.options.names))
    }

    /// Returns a stable hash of an id, such as `session_3f9c…` with 32 hexadecimal digits, whatever the id looks
    /// like. The same id has the same hash as long as the rules have the same id key. Returns the id unchanged if
    /// redaction is off.
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

fn replace<'t>(text: Cow<'t, str>, mut spans: Vec<Span>) -> Cow<'t, str> {
    if spans.is_empty() {
        return text;
    }
    join(&mut spans);
    Cow::Owned(render(&text, &spans))
}
