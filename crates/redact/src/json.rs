//! A walk over a JSON document: names and values, at any depth. Everything is told by its place in the text. Pure.

use std::borrow::Cow;

use crate::escapes::{self, Escapes};
use crate::judge::secret_part;
use crate::keys::{Kind, Names, classify, may_matter};
use crate::placeholder::is_reference;
use crate::scan::Options;
use crate::span::{Span, has_mask, join};
use crate::value::Value;
use crate::values::cards;

/// How deep a document may be. A deeper one is looked through as text.
const DEEPEST: usize = 512;
/// How long a flag may be, with its escapes.
const LONGEST_FLAG: usize = 128;

/// Looks through the text of a string, which is decoded, and says what is secret in it.
pub(crate) type Leaf<'l> = &'l mut dyn FnMut(&[u8]) -> Vec<Span>;

/// What is known of an object or a list.
#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    is_object: bool,
    /// What the current name says.
    kind: Option<Kind>,
    /// Whether everything in it is secret.
    is_hidden: bool,
    /// Within a secret: whether the current name says something about it, and not what it is.
    is_about: bool,
    /// Whether it has the name of a secret, as `{"name": "TOKEN", "value": "x"}`, and where its value is.
    names_secret: bool,
    value: Option<(usize, usize)>,
}

struct Walk<'w> {
    text: &'w [u8],
    at: usize,
    options: &'w Options,
    spans: Vec<Span>,
    frames: Vec<Frame>,
    leaf: Leaf<'w>,
}

/// What is secret in a document, or none if the text is no JSON.
pub(crate) fn walk(text: &[u8], options: &Options, leaf: Leaf<'_>) -> Option<Vec<Span>> {
    let mut walk = Walk { text, at: 0, options, spans: Vec::new(), frames: Vec::new(), leaf };
    walk.frames.push(Frame::default());
    walk.value()?;
    while walk.frames.len() > 1 {
        walk.member()?;
    }
    walk.spaces();
    if walk.at < text.len() {
        return None;
    }
    join(&mut walk.spans);
    Some(walk.spans)
}

/// What the name of a field says about its value.
pub(crate) fn kind(name: &[u8], names: &Names) -> Option<Kind> {
    if !may_matter(name) && !names.is_extended() && name.is_ascii() {
        return None;
    }
    match classify(name, names)? {
        Kind::Query if name.eq_ignore_ascii_case(b"key") => Some(Kind::Name),
        Kind::Query => None,
        kind => Some(kind),
    }
}

/// Names within a secret that say something about it: a schema, or the attributes of a cookie.
fn is_about_secret(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 22] = [
        b"$ref",
        b"additionalProperties",
        b"description",
        b"domain",
        b"enum",
        b"examples",
        b"expires",
        b"format",
        b"httpOnly",
        b"items",
        b"kind",
        b"maxLength",
        b"minLength",
        b"name",
        b"path",
        b"pattern",
        b"properties",
        b"required",
        b"sameSite",
        b"secure",
        b"title",
        b"type",
    ];
    NAMES.binary_search(&name).is_ok()
}

impl Walk<'_> {
    fn spaces(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(is_there);
        is_there
    }

    /// The frame of what is read: there always is one.
    fn frame(&mut self) -> Option<&mut Frame> {
        self.frames.last_mut()
    }

    /// Reads the next member of the innermost object or list, or its end.
    fn member(&mut self) -> Option<()> {
        self.spaces();
        let frame = *self.frame()?;
        if self.take(if frame.is_object { b'}' } else { b']' }) {
            self.frames.pop();
            return Some(());
        }
        if !self.take(b',') {
            return None;
        }
        self.spaces();
        self.entry(frame.is_object)
    }

    /// Reads a name, if there is one, and a value.
    fn entry(&mut self, is_object: bool) -> Option<()> {
        if is_object {
            self.name()?;
            self.spaces();
            if !self.take(b':') {
                return None;
            }
        }
        self.value()
    }

    /// Reads a name, and what it says about the value after it.
    fn name(&mut self) -> Option<()> {
        let (start, end) = self.string()?;
        let name = decoded(&self.text[start..end]);
        let kind = self.kind(&name);
        if name.len() >= 12 && kind.is_none() {
            self.look(start, end);
        }
        let frame = self.frames.last_mut()?;
        frame.kind = kind;
        frame.is_about = frame.is_hidden && is_about_secret(&name);
        Some(())
    }

    fn kind(&self, name: &[u8]) -> Option<Kind> {
        kind(name, &self.options.names)
    }

    fn value(&mut self) -> Option<()> {
        self.spaces();
        match self.text.get(self.at)? {
            b'{' => self.open(true),
            b'[' => self.open(false),
            b'"' => {
                let (start, end) = self.string()?;
                self.text_value(start, end);
                self.flag(start, end);
                Some(())
            }
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => None,
        }
    }

    fn open(&mut self, is_object: bool) -> Option<()> {
        self.at += 1;
        if self.frames.len() >= DEEPEST {
            return None;
        }
        let parent = *self.frame()?;
        let is_certain = parent.kind.is_some_and(Kind::is_certain);
        let is_hidden = (parent.is_hidden || is_certain) && !parent.is_about;
        self.frames.push(Frame { is_object, is_hidden, ..Frame::default() });
        self.spaces();
        // An empty one ends here; after that every member but the first follows a comma.
        if self.take(if is_object { b'}' } else { b']' }) {
            self.frames.pop();
            return Some(());
        }
        self.entry(is_object)
    }

    fn literal(&mut self, word: &[u8]) -> Option<()> {
        let start = self.at;
        self.at += word.len();
        self.text[start..].starts_with(word).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        let start = self.at;
        let belongs = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        self.at += self.text[start..].iter().take_while(belongs).count();
        let digits = &self.text[start..self.at];
        let length = digits.len();
        if !digits.last()?.is_ascii_digit() {
            return None;
        }
        let frame = *self.frame()?;
        let is_hidden = match frame.kind {
            _ if frame.is_hidden && !frame.is_about => true,
            Some(Kind::Secret | Kind::Password | Kind::Authorization) => true,
            Some(Kind::Code) => (3..=8).contains(&length),
            _ => {
                self.options.names.built_in
                    && (12..=19).contains(&length)
                    && cards::find(self.text, start, start) == Some(self.at)
            }
        };
        if is_hidden {
            self.spans.push(Span::secret(start, self.at).number());
        } else if let Some(id) = frame.kind.and_then(Kind::id) {
            let hash = self.options.ids.hash(id, digits);
            self.spans.push(Span::id(start, self.at, hash).number());
        }
        Some(())
    }

    /// Reads a string: where its text begins and ends.
    fn string(&mut self) -> Option<(usize, usize)> {
        if !self.take(b'"') {
            return None;
        }
        let start = self.at;
        loop {
            let found = self.at + memchr::memchr2(b'"', b'\\', self.text.get(self.at..)?)?;
            if self.text[found] == b'"' {
                self.at = found + 1;
                return Some((start, found));
            }
            self.at = found + 2;
        }
    }

    /// A string that is a value.
    fn text_value(&mut self, start: usize, end: usize) {
        let Some(frame) = self.frames.last().copied() else { return };
        let raw = &self.text[start..end];
        if frame.is_hidden && !frame.is_about {
            if !raw.is_empty() && !is_reference(raw) {
                self.spans.push(Span::secret(start, end));
            }
            return;
        }
        match frame.kind {
            None => self.look(start, end),
            Some(Kind::Name) => self.named(start, end),
            Some(Kind::Value) if frame.names_secret => self.spans.push(Span::secret(start, end)),
            Some(Kind::Value) => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.value = Some((start, end));
                }
                self.look(start, end);
            }
            Some(kind) => self.keyed(start, end, kind),
        }
    }

    /// After a flag such as `--password` in a list of arguments, the next one is its value.
    fn flag(&mut self, start: usize, end: usize) {
        let raw = &self.text[start..end];
        let may_be = raw.len() < LONGEST_FLAG && matches!(raw.first(), Some(b'-' | b'\\'));
        let flag = if may_be { decoded(raw) } else { Cow::Borrowed(&b""[..]) };
        let is_certain = flag.starts_with(b"--") && self.kind(&flag).is_some_and(Kind::is_certain);
        if let Some(frame) = self.frames.last_mut().filter(|frame| !frame.is_object) {
            frame.kind = is_certain.then_some(Kind::Secret);
        }
    }

    /// The name of something whose value stands beside it, before or after.
    fn named(&mut self, start: usize, end: usize) {
        let kind = self.kind(&decoded(&self.text[start..end]));
        let Some(frame) = self.frames.last_mut() else { return };
        if kind.is_some_and(Kind::is_certain) {
            frame.names_secret = true;
            if let Some((start, end)) = frame.value {
                self.spans.push(Span::secret(start, end));
            }
        }
        self.look(start, end);
    }

    /// The value of a name that says something.
    fn keyed(&mut self, start: usize, end: usize, kind: Kind) {
        let raw = &self.text[start..end];
        let text = decoded(raw);
        let value = Value { start: 0, end: text.len(), next: text.len(), is_quoted: true };
        let Some((from, to)) = secret_part(&text, value, kind, b"") else {
            return self.look(start, end);
        };
        if let Some(id) = kind.id() {
            let is_whole = !has_mask(&text);
            let span = if is_whole {
                Span::id(start, end, self.options.ids.hash(id, &text))
            } else {
                Span::private(start, end)
            };
            self.spans.push(span);
            return;
        }
        let mut spans = [Span::secret(from, to)];
        if text.len() != raw.len() {
            escapes::translate(raw, Escapes::Json, &mut spans);
        }
        self.spans.extend(spans.into_iter().map(|span| moved(span, start)));
    }

    /// Looks through the text of a string.
    fn look(&mut self, start: usize, end: usize) {
        let raw = &self.text[start..end];
        let text = decoded(raw);
        let mut spans = (self.leaf)(&text);
        if text.len() != raw.len() {
            escapes::translate(raw, Escapes::Json, &mut spans);
        }
        self.spans.extend(spans.into_iter().map(|span| moved(span, start)));
    }
}

/// What a string of JSON stands for: it is shorter if it has escapes.
fn decoded(raw: &[u8]) -> Cow<'_, [u8]> {
    if raw.contains(&b'\\') { Cow::Owned(escapes::decode(raw, Escapes::Json)) } else { Cow::Borrowed(raw) }
}

fn moved(span: Span, by: usize) -> Span {
    Span { start: span.start + by, end: span.end + by, ..span }
}
