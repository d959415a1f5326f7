//! Finds the start and end of a value in free text. All functions are pure.

use crate::classes::{ALNUM, JOINT, at_is, run_end};
use crate::span::MASK;

/// The position of a value in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Where the text continues: after the closing quote of a quoted value, otherwise at its end.
    pub(crate) next: usize,
    pub(crate) is_quoted: bool,
}

/// The maximum length of a quoted value after its first line, in bytes.
const FURTHER_LINES: usize = 256;
/// The same limit for triple quotes.
const MANY_LINES: usize = 64 << 10;

/// An opening quotation mark in a text: the mark that closes it, and how often it is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Quote {
    mark: &'static Mark,
    escapes: usize,
    length: usize,
}

/// The opening and closing forms of a quotation mark, and how far a value in it may continue after its first line.
#[derive(Debug, PartialEq, Eq)]
struct Mark(&'static str, &'static str, usize);

/// Of several marks with the same beginning, the longest comes first.
static MARKS: [Mark; 14] = [
    Mark("\"\"\"", "\"\"\"", MANY_LINES),
    Mark("\"\\\"\\\"", "\"\\\"\\\"", MANY_LINES),
    Mark("'''", "'''", MANY_LINES),
    Mark("\"", "\"", FURTHER_LINES),
    Mark("'", "'", FURTHER_LINES),
    Mark("`", "`", FURTHER_LINES),
    Mark("&quot;", "&quot;", FURTHER_LINES),
    Mark("&#34;", "&#34;", FURTHER_LINES),
    Mark("&#39;", "&#39;", FURTHER_LINES),
    Mark("&apos;", "&apos;", FURTHER_LINES),
    Mark("“", "”", FURTHER_LINES),
    Mark("‘", "’", FURTHER_LINES),
    Mark("「", "」", FURTHER_LINES),
    Mark("『", "』", FURTHER_LINES),
];

/// String prefixes that may precede a quote, as in `b"…"`, `f'…'` and `r#"…"#`.
const PREFIXES: [&[u8]; 17] =
    [b"", b"b", b"r", b"f", b"u", b"L", b"@", b"$", b"N", b"R", b"#", b"br", b"rb", b"r#", b"u8", b"$@", b"br#"];

fn quote(text: &[u8], at: usize) -> Option<Quote> {
    let rest = text.get(at..)?;
    let escapes = rest.iter().take(64).take_while(|byte| **byte == b'\\').count();
    let rest = &rest[escapes..];
    // Return early: most values are unquoted.
    if !matches!(rest.first()?, b'"' | b'\'' | b'`' | b'&' | 0xe2 | 0xe3) {
        return None;
    }
    let mark = MARKS.iter().find(|mark| rest.starts_with(mark.0.as_bytes()))?;
    Some(Quote { mark, escapes, length: escapes + mark.0.len() })
}

/// Returns the opening quote at `at`, which may have a prefix.
fn prefixed_quote(text: &[u8], at: usize) -> Option<(usize, Quote)> {
    let rest = text.get(at..text.len().min(at + 4)).unwrap_or_default();
    let prefix = rest.iter().position(|byte| matches!(byte, b'"' | b'\'')).unwrap_or(0);
    let at = at + if PREFIXES.contains(&&rest[..prefix]) { prefix } else { 0 };
    Some((at, quote(text, at)?))
}

/// Whether a quoted string begins at `at`.
pub(crate) fn begins_quoted(text: &[u8], at: usize) -> bool {
    prefixed_quote(text, at).is_some()
}

/// Skips spaces. Most texts have only a few.
pub(crate) fn after_spaces(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take(64).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Skips spaces and line breaks. Returns the position after them.
pub(crate) fn after_lines(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take(64).take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Returns the value that begins at `at`, after spaces.
pub(crate) fn value(text: &[u8], at: usize, takes_line: bool) -> Option<Value> {
    let mut start = at;
    while start - at < 16
        && match text.get(start) {
            Some(b' ' | b'\t') => true,
            Some(b'*') => !is_mask(text, start),
            _ => false,
        }
    {
        start += 1;
    }
    match prefixed_quote(text, start) {
        Some((at, quote)) => Some(quoted_value(text, at, quote)),
        None => {
            let end = if takes_line { line_end(text, start) } else { word_end(text, start) };
            (end > start).then_some(Value { start, end, next: end, is_quoted: false })
        }
    }
}

/// The maximum distance to the start of an emphasis, in bytes.
const EMPHASIS: usize = 56;

/// Whether a mask begins at `at`: the value is already replaced. Three asterisks that close a Markdown emphasis
/// are not a mask, as in `***password:*** x`.
pub(crate) fn is_mask(text: &[u8], at: usize) -> bool {
    let (before, rest) = text.split_at(at);
    let begins = rest.starts_with(MASK.as_bytes()) && !before.ends_with(b"*");
    begins && (rest.get(MASK.len()) == Some(&b'*') || !is_emphasis(&before[at.saturating_sub(EMPHASIS)..]))
}

/// Whether a mask ends at `at`.
pub(crate) fn is_after_mask(text: &[u8], at: usize) -> bool {
    let asterisks = text[..at].iter().rev().take_while(|byte| **byte == b'*').count();
    asterisks >= MASK.len() && is_mask(text, at - asterisks)
}

/// Whether `before` opens an emphasis: asterisks before a word that do not follow another word.
fn is_emphasis(before: &[u8]) -> bool {
    memchr::memmem::rfind(before, MASK.as_bytes()).is_some_and(|open| {
        let is_first =
            before[..open].last().is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'('));
        is_first && at_is(before, open + MASK.len(), ALNUM) && !before[open..].contains(&b'\n')
    })
}

fn quoted_value(text: &[u8], at: usize, quote: Quote) -> Value {
    let start = at + quote.length;
    let Mark(_, mark, further) = *quote.mark;
    let mark = mark.as_bytes();
    let (mut from, mut limit) = (start, text.len());
    let mut line = None;
    while let Some(found) = memchr::memchr2(mark[0], b'\n', &text[from..limit]).map(|it| from + it) {
        from = found + 1;
        if text[found] == b'\n' {
            line.get_or_insert(found);
            limit = limit.min(line.unwrap_or(found) + further);
            from = from.min(limit);
            continue;
        }
        let escapes = text[start..found].iter().rev().take(64).take_while(|byte| **byte == b'\\').count();
        let is_same = if quote.escapes == 0 { escapes.is_multiple_of(2) } else { escapes == quote.escapes };
        if is_same && text[found..].starts_with(mark) {
            let end = found - quote.escapes.min(escapes);
            return Value { start, end, next: found + mark.len(), is_quoted: true };
        }
    }
    // The closing mark is missing, because the text was cut off. Strings in triple quotes usually span several
    // lines.
    let end = if further == MANY_LINES { limit } else { line.unwrap_or(text.len()) };
    Value { start, end, next: end, is_quoted: true }
}

/// Where the line or the quotes around it end. The quotes around a parameter's value belong to the line, as in
/// `Digest username="x", response="y"`. So does the next line after such a parameter and a comma.
pub(crate) fn line_end(text: &[u8], start: usize) -> usize {
    let (mut at, mut end) = (start, text.len());
    while let Some(found) = (at..text.len()).find(|at| ends_line(text, *at)) {
        match parameter_end(&text[start..], found - start) {
            Some(next) => at = start + next,
            None => {
                end = found;
                break;
            }
        }
    }
    start + text[start..end].trim_ascii_end().len()
}

/// The maximum length of a parameter value, in bytes.
const PARAMETER: usize = 512;

/// Where the parameter ends whose quoted value begins at `at`, including the comma and the line break after it.
fn parameter_end(text: &[u8], at: usize) -> Option<usize> {
    let before = &text[at.saturating_sub(48)..at];
    let name = before.trim_ascii_end().strip_suffix(b"=")?.trim_ascii_end();
    let letters =
        name.iter().rev().take_while(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-')).count();
    let is_name = letters > 0 && matches!(name[..name.len() - letters].last(), Some(b' ' | b',' | b'\t'));
    let mark = if text[at] == b'\\' { &text[at..text.len().min(at + 2)] } else { &text[at..=at] };
    let inner = at + mark.len();
    let near = text.get(inner..text.len().min(inner + PARAMETER)).filter(|_| is_name && mark.ends_with(b"\""))?;
    let end = inner + memchr::memmem::find(near, mark)? + mark.len();
    let rest = &text[end..];
    if let Some(rest) = rest.strip_prefix(b",") {
        let spaces = rest.iter().take(64).take_while(|byte| byte.is_ascii_whitespace()).count();
        return Some(end + 1 + spaces);
    }
    (rest.is_empty() || ends_line(text, end) || rest.starts_with(b" ")).then_some(end)
}

/// Whether the byte at `at` ends the line or the quotes around it.
pub(crate) fn ends_line(text: &[u8], at: usize) -> bool {
    match text[at] {
        b'\n' | b'\r' | b'"' | b'`' => true,
        b'\'' => !at_is(text, at + 1, ALNUM),
        b'\\' => matches!(text.get(at + 1), Some(b'n' | b'r' | b'"' | b'\\')),
        _ => false,
    }
}

/// Where an unquoted word ends. A password may contain bytes that end other values, unless the next name seems to
/// follow.
fn word_end(text: &[u8], start: usize) -> usize {
    let ends = |at: usize| match text[at] {
        byte if byte.is_ascii_whitespace() || byte.is_ascii_control() => true,
        b'"' | b'\'' | b'`' | b'<' | b'>' => true,
        b'\\' => matches!(text.get(at + 1), Some(b'n' | b'r' | b't' | b'"' | b'\'' | b'\\')),
        b',' | b';' | b'&' | b'|' | b')' | b']' | b'}' => ends_value(text, at),
        0xe3 | 0xef => ["，", "。", "；"].iter().any(|mark| text[at..].starts_with(mark.as_bytes())),
        _ => false,
    };
    let end = (start..text.len()).find(|at| ends(*at)).unwrap_or(text.len());
    // Punctuation after a word is not part of it.
    let is_marked = end > start + 1 && matches!(text[end - 1], b'.' | b'?' | b':');
    end - usize::from(is_marked && text.get(end).is_none_or(u8::is_ascii_whitespace))
}

/// Whether a separator at `at` ends a value: white space, punctuation, another name or the end of the text
/// follows.
fn ends_value(text: &[u8], at: usize) -> bool {
    let name = run_end(&text[..text.len().min(at + 40)], at + 1, ALNUM | JOINT);
    match text.get(at + 1) {
        None => true,
        Some(byte) if byte.is_ascii_whitespace() => true,
        Some(
            b'"' | b'\'' | b'`' | b'\\' | b',' | b';' | b'&' | b')' | b']' | b'}' | b'.' | b'>' | b'<' | b'|' | b'{'
            | b'[' | b'(',
        ) => true,
        _ if name == at + 1 => false,
        _ => {
            let is_name = matches!(text.get(name), Some(b'=' | b':' | b'[' | b'.' | b'(' | b' ')) || name == text.len();
            if text[at] == b'&' { text.get(name) == Some(&b'=') } else { is_name }
        }
    }
}
