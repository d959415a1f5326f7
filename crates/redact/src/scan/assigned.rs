//! Handles the separators between a name and a value.

use super::Scan;
use crate::assignment::{self, AssignedKey, Separator};
use crate::classes::{ALNUM, run_start};
use crate::keys::{ValueKind, classify};
use crate::span::{Span, has_mask};
use crate::values::urls;
use crate::{block, element, multipart, value};

/// The maximum distance from a name to its value in `name: TOKEN, value: x`, in bytes.
const BESIDE: usize = 160;
/// The maximum length of a value before its name, in bytes.
const LONGEST_VALUE: usize = 4 << 10;
/// The maximum length of a name whose value is next to it, in bytes.
const LONGEST_NAME: usize = 40;

impl Scan<'_> {
    pub(super) fn separator(&mut self, at: usize) -> usize {
        if self.text[at] == b':' && self.text[at..].starts_with(b"://") {
            return urls::user_info(self.text, at).map_or(at + 3, |secret| self.hide(secret));
        }
        self.assignment(at)
    }

    pub(super) fn assignment(&mut self, at: usize) -> usize {
        let Some(separator) = assignment::separator(self.text, at) else { return at + 1 };
        if let Some(key) = self.key(separator) {
            return self.hide_assigned(at, key, separator);
        }
        let typed = assignment::after_type(self.text, separator);
        match typed.and_then(|typed| Some((self.key(typed)?, typed))) {
            Some((key, typed)) => self.hide_assigned(at, key, typed),
            None => at + 1,
        }
    }

    fn key(&mut self, separator: Separator) -> Option<AssignedKey> {
        let hidden = self.hidden();
        assignment::key(self.text, separator, &self.options.names, hidden)
    }

    fn hide_assigned(&mut self, at: usize, key: AssignedKey, separator: Separator) -> usize {
        let key = match key.kind {
            ValueKind::Name => return self.name(key, separator.value_start).unwrap_or(at + 1),
            ValueKind::Value if at < self.beside_end => AssignedKey { kind: ValueKind::Secret, ..key },
            ValueKind::Value => {
                self.value_before = Some(separator.value_start);
                return at + 1;
            }
            _ => key,
        };
        if !key.kind.is_certain() {
            return self.value(at, key, separator);
        }
        if let Some(secret) = block::below(self.text, key, separator) {
            return self.hide(secret);
        }
        let next = self.value(at, key, separator);
        let typed = assignment::after_type_annotation(self.text, separator);
        typed.map_or(next, |typed| self.value(next, key, typed))
    }

    /// Hides the value after a separator. Returns the position where the pass continues.
    fn value(&mut self, at: usize, key: AssignedKey, separator: Separator) -> usize {
        let value_start = assignment::string_start(self.text, separator.value_start);
        let separator = Separator { value_start, ..separator };
        let Some(verdict) = assignment::verdict(self.text, key, separator) else {
            return at + 1;
        };
        let (start, end, next) = assignment::secret(self.text, key, separator, verdict);
        let end = match key.kind.id() {
            Some(kind) => self.id(kind, start, end),
            None => self.hide((start, end)),
        };
        next.max(end).max(at + 1)
    }

    fn id(&mut self, kind: &str, start: usize, end: usize) -> usize {
        let id = &self.text[start..end];
        if has_mask(id) {
            return self.hide_private((start, end));
        }
        let hash = self.options.ids.hash(kind, id);
        self.found.spans.push(Span::id(start, end, hash));
        end
    }

    /// Handles a name whose value may be next to it, as in `name: TOKEN, value: x`.
    fn name(&mut self, key: AssignedKey, value_start: usize) -> Option<usize> {
        let before = self.value_before.take();
        let near = &self.text[..self.text.len().min(value_start + 56)];
        let name = value::value(near, value_start, false)?;
        if name.end - name.start > LONGEST_NAME {
            return None;
        }
        let kind = classify(&near[name.start..name.end], &self.options.names)?;
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

    /// Returns the value that begins at `start`, if only quotes, commas and spaces separate it from its name.
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
            None => self.hide_assigned(at, key, separator),
        }
    }
}
