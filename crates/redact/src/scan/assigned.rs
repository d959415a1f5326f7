//! What a pass does at a separator: a name stands before it, and its value after it.

use super::{SKIPPED, Scan};
use crate::assignment::{self, Key, Separator};
use crate::classes::{ALNUM, run_start};
use crate::keys::Kind;
use crate::span::{Mask, Span, has_mask};
use crate::values::urls;
use crate::{block, element, multipart, value};

/// How far the value stands from its name in `name: TOKEN, value: x`.
const BESIDE: usize = 160;
/// How long a value may be that stands before its name.
const LONGEST_VALUE: usize = 4 << 10;
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
        if let Some(key) = self.key(separator) {
            return self.assigned(at, key, separator);
        }
        let typed = assignment::after_type(self.text, separator);
        match typed.and_then(|typed| Some((self.key(typed)?, typed))) {
            Some((key, typed)) => self.assigned(at, key, typed),
            None => at + 1,
        }
    }

    fn key(&mut self, separator: Separator) -> Option<Key> {
        let hidden = self.hidden();
        assignment::key(self.text, separator, &self.options.names, &mut self.known_names, hidden)
    }

    fn assigned(&mut self, at: usize, key: Key, separator: Separator) -> usize {
        let key = match key.kind {
            Kind::Name if at < self.values_from => return at + 1,
            Kind::Name => return self.name(key, separator.value_start).unwrap_or(at + 1),
            Kind::Value if at < self.beside_end => Key { kind: Kind::Secret, ..key },
            Kind::Value => {
                self.value_before = Some(separator.value_start);
                return at + 1;
            }
            _ => key,
        };
        let is_certain = key.kind.is_certain() || key.kind.id().is_some();
        if !is_certain && at < self.values_from {
            return at + 1;
        }
        let (next, typed) = match key.kind.is_certain() {
            true => match block::below(self.text, key, separator) {
                Some(secret) => return self.hide(secret),
                None => (self.value(at, key, separator), assignment::typed(self.text, separator)),
            },
            false => (self.value(at, key, separator), None),
        };
        typed.map_or(next, |typed| self.value(next, key, typed))
    }

    /// Hides the value after a separator, and goes on after it.
    fn value(&mut self, at: usize, key: Key, separator: Separator) -> usize {
        let value_start = assignment::unwrapped(self.text, separator.value_start);
        let separator = Separator { value_start, ..separator };
        let Some(verdict) = self.known_values.verdict(self.text, key, separator) else {
            self.skip_values(separator.value_start);
            return at + 1;
        };
        let (start, end, next) = assignment::secret(self.text, key, separator, verdict);
        let end = match key.kind.id() {
            Some(kind) => self.id(kind, start, end),
            None => self.hide((start, end)),
        };
        next.max(end).max(at + 1)
    }

    /// In a long value that is none, not every few bytes are looked at again.
    fn skip_values(&mut self, start: usize) {
        if start < self.values_from {
            return;
        }
        let near = &self.text[start.min(self.text.len())..self.text.len().min(start + LONGEST_NAME)];
        if near.len() == LONGEST_NAME
            && !near.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, b'&' | b',' | b';'))
        {
            self.values_from = start + SKIPPED;
        }
    }

    fn id(&mut self, kind: &str, start: usize, end: usize) -> usize {
        let id = &self.text[start..end];
        if has_mask(id) {
            return self.hide_private((start, end));
        }
        // One id often stands in many lines.
        let last = self.found.spans.last().filter(|span| self.text[span.start..span.end] == *id);
        let known = last.and_then(|span| match &span.mask {
            Mask::Id(hash) if hash.starts_with(kind) => Some(hash.to_string()),
            _ => None,
        });
        let hash = known.unwrap_or_else(|| self.options.ids.hash(kind, id));
        self.found.spans.push(Span::id(start, end, hash));
        end
    }

    /// The name of something: its value may stand beside it.
    fn name(&mut self, key: Key, value_start: usize) -> Option<usize> {
        let before = self.value_before.take();
        let near = &self.text[..self.text.len().min(value_start + 56)];
        let name = value::value(near, value_start, false)?;
        if name.end - name.start > LONGEST_NAME {
            self.skip_values(value_start);
            return None;
        }
        let kind = self.known_names.kind(near, name.start, name.end, &self.options.names)?;
        if let Some(part) = multipart::part(self.text, key, name) {
            return part.secret(self.text, kind).map(|secret| self.hide(secret));
        }
        if kind.is_certain() {
            if let Some(text) = element::text_by_attribute(self.text, name, kind) {
                return Some(self.hide(text));
            }
            self.beside_end = name.end + BESIDE;
            if let Some(secret) = before.and_then(|before| self.value_that_ends(before, key.end)) {
                self.hide(secret);
            }
        }
        None
    }

    /// The value that begins at a place, if nothing but quotes, commas and spaces stands between it and a name.
    fn value_that_ends(&self, start: usize, name_end: usize) -> Option<(usize, usize)> {
        let name = run_start(self.text, name_end, ALNUM, LONGEST_NAME);
        if start + LONGEST_VALUE < name {
            return None;
        }
        let value = value::value(&self.text[..name], start, false)?;
        let is_between = |byte: &u8| matches!(byte, b'"' | b'\'' | b',' | b'\\') || byte.is_ascii_whitespace();
        self.text[value.end..name].iter().all(is_between).then_some((value.start, value.end))
    }

    pub(super) fn element(&mut self, at: usize) -> usize {
        let Some(separator) = element::element(self.text, at) else { return at + 1 };
        let Some(key) = self.key(separator) else { return at + 1 };
        match element::text(self.text, key, separator) {
            Some(text) => self.hide(text),
            None => self.assigned(at, key, separator),
        }
    }
}
