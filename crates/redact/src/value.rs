//! Where the value of a name begins and ends in free text, and which part of it is the secret. Pure.

use crate::classes::{ALNUM, JOINT, at_is, run_end};
use crate::keys::{Kind, Words, built_in};
use crate::values::{base64, looks};

/// A value in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Where the text goes on: after the quote that closes it.
    pub(crate) next: usize,
    pub(crate) is_quoted: bool,
}

/// How far a quoted value may go on in further lines.
const FURTHER_LINES: usize = 256;

/// A quote as text has it: of which bytes, and how often it is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Quote {
    mark: &'static [u8],
    escapes: usize,
    length: usize,
}

const MARKS: [&[u8]; 11] = [
    b"\"",
    b"'",
    b"`",
    b"&quot;",
    b"&#34;",
    b"&#39;",
    b"&apos;",
    "“".as_bytes(),
    "‘".as_bytes(),
    "「".as_bytes(),
    "『".as_bytes(),
];
const CLOSING: [&[u8]; 11] = [
    b"\"",
    b"'",
    b"`",
    b"&quot;",
    b"&#34;",
    b"&#39;",
    b"&apos;",
    "”".as_bytes(),
    "’".as_bytes(),
    "」".as_bytes(),
    "』".as_bytes(),
];

fn quote(text: &[u8], at: usize) -> Option<Quote> {
    let rest = text.get(at..)?;
    let escapes = rest.iter().take(64).take_while(|byte| **byte == b'\\').count();
    let rest = &rest[escapes..];
    let found = MARKS.iter().position(|mark| rest.starts_with(mark))?;
    Some(Quote { mark: CLOSING[found], escapes, length: escapes + MARKS[found].len() })
}

/// The value that begins at a place, after spaces.
pub(crate) fn value(text: &[u8], at: usize, takes_line: bool) -> Option<Value> {
    let mut start = at;
    while start - at < 16 && matches!(text.get(start), Some(b' ' | b'\t' | b'*')) {
        start += 1;
    }
    // A letter may say what sort of string it is, as in b"…" and f'…'.
    let is_prefixed = matches!(text.get(start), Some(b'b' | b'r' | b'f' | b'u' | b'L' | b'@' | b'$'))
        && matches!(text.get(start + 1), Some(b'"' | b'\''));
    let quote_at = start + usize::from(is_prefixed);
    match quote(text, quote_at) {
        Some(quote) => Some(quoted(text, quote_at, quote)),
        None => unquoted(text, start, takes_line),
    }
}

fn quoted(text: &[u8], at: usize, quote: Quote) -> Value {
    let start = at + quote.length;
    let mark = quote.mark;
    let (mut from, mut limit) = (start, text.len());
    let mut line = None;
    while let Some(found) = memchr::memchr2(mark[0], b'\n', &text[from..limit]).map(|it| from + it) {
        from = found + 1;
        if text[found] == b'\n' {
            line.get_or_insert(found);
            limit = limit.min(line.unwrap_or(found) + FURTHER_LINES);
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
    let line = line.unwrap_or(text.len());
    // Nothing closes it: the text was cut short.
    Value { start, end: line, next: line, is_quoted: true }
}

fn unquoted(text: &[u8], start: usize, takes_line: bool) -> Option<Value> {
    let end = if takes_line { line_end(text, start) } else { word_end(text, start) };
    (end > start).then_some(Value { start, end, next: end, is_quoted: false })
}

/// Where the line ends, or the quotes around it.
pub(crate) fn line_end(text: &[u8], start: usize) -> usize {
    let ends = |at: usize| match text[at] {
        b'\n' | b'\r' | b'"' | b'`' => true,
        b'\'' => !at_is(text, at + 1, ALNUM),
        b'\\' => matches!(text.get(at + 1), Some(b'n' | b'r' | b'"' | b'\\')),
        _ => false,
    };
    let end = (start..text.len()).find(|at| ends(*at)).unwrap_or(text.len());
    start + text[start..end].trim_ascii_end().len()
}

/// Where an unquoted word ends. Passwords may contain what ends values elsewhere, unless something follows that looks like
/// the next name.
fn word_end(text: &[u8], start: usize) -> usize {
    let ends = |at: usize| match text[at] {
        byte if byte.is_ascii_whitespace() || byte.is_ascii_control() => true,
        b'"' | b'\'' | b'`' | b'<' | b'>' => true,
        b'\\' => matches!(text.get(at + 1), Some(b'n' | b'r' | b't' | b'"' | b'\'' | b'\\')),
        b',' | b';' | b'&' | b'|' | b')' | b']' | b'}' => ends_value(text, at),
        0xe3 | 0xef => {
            text[at..].starts_with("，".as_bytes())
                || text[at..].starts_with("。".as_bytes())
                || text[at..].starts_with("；".as_bytes())
        }
        _ => false,
    };
    let end = (start..text.len()).find(|at| ends(*at)).unwrap_or(text.len());
    // What ends a sentence is no part of it.
    end - usize::from(
        end > start + 1 && matches!(text[end - 1], b'.' | b'!' | b'?' | b':') && is_sentence_end(text, end),
    )
}

fn is_sentence_end(text: &[u8], end: usize) -> bool {
    text[end - 1] != b'!' && text.get(end).is_none_or(u8::is_ascii_whitespace)
}

/// Whether a separator at a place ends a value: another name follows, or nothing does.
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

/// Words in place of a value, that say something about it.
#[rustfmt::skip]
const STATES: [&[u8]; 63] = [
    b"a", b"all", b"an", b"any", b"are", b"as", b"at", b"be", b"bool", b"boolean", b"by", b"bytes", b"can",
    b"changed", b"denied", b"disabled", b"empty", b"enabled", b"error", b"expired", b"failed", b"false", b"for",
    b"from", b"has", b"if", b"in", b"incorrect", b"int", b"invalid", b"is", b"it", b"missing", b"must", b"nil",
    b"no", b"none", b"not", b"null", b"number", b"object", b"of", b"ok", b"optional", b"or", b"required", b"see",
    b"should", b"str", b"string", b"that", b"the", b"this", b"to", b"true", b"undefined", b"unset", b"use",
    b"using", b"was", b"with", b"yes", b"your",
];

/// Whether a value without quotes is a placeholder, code, a type or a word about the value.
fn is_no_value(text: &[u8], value: Value, key: &[u8]) -> bool {
    let word = &text[value.start..value.end];
    let name = word.strip_suffix(b":").unwrap_or(word);
    let is_echo = key.len() >= name.len()
        && key[key.len() - name.len()..].eq_ignore_ascii_case(name)
        && name.len() > 2
        && (key.len() == name.len() || !key[key.len() - name.len() - 1].is_ascii_alphanumeric());
    is_echo || is_reference(word) || is_state(word) || is_code(text, value) || is_same_name(name, key)
}

pub(crate) fn is_state(word: &[u8]) -> bool {
    let word = word.trim_ascii();
    let end = word.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(word.len());
    let mut lower = [0; 12];
    let Some(buffer) = lower.get_mut(..end) else { return false };
    buffer.copy_from_slice(&word[..end]);
    buffer.make_ascii_lowercase();
    let goes_on = word.get(end).is_some_and(|byte| {
        !matches!(byte, b',' | b';' | b'.' | b' ' | b'\t' | b'[' | b'<' | b'?' | b'(' | b')' | b'|')
    });
    !goes_on && STATES.binary_search(&&*buffer).is_ok()
}

const LONGEST_REFERENCE: usize = 96;

/// Whether it only says where the value comes from: `$TOKEN`, `${{ secrets.TOKEN }}`, `{token}`, `<token>`, `%s`.
pub(crate) fn is_reference(word: &[u8]) -> bool {
    if word.len() > LONGEST_REFERENCE {
        return false;
    }
    let is_name = |name: &[u8]| {
        !name.is_empty()
            && name.iter().all(|byte| {
                byte.is_ascii_alphanumeric()
                    || matches!(byte, b'_' | b'.' | b' ' | b'-' | b':' | b'$' | b'{' | b'}' | b'(' | b')')
            })
    };
    match word {
        b"***" | b"[REDACTED]" | b"<redacted>" | b"%s" | b"%v" | b"{}" | b"?" | b"-" | b"..." => true,
        [b'$', b'{' | b'(', rest @ ..] => is_name(rest) || rest.is_empty(),
        [b'$', first, rest @ ..] => {
            let is_variable = first.is_ascii_alphabetic() || *first == b'_';
            is_variable
                && rest.iter().all(|it| it.is_ascii_uppercase() || *it == b'_')
                && (first.is_ascii_uppercase() || *first == b'_')
                || is_variable && rest.iter().all(|it| it.is_ascii_lowercase() || *it == b'_')
                || is_variable
                    && matches!(rest.iter().position(|it| !it.is_ascii_alphanumeric() && *it != b'_'), Some(at) if matches!(&rest[at..], [b'[' | b'-' | b'.', ..]))
        }
        [b'{', b'{', ..] => true,
        [b'{', rest @ .., b'}'] | [b'<', rest @ .., b'>'] | [b'%', rest @ .., b'%'] => is_name(rest),
        [b'%', b'(' | b'{', ..] => true,
        _ => word.iter().all(|byte| *byte == b'*' || *byte == b'x' || *byte == b'X') && word.len() >= 3,
    }
}

/// Whether it is an expression of a program: a call, a path of names, an index, a keyword.
fn is_code(text: &[u8], value: Value) -> bool {
    let word = &text[value.start..value.end];
    if matches!(word.first(), Some(b'(' | b'[' | b'{' | b'|' | b'&' | b'=' | b'/' | b'~'))
        && !looks::is_random(word, 12)
    {
        return matches!(word[0], b'(' | b'[' | b'{' | b'|' | b'=' | b'&')
            || word.len() <= 2
            || matches!(word[0], b'/' | b'~') && is_path(word)
            || is_names(&word[1..]);
    }
    if word[0] == b'!' && word.len() <= 2 {
        return true;
    }
    let name = word
        .iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'$' | b'?' | b'!')))
        .unwrap_or(word.len());
    let after = if name < word.len() { word.get(name) } else { text.get(value.end) };
    let is_identifier = name > 0 && !word[0].is_ascii_digit() && !looks::is_random(&word[..name], 12);
    let is_call = is_identifier && matches!(after, Some(b'(' | b'['))
        || is_identifier && name < word.len() && word[name..].starts_with(b"->");
    let keyword = [
        &b"await"[..],
        b"new",
        b"yield",
        b"lambda",
        b"function",
        b"async",
        b"void",
        b"typeof",
        b"not",
        b"input",
        b"await_",
    ];
    let is_keyword = keyword.contains(&word) && text.get(value.end) == Some(&b' ');
    is_call
        || is_keyword
        || word.len() <= 2 && word[0].is_ascii_alphabetic()
        || is_names(word)
        || is_variable(text, value)
}

/// Whether it is a path of names such as `self.config.token`, all of letters.
fn is_names(word: &[u8]) -> bool {
    const ROOTS: [&[u8]; 24] = [
        b"self",
        b"this",
        b"process",
        b"os",
        b"config",
        b"settings",
        b"args",
        b"env",
        b"request",
        b"req",
        b"ctx",
        b"context",
        b"opts",
        b"options",
        b"params",
        b"secrets",
        b"var",
        b"local",
        b"data",
        b"module",
        b"user",
        b"state",
        b"props",
        b"event",
    ];
    let parts = || word.split(|byte| matches!(byte, b'.' | b'?' | b':')).filter(|part| !part.is_empty());
    let is_name = |part: &[u8]| part.len() <= 32 && part.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let is_known = parts().next().is_some_and(|root| ROOTS.contains(&root));
    let count = parts().count();
    let short = parts().next().is_some_and(|root| root.len() <= 2);
    count >= 2
        && word.last() != Some(&b'.')
        && (parts().all(is_name) || is_known || short && parts().skip(1).all(is_name))
}

fn is_path(word: &[u8]) -> bool {
    word.iter().filter(|byte| **byte == b'/').count() >= 2
        && word.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_' | b'~'))
}

/// Whether it is a variable in a statement with spaces, as in `token = candidate;`.
fn is_variable(text: &[u8], value: Value) -> bool {
    let word = &text[value.start..value.end];
    let is_spaced = value.start >= 3
        && text[value.start - 1] == b' '
        && text[value.start - 2] == b'='
        && matches!(text[value.start - 3], b' ' | b':');
    is_spaced
        && word.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        && matches!(text.get(value.end), Some(b';' | b')'))
}

/// Whether it is the name of the value, or one like it: `password=password`, `token=user_token`.
fn is_same_name(word: &[u8], key: &[u8]) -> bool {
    if word.is_empty() || !word.iter().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-')) {
        return false;
    }
    let (own, other) = (Words::of(key), Words::of(word));
    let has_parts =
        word.contains(&b'_') || word[1..].iter().any(u8::is_ascii_uppercase) && word.iter().any(u8::is_ascii_lowercase);
    own.ends_with(&other) || has_parts && built_in(other).is_some_and(Kind::is_certain)
}

/// The part of a value that is secret: from and to, in the text.
pub(crate) fn secret_part(text: &[u8], value: Value, kind: Kind, key: &[u8]) -> Option<(usize, usize)> {
    let part = &text[value.start..value.end];
    let trimmed = part.trim_ascii();
    if trimmed.is_empty() || is_reference(trimmed) {
        return None;
    }
    let whole = Some((value.start, value.end));
    match kind {
        Kind::Secret | Kind::Password => {
            let is_directory = kind == Kind::Password && Words::of(key).joined() == b"pwd" && is_place(trimmed);
            let is_none = !value.is_quoted && is_no_value(text, value, key) || is_directory;
            if is_none { None } else { whole }
        }
        Kind::Authorization => authorization(part, value),
        Kind::Cookie => (value.is_quoted || part.contains(&b'=')).then_some((value.start, value.end)),
        Kind::Weak | Kind::Query => {
            let is_secret = looks::is_random(trimmed, 16) && !looks::is_uuid(trimmed)
                || base64::is_name_and_password(trimmed) && trimmed.len() >= 12;
            if is_secret { whole } else { None }
        }
        Kind::Code => ((3..=12).contains(&trimmed.len()) && trimmed.iter().all(u8::is_ascii_digit))
            .then_some((value.start, value.end)),
        Kind::Session | Kind::ToolCall => {
            (value.is_quoted || !is_no_value(text, value, key)).then_some((value.start, value.end))
        }
        Kind::Name | Kind::Value => None,
    }
}

/// A working directory: shells call it PWD.
fn is_place(value: &[u8]) -> bool {
    matches!(value, [b'/' | b'~' | b'.', ..] | [_, b':', b'\\' | b'/', ..])
}

/// The credentials after the scheme, which stays.
fn authorization(part: &[u8], value: Value) -> Option<(usize, usize)> {
    let scheme =
        part.iter().take(24).take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')).count();
    let rest = &part[scheme..];
    let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'+')).count();
    let has_scheme = scheme > 0
        && spaces > 0
        && !rest[spaces..].trim_ascii().is_empty()
        && part[..scheme].iter().any(u8::is_ascii_alphabetic);
    let start = if has_scheme { scheme + spaces } else { 0 };
    let credentials = part[start..].trim_ascii();
    let is_prose = !value.is_quoted
        && (is_state(part)
            || !has_scheme && credentials.len() < 8
            || credentials.split(|byte| *byte == b' ').count() > 2 && !credentials.contains(&b'='));
    (!is_prose && !credentials.is_empty() && !is_reference(credentials)).then_some((value.start + start, value.end))
}
