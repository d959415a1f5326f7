//! What a pass does at a separator: a name stands before it, and its value after it.

use super::{SKIPPED, Scan};
use crate::assignment::{self, Key};
use crate::keys::{Kind, classify};
use crate::span::{Mask, Span};
use crate::value;
use crate::values::urls;

/// How far the value stands from its name in `name: TOKEN, value: x`.
const BESIDE: usize = 160;
/// The longest name of something whose value stands beside it.
const LONGEST_NAME: usize = 40;

impl Scan<'_> {
    pub(super) fn separator(&mut self, at: usize) -> usize {
        if self.text[at] == b':' && self.text[at..].starts_with(b"://") {
            return match urls::user_info(self.text, at) {
                Some(secret) => self.hide(secret),
                None => at + 3,
            };
        }
        self.assignment(at)
    }

    pub(super) fn assignment(&mut self, at: usize) -> usize {
        let Some(separator) = assignment::separator(self.text, at) else { return at + 1 };
        let Some(key) = assignment::key(self.text, separator, &self.options.names, &mut self.last_key) else {
            return at + 1;
        };
        self.assigned(at, key, separator)
    }

    fn assigned(&mut self, at: usize, key: Key, separator: assignment::Separator) -> usize {
        let key = match key.kind {
            Kind::Name if at < self.values_from => return at + 1,
            Kind::Name => {
                self.name(separator.value_start);
                return at + 1;
            }
            Kind::Value if at < self.beside_end => Key { kind: Kind::Secret, ..key },
            Kind::Value => return at + 1,
            _ => key,
        };
        if !key.kind.is_certain() && at < self.values_from {
            return at + 1;
        }
        let Some((start, end, next)) = assignment::secret(self.text, key, separator) else {
            self.skip_values(separator.value_start);
            return at + 1;
        };
        match key.kind.id() {
            Some(kind) => self.id(kind, start, end),
            None => drop(self.hide((start, end))),
        }
        next.max(at + 1)
    }

    /// In a long value that is none, not every few bytes are looked at again.
    fn skip_values(&mut self, start: usize) {
        let near = &self.text[start.min(self.text.len())..self.text.len().min(start + LONGEST_NAME)];
        if near.len() == LONGEST_NAME
            && !near.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, b'&' | b',' | b';'))
        {
            self.values_from = start + SKIPPED;
        }
    }

    fn id(&mut self, kind: &str, start: usize, end: usize) {
        let id = &self.text[start..end];
        // One id often stands in many lines.
        let last = self.found.spans.last().filter(|span| self.text[span.start..span.end] == *id);
        let known = last.and_then(|span| match &span.mask {
            Mask::Id(hash) if hash.starts_with(kind) => Some(hash.to_string()),
            _ => None,
        });
        let hash = known.unwrap_or_else(|| self.options.ids.hash(kind, id));
        self.found.spans.push(Span::id(start, end, hash));
    }

    /// The name of something: its value may stand beside it.
    fn name(&mut self, value_start: usize) {
        let near = &self.text[..self.text.len().min(value_start + 56)];
        let Some(name) = value::value(near, value_start, false) else { return };
        if name.end - name.start > LONGEST_NAME {
            return self.skip_values(value_start);
        }
        let kind = classify(&near[name.start..name.end], &self.options.names);
        if kind.is_some_and(Kind::is_certain) {
            self.beside_end = name.end + BESIDE;
        }
    }

    pub(super) fn element(&mut self, at: usize) -> usize {
        let Some(separator) = assignment::element(self.text, at) else { return at + 1 };
        let Some(key) = assignment::key(self.text, separator, &self.options.names, &mut self.last_key) else {
            return at + 1;
        };
        match assignment::element_text(self.text, key, separator) {
            Some(text) => self.hide(text),
            None => self.assigned(at, key, separator),
        }
    }
}
