//! Redaction of text that arrives in chunks.

use crate::classes::{ENCODED, run_start};
use crate::redactor::Redactor;
use crate::span::{MASK, Span, render};

/// How much text without an end of line is held back.
const LONGEST_LINE: usize = 16 << 10;
/// How much is held back of a secret that goes on over several lines: its rest is swallowed up to its end.
const LONGEST_SECRET: usize = 64 << 10;
/// How much of a long line is still held back when its beginning comes out: a secret may have begun in it.
const TAIL: usize = 4 << 10;
/// How much of what came out is looked at again: a name in the line before says what a value is.
const CONTEXT: usize = 256;
/// How much may be looked at again for every line.
const CHEAP: usize = 2 << 10;
/// How much of what is swallowed is kept, to find its end.
const END: usize = 64;

/// Redacts text that arrives in chunks, such as the output of a program that runs. A secret is found wherever the chunks
/// divide it.
///
/// Whole lines come out. The last line is held back until it ends, or until [`Self::finish`] is called; so are lines of a
/// private key or of base64 that may go on. Never more than 80 KiB and one chunk are held back. Dropping it loses what it
/// holds back.
#[derive(Debug)]
pub struct Stream {
    redactor: Redactor,
    /// What came out last, and then what is held back.
    text: String,
    /// Where that begins which is held back.
    held: usize,
    /// How long the text is when it is looked at next.
    next_look: usize,
    swallows: Option<Until>,
}

/// What ends a secret whose beginning came out as `***`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The last line of a private key.
    KeyEnd,
    /// A byte that no token contains.
    TokenEnd,
}

impl Redactor {
    /// Redacts text that arrives in chunks.
    pub fn stream(&self) -> Stream {
        Stream { redactor: self.clone(), text: String::new(), held: 0, next_look: 0, swallows: None }
    }
}

impl Stream {
    /// Takes a chunk, and returns what can come out: nothing, lines, or the beginning of a very long line.
    pub fn push(&mut self, chunk: &str) -> String {
        if !self.redactor.is_on() {
            return chunk.to_owned();
        }
        self.text.push_str(chunk);
        if self.swallows.is_some() && !self.swallow() {
            return String::new();
        }
        let ends_line = memchr::memchr(b'\n', chunk.as_bytes()).is_some() || self.next_look == 0 && self.has_line();
        let is_long = self.text.len() - self.held > LONGEST_LINE;
        if (ends_line || is_long) && self.text.len() >= self.next_look { self.look() } else { String::new() }
    }

    /// Returns what was held back. The stream can be used again, for another text.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        if self.swallows.is_none() {
            let spans = self.redactor.spans(&self.text);
            out = self.rendered(self.text.len(), &spans);
        }
        *self = self.redactor.stream();
        out
    }

    fn has_line(&self) -> bool {
        memchr::memchr(b'\n', &self.text.as_bytes()[self.held..]).is_some()
    }

    /// Looks at what is held back, and lets out what is complete.
    fn look(&mut self) -> String {
        let spans = self.redactor.spans(&self.text);
        let cut = self.cut(&spans);
        let out = if cut > self.held {
            self.let_out(cut, &spans)
        } else if self.text.len() - self.held > LONGEST_SECRET {
            self.overflow(&spans)
        } else {
            String::new()
        };
        let held = self.text.len() - self.held;
        self.next_look = if held > CHEAP { self.text.len() + held / 4 } else { 0 };
        out
    }

    /// Up to where text can come out.
    fn cut(&self, spans: &[Span]) -> usize {
        let text = self.text.as_bytes();
        let line = memchr::memrchr(b'\n', &text[self.held..]).map(|at| self.held + at + 1);
        let mut cut = line.unwrap_or(self.held);
        if text.len() - cut > LONGEST_LINE {
            let end = self.text.floor_char_boundary(text.len() - TAIL);
            let space = text[cut..end].iter().rposition(u8::is_ascii_whitespace);
            cut = space.map_or(end, |at| cut + at + 1);
        }
        let is_open = |span: &&Span| span.start < cut && (span.end > cut || goes_on(text, span, cut));
        if let Some(open) = spans.iter().find(is_open) {
            cut = cut.min(open.start.max(self.held));
        }
        cut.min(encoded_lines(text, self.held, cut))
    }

    fn rendered(&self, cut: usize, spans: &[Span]) -> String {
        let held = spans.iter().filter(|span| span.end > self.held && span.start < cut).cloned().map(|span| Span {
            start: span.start.max(self.held) - self.held,
            end: span.end.min(cut) - self.held,
            ..span
        });
        render(&self.text[self.held..cut], &held.collect::<Vec<_>>())
    }

    fn let_out(&mut self, cut: usize, spans: &[Span]) -> String {
        let out = self.rendered(cut, spans);
        let context = self.text.floor_char_boundary(cut.saturating_sub(CONTEXT));
        // The context begins with a line, if one begins in it.
        let line = memchr::memchr(b'\n', &self.text.as_bytes()[context..cut.max(context + 1) - 1]);
        let line = line.filter(|_| context > 0).map_or(context, |at| context + at + 1);
        self.text.drain(..line);
        self.held = cut - line;
        out
    }

    /// A secret is too long to be held back.
    fn overflow(&mut self, spans: &[Span]) -> String {
        let end = self.text.len();
        let open = spans.iter().find(|span| span.end > self.held && span.start <= self.held);
        let is_key = self.text[self.held..].starts_with('-');
        let out = match open {
            Some(_) => MASK.to_owned(),
            None => return self.let_out(self.text.floor_char_boundary(end - TAIL), spans),
        };
        self.swallows = Some(if is_key { Until::KeyEnd } else { Until::TokenEnd });
        self.text.drain(..self.text.floor_char_boundary(end - END));
        self.held = 0;
        out
    }

    /// Drops what belongs to a secret. Whether it has ended.
    fn swallow(&mut self) -> bool {
        let text = self.text.as_bytes();
        let end = match self.swallows {
            Some(Until::KeyEnd) => key_end(text),
            _ => text.iter().position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'<')),
        };
        let kept = end.unwrap_or_else(|| self.text.floor_char_boundary(text.len().saturating_sub(END)));
        self.text.drain(..kept);
        self.held = 0;
        self.next_look = 0;
        if end.is_some() {
            self.swallows = None;
        }
        end.is_some()
    }
}

/// Where a private key ends: after the dashes of its last line.
fn key_end(text: &[u8]) -> Option<usize> {
    let label = memchr::memmem::find(text, b"-END")? + 4;
    let dashes = label + memchr::memchr(b'-', &text[label..])?;
    let end = dashes + text[dashes..].iter().position(|byte| *byte != b'-')?;
    Some(end)
}

/// Whether a secret may go on in the next line: a private key without its end, a string that isn't closed, or what stands
/// alone in its line, as in a block of YAML.
fn goes_on(text: &[u8], span: &Span, cut: usize) -> bool {
    let is_last = text[span.end.min(cut)..cut].trim_ascii().is_empty();
    let secret = &text[span.start..span.end.min(cut)];
    let is_key = secret.starts_with(b"---")
        && memchr::memmem::find(&secret[secret.len().saturating_sub(80)..], b"-END").is_none();
    let is_string = span.start > 0 && matches!(text[span.start - 1], b'"' | b'\'' | b'`');
    let line = memchr::memrchr(b'\n', &text[..span.start]).map_or(0, |at| at + 1);
    let is_alone = text[line..span.start].iter().all(|byte| matches!(byte, b' ' | b'\t' | b'-'));
    is_last && (is_key || is_string || is_alone)
}

/// Where lines of base64 begin that end at a place: a secret may go on in the next one.
fn encoded_lines(text: &[u8], held: usize, cut: usize) -> usize {
    let mut first = cut;
    loop {
        let line = text[held..first].trim_ascii_end().len() + held;
        let start = run_start(text, line, ENCODED, line - held);
        if line - start < 60 || text[start..line].ends_with(b"=") {
            return first;
        }
        first = start;
        if start == held || !text[held..start].ends_with(b"\n") {
            return first;
        }
    }
}
