//! Text within text: JSON in JSON, escapes, URL encoding, base64. Each layer is decoded and scanned, and secrets
//! are hidden at their positions in the outermost text. Pure.

use crate::custom::Custom;
use crate::escapes::{self, Escapes};
use crate::json;
use crate::scan::{Options, scan};
use crate::span::{Span, join};
use crate::values::base64;

/// The maximum number of layers that are decoded.
const DEEPEST: u8 = 4;
/// The maximum number of bytes scanned in all inner layers, as a multiple of the text's length.
const WORK: usize = 3;
/// The lower bound of that number, for short texts.
const LEAST_WORK: usize = 1 << 16;

/// Scans one text and the layers within it.
pub(crate) struct Layers<'o> {
    options: &'o Options,
    custom: &'o Custom,
    /// The bytes that may still be scanned in inner layers.
    work: usize,
}

impl<'o> Layers<'o> {
    pub(crate) fn new(options: &'o Options, custom: &'o Custom, length: usize) -> Self {
        Self { options, custom, work: length.saturating_mul(WORK).max(LEAST_WORK) }
    }

    /// Finds the secrets in free text, which may be JSON.
    pub(crate) fn text(&mut self, text: &[u8], depth: u8) -> Vec<Span> {
        let is_json =
            matches!(text.trim_ascii_start(), [b'{', b'"' | b'}' | b' ' | b'\n' | b'\r' | b'\t', ..] | [b'[', ..]);
        let spans = if is_json && depth < DEEPEST { self.json(text, depth) } else { None };
        spans.unwrap_or_else(|| self.free(text, depth))
    }

    /// Finds the secrets in a JSON document. Returns `None` if the text is not JSON.
    pub(crate) fn json(&mut self, text: &[u8], depth: u8) -> Option<Vec<Span>> {
        let options = self.options;
        json::walk(text, options, &mut |leaf| self.text(leaf, depth + 1))
    }

    fn free(&mut self, text: &[u8], depth: u8) -> Vec<Span> {
        let found = scan(text, self.options);
        let mut spans = found.spans;
        self.custom.find(text, &mut spans);
        if found.has_escapes && self.may_read(text.len(), depth) {
            let mut inner = self.text(&escapes::decode(text, Escapes::All), depth + 1);
            escapes::translate(text, Escapes::All, &mut inner);
            spans.append(&mut inner);
        }
        for (start, end) in found.encoded {
            if self.may_read(end - start, depth) {
                let inner = self.text(&base64::text(&text[start..end]), depth + 1);
                if inner.iter().any(|span| span.is_secret) {
                    spans.push(Span::secret(start, end));
                }
            }
        }
        join(&mut spans);
        spans
    }

    fn may_read(&mut self, length: usize, depth: u8) -> bool {
        let left = self.work.checked_sub(length).filter(|_| depth < DEEPEST);
        left.map(|left| self.work = left).is_some()
    }
}
