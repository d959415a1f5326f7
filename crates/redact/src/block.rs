//! Values on the lines after their name, as in YAML: a block after `|` or `>`, a list, or one value on the next
//! line. Also values after `&anchor` or `!!tag`. All functions are pure.

use crate::assignment::{AssignedKey, Separator};
use crate::judge::secret_part;
use crate::keys::ValueKind;
use crate::placeholder::{is_reference, is_state};
use crate::value::{Value, after_spaces, begins_quoted, value};
use crate::values::looks;

/// The maximum distance from the start of the name's line to the separator, in bytes.
const LINE: usize = 160;
/// The first bytes of a value that decide whether it is a secret.
const DECIDES: usize = 384;
/// The maximum length of an anchor or tag, in bytes.
const PROPERTY: usize = 64;

/// Code that looks like an anchor.
const NOT_PROPERTIES: [&[u8]; 5] = [b"&mut", b"&dyn", b"&const", b"&self", b"&&"];

/// Finds a value on the lines after its name, after an anchor or tag, or in a list. Returns its start and end.
pub(crate) fn below(text: &[u8], key: AssignedKey, separator: Separator) -> Option<(usize, usize)> {
    let mut at = after_spaces(text, separator.value_start);
    let near = &text[..text.len().min(at + DECIDES)];
    match near.get(at)? {
        b'[' => return flow_list(text, near, at + 1, key),
        b'\n' | b'\r' | b'\\' | b'|' | b'>' | b'&' | b'!' | b'#' => {}
        _ => return None,
    }
    let mut is_block = false;
    if separator.is_colon {
        let value_start = after_properties(near, at);
        let indicator = after_indicator(near, value_start);
        let end = after_comment(near, indicator.unwrap_or(value_start));
        if value_start > at && line_break(text, end) == 0 {
            return inline(text, near, key, value_start);
        }
        (at, is_block) = (end, indicator.is_some());
    }
    let lines = BlockLines::new(text, separator.name_end, at)?;
    match text.get(lines.first.1)? {
        _ if is_block => lines.block(key),
        b'-' if separator.is_colon => lines.list(key),
        _ => lines.next_line(key, separator.is_colon),
    }
}

/// The maximum length of a list in brackets, in bytes.
const LIST: usize = 4 << 10;

/// Returns the items of a list in brackets, if at least one of them looks like a secret.
fn flow_list(text: &[u8], near: &[u8], start: usize, key: AssignedKey) -> Option<(usize, usize)> {
    let items = &near[start..];
    let items = &items[..memchr::memchr(b']', items).unwrap_or(items.len())];
    let is_plain = |item: &[u8]| !item.iter().any(|byte| matches!(byte, b':' | b'|' | b'(' | b'{' | b'['));
    let is_item = |item: &[u8]| is_secret_word(item.trim_ascii(), key) && item.iter().any(u8::is_ascii_digit);
    let is_list = items.split(|byte| *byte == b',').all(is_plain) && items.split(|byte| *byte == b',').any(is_item);
    if !is_list {
        return None;
    }
    let length = memchr::memchr(b']', &text[start..text.len().min(start + LIST)])?;
    Some((after_spaces(text, start), start + text[start..start + length].trim_ascii_end().len()))
}

/// Skips a value's anchor and tag. Returns the position after them.
fn after_properties(text: &[u8], mut at: usize) -> usize {
    for _ in 0..2 {
        let rest = &text[at.min(text.len())..];
        let belongs = |byte: &u8| {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b'_' | b'-' | b'.' | b':' | b'/' | b'!' | b'<' | b'>' | b',' | b'&')
        };
        let length = rest.iter().take(PROPERTY).take_while(|byte| belongs(byte)).count();
        let is_property = length > 1 && matches!(rest[0], b'&' | b'!') && !NOT_PROPERTIES.contains(&&rest[..length]);
        if !is_property || !matches!(rest.get(length), Some(b' ' | b'\t' | b'\n' | b'\r' | b'\\')) {
            break;
        }
        at = after_spaces(text, at + length);
    }
    at
}

/// Returns the position after the `|` or `>` of a block. `None` without such an indicator.
fn after_indicator(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?.strip_prefix(b"|").or_else(|| text[at..].strip_prefix(b">"))?;
    let length = rest.iter().take(2).take_while(|byte| matches!(byte, b'+' | b'-' | b'0'..=b'9')).count();
    Some(at + 1 + length)
}

/// Skips a comment at the end of the line. Returns the position after it.
fn after_comment(text: &[u8], at: usize) -> usize {
    let at = after_spaces(text, at);
    if text.get(at) != Some(&b'#') {
        return at;
    }
    (at..text.len()).find(|at| line_break(text, *at) > 0).unwrap_or(text.len())
}

/// Finds the value after an anchor or a tag, on the same line. Its first bytes decide whether it is a secret. Its
/// end may be far away.
fn inline(text: &[u8], near: &[u8], key: AssignedKey, start: usize) -> Option<(usize, usize)> {
    let found = value(near, start, false)?;
    let next = after_spaces(near, found.next);
    let is_last = matches!(near.get(next), None | Some(b'#' | b',' | b'}')) || line_break(near, next) > 0;
    let (from, _) = secret_part(near, found, key.kind, &near[key.start..key.end]).filter(|_| is_last)?;
    Some((from, value(text, start, false)?.end))
}

/// Returns the length of the line break at `at`, which may be escaped, or 0 without a line break.
fn line_break(text: &[u8], at: usize) -> usize {
    match text.get(at..).unwrap_or_default() {
        [b'\\', b'r', b'\\', b'n', ..] => 4,
        [b'\r', b'\n', ..] | [b'\\', b'n', ..] => 2,
        [b'\n', ..] => 1,
        _ => 0,
    }
}

/// The lines after a name, which may contain its value.
struct BlockLines<'t> {
    text: &'t [u8],
    /// Whether line breaks are escaped.
    is_escaped: bool,
    /// The number of spaces and dashes before the name.
    column: usize,
    /// The first non-blank line: where the line begins, and where its text begins.
    first: (usize, usize),
}

impl<'t> BlockLines<'t> {
    /// Finds the lines after a name whose own line ends at `end`.
    fn new(text: &'t [u8], name_end: usize, end: usize) -> Option<Self> {
        let length = line_break(text, end);
        let mut lines = Self { text, is_escaped: text.get(end) == Some(&b'\\'), column: 0, first: (0, 0) };
        let before = &text[name_end.saturating_sub(LINE)..name_end];
        let line = before.iter().enumerate().rposition(|(at, _)| line_break(before, at) > 0);
        let line = match line {
            Some(at) => &before[at + line_break(before, at)..],
            None if before.len() < LINE => before,
            None => return None,
        };
        lines.column = line.iter().take_while(|byte| matches!(byte, b' ' | b'-')).count();
        let mut start = end + length;
        for _ in 0..3 {
            let begin = after_spaces(text, start);
            let blank = line_break(text, begin);
            if blank == 0 {
                lines.first = (start, begin);
                return (length > 0 && begin < text.len()).then_some(lines);
            }
            start = begin + blank;
        }
        None
    }

    /// Where a line ends: at its break, or at the closing quote if line breaks are escaped.
    fn end(&self, text: &[u8], start: usize) -> usize {
        let rest = &text[start..];
        let length = if self.is_escaped {
            let ends = |at: usize| matches!(rest[at..], [b'"' | b'\n', ..] | [b'\\', b'n' | b'r' | b'"', ..]);
            memchr::memchr3_iter(b'"', b'\n', b'\\', rest).find(|at| ends(*at))
        } else {
            memchr::memchr(b'\n', rest)
        };
        start + length.unwrap_or(rest.len())
    }

    /// Where the value ends: after the last line for which `belongs` is true, given its text and its column. Blank lines
    /// may be in between.
    fn last(&self, text: &[u8], belongs: impl Fn(&[u8], usize) -> bool) -> usize {
        let (mut start, mut last) = (self.first.0, self.first.1);
        while start < text.len() {
            let begin = start + text[start..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            let end = self.end(text, begin);
            let line = text[begin..end].trim_ascii_end();
            if !line.is_empty() && !belongs(line, begin - start) {
                break;
            }
            if !line.is_empty() {
                last = begin + line.len();
            }
            match line_break(text, end) {
                0 => break,
                length => start = end + length,
            }
        }
        last
    }

    /// Returns the value if `is_secret` accepts its first lines. The value may end further down.
    fn secret_value(
        &self,
        belongs: impl Fn(&[u8], usize) -> bool,
        is_secret: impl FnOnce(&[&[u8]]) -> bool,
    ) -> Option<(usize, usize)> {
        let start = self.first.1;
        let near = &self.text[..self.text.len().min(start + DECIDES)];
        let near = &near[start..self.last(near, &belongs)];
        let starts_line = |byte: &u8| *byte == b'\n' || self.is_escaped && *byte == b'\\';
        let lines = near.split(starts_line).map(|line| {
            let line = if self.is_escaped { line.strip_prefix(b"n").unwrap_or(line) } else { line };
            line.trim_ascii()
        });
        let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
        is_secret(&lines).then(|| (start, self.last(self.text, belongs)))
    }

    /// Hides all lines that are indented more than the name.
    fn block(&self, key: AssignedKey) -> Option<(usize, usize)> {
        let (start, end) = self.secret_value(
            |_, column| column > self.column,
            |lines| {
                let is_key = lines.first().is_none_or(|line| line.starts_with(b"----"));
                !is_key && !lines.iter().all(|line| refers(line)) && !is_prose(lines)
            },
        )?;
        secret_part(self.text, Value { start, end, next: end, is_quoted: true }, key.kind, b"")
    }

    /// Hides the items of a list if one of them looks like a secret.
    fn list(&self, key: AssignedKey) -> Option<(usize, usize)> {
        let belongs = |line: &[u8], column| column > self.column || column == self.column && line.starts_with(b"- ");
        let (start, end) = self.secret_value(belongs, |lines| {
            let items = lines.iter().filter_map(|line| line.strip_prefix(b"- ").map(<[u8]>::trim_ascii));
            let mut items = items.map(|item| &item[after_properties(item, 0).min(item.len())..]);
            let is_map = |item: &[u8]| {
                !begins_quoted(item, 0) && (item.ends_with(b":") || memchr::memmem::find(item, b": ").is_some())
            };
            let is_block = |item: &[u8]| after_indicator(item, 0) == Some(item.len());
            !items.clone().any(is_map) && items.any(|item| is_block(item) || is_secret_word(item, key))
        })?;
        Some((after_spaces(self.text, start + 1), end))
    }

    /// Hides a single value: a word that is indented more than the name, or a string.
    fn next_line(&self, key: AssignedKey, is_yaml: bool) -> Option<(usize, usize)> {
        let (line, start) = self.first;
        if start - line <= self.column {
            return None;
        }
        if begins_quoted(self.text, start) {
            // A string with a colon after it is another name, unless its end is far away.
            let near = &self.text[..self.text.len().min(start + DECIDES)];
            let found = value(near, start, false)?;
            let is_name = near[after_spaces(near, found.next)..].starts_with(b":");
            let (from, _) = secret_part(near, found, key.kind, b"").filter(|_| !is_name)?;
            return Some((from, value(self.text, start, false)?.end));
        }
        let end = start + self.text[start..self.end(self.text, start)].trim_ascii_end().len();
        let word = &self.text[start..end];
        let is_secret = is_yaml && !word.ends_with(b":") && is_secret_word(word, key);
        is_secret.then_some((start, end))
    }
}

/// Whether a word is a secret, not a description of one. A quoted password may be any word. Other secrets contain
/// digits or symbols.
fn is_secret_word(word: &[u8], key: AssignedKey) -> bool {
    let (word, is_quoted) = match word {
        [b'"' | b'\'', inner @ .., b'"' | b'\''] => (inner, true),
        _ => (word, false),
    };
    let found = Value { start: 0, end: word.len(), next: word.len(), is_quoted };
    let is_number = || word.len() >= 4 && word.iter().all(u8::is_ascii_digit);
    let is_password = is_quoted && key.kind == ValueKind::Password && word.len() >= 4;
    let is_one = |word: &[u8]| is_password || !word.contains(&b' ');
    let is_sentence = word.split(|byte| *byte == b' ').any(is_state);
    let has_look = || looks::is_chosen(word) || is_number() || is_password;
    is_one(word) && !is_sentence && has_look() && secret_part(word, found, key.kind, b"").is_some()
}

/// Whether a line only refers to a value: `TOKEN=${TOKEN}`.
fn refers(line: &[u8]) -> bool {
    let start = line.iter().position(|byte| matches!(byte, b'=' | b':')).map_or(0, |at| at + 1);
    is_reference(line[start..].trim_ascii())
}

/// Whether lines are prose: three words or more, with a word that describes a state, and without a word that looks
/// like a password.
fn is_prose(lines: &[&[u8]]) -> bool {
    let words = || lines.iter().flat_map(|line| line.split(|byte| *byte == b' ')).filter(|word| !word.is_empty());
    let is_chosen = |word: &[u8]| looks::is_chosen(word) && word.iter().any(u8::is_ascii_digit);
    words().count() >= 3 && words().any(is_state) && !words().any(is_chosen)
}
