//! Text within text: JSON in JSON, escapes, URL encoding, base64. Each layer is read and looked through, and what is found
//! is hidden where it stands in the outermost text. Pure.

use crate::custom::Custom;
use crate::escapes::{self, Escapes};
use crate::json;
use crate::scan::{Options, scan};
use crate::span::{Span, join};
use crate::values::base64;

/// How many layers are read.
const DEEPEST: u8 = 4;
/// How much is read in all layers below the first, as a multiple of the text.
const WORK: usize = 3;
/// And at least this much.
const LEAST_WORK: usize = 1 << 16;

/// Looks through one text.
pub(crate) struct Layers<'o> {
    options: &'o Options,
    custom: &'o Custom,
    /// How many bytes may be read in further layers.
    work: usize,
}

impl<'o> Layers<'o> {
    pub(crate) fn new(options: &'o Options, custom: &'o Custom, length: usize) -> Self {
        Self { options, custom, work: length.saturating_mul(WORK).max(LEAST_WORK) }
    }

    /// What is secret in free text, which may be JSON.
    pub(crate) fn text(&mut self, text: &[u8], depth: u8) -> Vec<Span> {
        let is_json =
            matches!(text.trim_ascii_start(), [b'{', b'"' | b'}' | b' ' | b'\n' | b'\r' | b'\t', ..] | [b'[', ..]);
        let spans = if is_json && depth < DEEPEST { self.json(text, depth) } else { None };
        spans.unwrap_or_else(|| self.free(text, depth))
    }

    /// What is secret in a JSON document, or none if it is not JSON.
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
        let left = self.work.checked_sub(length);
        if depth >= DEEPEST {
            return false;
        }
        left.map(|left| self.work = left).is_some()
    }
}
