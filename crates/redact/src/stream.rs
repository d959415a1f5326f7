//! Redaction of text that arrives in chunks.

use crate::classes::{ENCODED, run_start};
use crate::redactor::Redactor;
use crate::span::{MASK, Span, render};

/// The maximum number of bytes held back without a line break.
const LONGEST_LINE: usize = 16 << 10;
/// The maximum number of bytes held back of a secret that spans several lines. The rest of the secret is dropped.
const LONGEST_SECRET: usize = 64 << 10;
/// The number of bytes still held back when the beginning of a long line is released: a secret may begin in them.
const TAIL: usize = 4 << 10;
/// The number of released bytes that are scanned again: a name in the previous line announces the value in the
/// next.
const CONTEXT: usize = 256;
/// The maximum number of held bytes that are scanned again for every new line.
const CHEAP: usize = 2 << 10;
/// The number of bytes of a dropped secret that are kept to find its end.
const END: usize = 64;

/// Redacts text that arrives in chunks, such as the output of a running program. A secret is found even if it is split
/// between chunks.
///
/// Whole lines are released. The last line is held back until it ends, or until [`Self::finish`] is called. So are lines of
/// a private key or of base64 that may continue. At most 80 KiB and one chunk are held back. Dropping the stream loses what
/// it holds back.
#[derive(Debug)]
pub struct Stream {
    redactor: Redactor,
    /// The most recently released text, followed by the held text.
    text: String,
    /// The start of the held text.
    held: usize,
    /// The length of the text that triggers the next scan.
    next_scan: usize,
    swallows: Option<Until>,
}

/// The mark that ends a secret whose beginning was released as `***`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The last line of a private key.
    KeyEnd,
    /// A byte that is invalid in tokens.
    TokenEnd,
}

impl Redactor {
    /// Creates a stream that redacts text in chunks.
    pub fn stream(&self) -> Stream {
        Stream { redactor: self.clone(), text: String::new(), held: 0, next_scan: 0, swallows: None }
    }
}

impl Stream {
    /// Takes a chunk and returns the text that can be released: complete lines, the beginning of a very long line,
    /// or an empty string.
    pub fn push(&mut self, chunk: &str) -> String {
        if !self.redactor.is_on() {
            return chunk.to_owned();
        }
        self.text.push_str(chunk);
        if self.swallows.is_some() && !self.swallow() {
            return String::new();
        }
        let has_line = |text: &str| memchr::memchr(b'\n', text.as_bytes()).is_some();
        let ends_line = has_line(chunk) || self.next_scan == 0 && has_line(&self.text[self.held..]);
        let is_long = self.text.len() - self.held > LONGEST_LINE;
        if (ends_line || is_long) && self.text.len() >= self.next_scan { self.scan_held() } else { String::new() }
    }

    /// Returns the held text. The stream can then redact another text.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        if self.swallows.is_none() {
            let spans = self.redactor.spans(&self.text);
            out = self.render_held(self.text.len(), &spans);
        }
        *self = self.redactor.stream();
        out
    }

    /// Scans the held text and releases what is complete.
    fn scan_held(&mut self) -> String {
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
        self.next_scan = if held > CHEAP { self.text.len() + held / 4 } else { 0 };
        out
    }

    /// Returns the end of the text that can be released.
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

    fn render_held(&self, cut: usize, spans: &[Span]) -> String {
        let held = spans.iter().filter(|span| span.end > self.held && span.start < cut).cloned().map(|span| Span {
            start: span.start.max(self.held) - self.held,
            end: span.end.min(cut) - self.held,
            ..span
        });
        render(&self.text[self.held..cut], &held.collect::<Vec<_>>())
    }

    fn let_out(&mut self, cut: usize, spans: &[Span]) -> String {
        let out = self.render_held(cut, spans);
        let context = self.text.floor_char_boundary(cut.saturating_sub(CONTEXT));
        // Begin the context at the start of a line, if it contains one.
        let line = memchr::memchr(b'\n', &self.text.as_bytes()[context..cut.max(context + 1) - 1]);
        let line = line.filter(|_| context > 0).map_or(context, |at| context + at + 1);
        self.text.drain(..line);
        self.held = cut - line;
        out
    }

    /// Releases the mask of a secret that is too long to hold back, and starts to drop the rest.
    fn overflow(&mut self, spans: &[Span]) -> String {
        let end = self.text.len();
        if !spans.iter().any(|span| span.end > self.held && span.start <= self.held) {
            return self.let_out(self.text.floor_char_boundary(end - TAIL), spans);
        }
        let is_key = self.text[self.held..].starts_with('-');
        self.swallows = Some(if is_key { Until::KeyEnd } else { Until::TokenEnd });
        self.text.drain(..self.text.floor_char_boundary(end - END));
        self.held = 0;
        MASK.to_owned()
    }

    /// Drops the rest of a secret. Returns whether the secret has ended.
    fn swallow(&mut self) -> bool {
        let text = self.text.as_bytes();
        let end = match self.swallows {
            Some(Until::KeyEnd) => key_end(text),
            _ => text.iter().position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'<')),
        };
        let kept = end.unwrap_or_else(|| self.text.floor_char_boundary(text.len().saturating_sub(END)));
        self.text.drain(..kept);
        self.held = 0;
        self.next_scan = 0;
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

/// Whether a secret may continue on the next line: a private key without its end, an unclosed string, or a value
/// that is alone on its line, as in a YAML block.
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

/// Where the base64 lines that end at `cut` begin: a secret may continue on the next line.
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
