//! Text within text: JSON in JSON, escapes, URL encoding, base64. Each layer is read and looked through, and what is found
//! is hidden where it stands in the outermost text. Pure.

use crate::budget::Budget;
use crate::custom::Custom;
use crate::escapes::{self, Escapes};
use crate::json;
use crate::scan::{Options, scan};
use crate::span::{Span, join};
use crate::values::base64;

/// How many layers are read.
const DEEPEST: u8 = 4;

/// How far an escape may stand before a secret that it hides a part of.
const REACH: usize = 4 << 10;

/// Looks through one text.
pub(crate) struct Layers<'o> {
    options: &'o Options,
    custom: &'o Custom,
    budget: Budget,
}

impl<'o> Layers<'o> {
    pub(crate) fn new(options: &'o Options, custom: &'o Custom, length: usize) -> Self {
        Self { options, custom, budget: Budget::for_text(length) }
    }

    /// What is secret in free text, which may be JSON.
    pub(crate) fn text(&self, text: &[u8], depth: u8) -> Vec<Span> {
        let is_json =
            matches!(text.trim_ascii_start(), [b'{', b'"' | b'}' | b' ' | b'\n' | b'\r' | b'\t', ..] | [b'[', ..]);
        let spans = if is_json && depth < DEEPEST { self.json(text, depth) } else { None };
        spans.unwrap_or_else(|| self.free(text, depth))
    }

    /// What is secret in a JSON document, or none if it is not JSON.
    pub(crate) fn json(&self, text: &[u8], depth: u8) -> Option<Vec<Span>> {
        json::walk(text, self.options, &self.budget, &|leaf| self.text(leaf, depth + 1))
    }

    fn free(&self, text: &[u8], depth: u8) -> Vec<Span> {
        let found = scan(text, self.options, &self.budget);
        let mut spans = found.spans;
        self.custom.find(text, &mut spans);
        if depth < DEEPEST {
            if found.has_escapes {
                spans.append(&mut self.escaped(text, depth + 1));
            }
            let is_secret = |(start, end): &(usize, usize)| self.is_secret(&text[*start..*end], depth + 1);
            let encoded = found.encoded.into_iter().filter(is_secret);
            spans.extend(encoded.map(|(start, end)| Span::secret(start, end)));
        }
        join(&mut spans);
        spans
    }

    /// What is secret in what a text with escapes stands for.
    fn escaped(&self, text: &[u8], depth: u8) -> Vec<Span> {
        let (read, beyond) = text.split_at(self.budget.layer(text.len(), depth));
        let mut spans = self.text(&escapes::decode(read, Escapes::All), depth);
        escapes::translate(read, Escapes::All, &mut spans);
        if !beyond.is_empty() {
            // What stands long before an escape was looked at as it is.
            let from = escapes::first(text, read.len().saturating_sub(REACH));
            spans.push(Span::private(from, text.len()));
        }
        spans
    }

    /// Whether a secret is in what a run of base64 stands for, or may be.
    fn is_secret(&self, run: &[u8], depth: u8) -> bool {
        let is_whole = self.budget.layer(run.len(), depth) == run.len();
        !is_whole || self.text(&base64::text(run), depth).iter().any(|span| span.is_secret) || self.budget.is_spent()
    }
}
