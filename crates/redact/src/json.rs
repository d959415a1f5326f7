//! Walks a JSON document at any depth and reports secrets by their positions in the text. Pure.

use std::borrow::Cow;

use crate::escapes::{self, Escapes};
use crate::judge::secret_part;
use crate::keys::{NameRules, ValueKind, classify, may_matter};
use crate::placeholder::is_reference;
use crate::scan::Options;
use crate::shapes::SHAPES;
use crate::span::{Span, has_mask, join};
use crate::value::Value;
use crate::values::cards;

/// The maximum nesting depth. A deeper document is scanned as plain text.
const DEEPEST: usize = 512;
/// The maximum length of an escaped flag, in bytes.
const LONGEST_FLAG: usize = 128;

/// Finds the secrets in the decoded text of a string.
pub(crate) type Leaf<'l> = &'l mut dyn FnMut(&[u8]) -> Vec<Span>;

/// The state of an object or a list during the walk.
#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    is_object: bool,
    /// Whether the next member is the first one. Every other member follows a comma.
    is_first: bool,
    /// The kind of value that the current name announces.
    kind: Option<ValueKind>,
    /// Whether all its content is secret.
    is_hidden: bool,
    /// Within a secret: whether the current name describes the secret, so that its value is not the secret itself.
    is_about: bool,
    /// Whether an entry names a secret, as in `{"name": "TOKEN", "value": "x"}`, and where its value is.
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

/// Finds the secrets in a document. Returns `None` if the text is not JSON.
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

/// Classifies the value of a field by the field's name.
pub(crate) fn kind(name: &[u8], names: &NameRules) -> Option<ValueKind> {
    if !may_matter(name) && !names.is_extended() && name.is_ascii() {
        return None;
    }
    match classify(name, names)? {
        ValueKind::Query if name.eq_ignore_ascii_case(b"key") => Some(ValueKind::Name),
        ValueKind::Query => None,
        kind => Some(kind),
    }
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

    /// Reads the next member of the innermost object or list, or its end.
    fn member(&mut self) -> Option<()> {
        self.spaces();
        let frame = self.frames.last_mut()?;
        let (is_object, is_first) = (frame.is_object, std::mem::take(&mut frame.is_first));
        if self.take(if is_object { b'}' } else { b']' }) {
            self.frames.pop();
            return Some(());
        }
        if !is_first && !self.take(b',') {
            return None;
        }
        if is_object {
            self.spaces();
            self.name()?;
            self.spaces();
            if !self.take(b':') {
                return None;
            }
        }
        self.value()
    }

    /// Reads a name and classifies the value after it.
    fn name(&mut self) -> Option<()> {
        let (start, end) = self.string()?;
        let name = decode_string(&self.text[start..end]);
        let kind = self.kind(&name);
        if name.len() >= 12 && kind.is_none() {
            self.scan_string(start, end);
        }
        let frame = self.frames.last_mut()?;
        frame.kind = kind;
        frame.is_about = frame.is_hidden && SHAPES.attributes.contains(&*name);
        Some(())
    }

    fn kind(&self, name: &[u8]) -> Option<ValueKind> {
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
        let parent = *self.frames.last()?;
        let is_certain = parent.kind.is_some_and(ValueKind::is_certain);
        let is_hidden = (parent.is_hidden || is_certain) && !parent.is_about;
        self.frames.push(Frame { is_object, is_first: true, is_hidden, ..Frame::default() });
        Some(())
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
        let frame = *self.frames.last()?;
        let is_hidden = match frame.kind {
            _ if frame.is_hidden && !frame.is_about => true,
            Some(ValueKind::Secret | ValueKind::Password | ValueKind::Authorization) => true,
            Some(ValueKind::Code) => (3..=8).contains(&length),
            _ => {
                self.options.names.built_in
                    && (12..=19).contains(&length)
                    && cards::find(self.text, start, start) == Some(self.at)
            }
        };
        if is_hidden {
            self.spans.push(Span::secret(start, self.at).number());
        } else if let Some(id) = frame.kind.and_then(ValueKind::id) {
            let hash = self.options.ids.hash(id, digits);
            self.spans.push(Span::id(start, self.at, hash).number());
        }
        Some(())
    }

    /// Reads a string. Returns the start and end of its text.
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

    /// Handles a string in the position of a value.
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
            None => self.scan_string(start, end),
            Some(ValueKind::Name) => self.record_name(start, end),
            Some(ValueKind::Value) if frame.names_secret => self.spans.push(Span::secret(start, end)),
            Some(ValueKind::Value) => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.value = Some((start, end));
                }
                self.scan_string(start, end);
            }
            Some(kind) => self.hide_by_kind(start, end, kind),
        }
    }

    /// Remembers a flag such as `--password` in an argument list: the next argument is its value.
    fn flag(&mut self, start: usize, end: usize) {
        let raw = &self.text[start..end];
        let may_be = raw.len() < LONGEST_FLAG && matches!(raw.first(), Some(b'-' | b'\\'));
        let flag = if may_be { decode_string(raw) } else { Cow::Borrowed(&b""[..]) };
        let is_certain = flag.starts_with(b"--") && self.kind(&flag).is_some_and(ValueKind::is_certain);
        if let Some(frame) = self.frames.last_mut().filter(|frame| !frame.is_object) {
            frame.kind = is_certain.then_some(ValueKind::Secret);
        }
    }

    /// Handles a value that is a name, as in `{"name": "TOKEN", "value": "x"}`. The value that it names is before
    /// or after it.
    fn record_name(&mut self, start: usize, end: usize) {
        let kind = self.kind(&decode_string(&self.text[start..end]));
        let Some(frame) = self.frames.last_mut() else { return };
        if kind.is_some_and(ValueKind::is_certain) {
            frame.names_secret = true;
            if let Some((start, end)) = frame.value {
                self.spans.push(Span::secret(start, end));
            }
        }
        self.scan_string(start, end);
    }

    /// Hides the secret part of a value according to its kind.
    fn hide_by_kind(&mut self, start: usize, end: usize, kind: ValueKind) {
        let raw = &self.text[start..end];
        let text = decode_string(raw);
        let value = Value { start: 0, end: text.len(), next: text.len(), is_quoted: true };
        let Some((from, to)) = secret_part(&text, value, kind, b"") else {
            return self.scan_string(start, end);
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
        self.spans.extend(spans.into_iter().map(|span| shift(span, start)));
    }

    /// Scans the text of a string as free text, and adds the secrets found.
    fn scan_string(&mut self, start: usize, end: usize) {
        let raw = &self.text[start..end];
        let text = decode_string(raw);
        let mut spans = (self.leaf)(&text);
        if text.len() != raw.len() {
            escapes::translate(raw, Escapes::Json, &mut spans);
        }
        self.spans.extend(spans.into_iter().map(|span| shift(span, start)));
    }
}

/// Decodes the escapes of a JSON string. A decoded escape makes the result shorter.
fn decode_string(raw: &[u8]) -> Cow<'_, [u8]> {
    if raw.contains(&b'\\') { Cow::Owned(escapes::decode(raw, Escapes::Json)) } else { Cow::Borrowed(raw) }
}

fn shift(span: Span, by: usize) -> Span {
    Span { start: span.start + by, end: span.end + by, ..span }
}
