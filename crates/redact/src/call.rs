//! A name and its value as arguments of a call: `setenv("API_SECRET", "x")`, and `setPassword("x")`. The scan
//! calls this module at each `(`. All functions are pure.

use crate::classes::{DOT, TOKEN, continues, is, run_start};
use crate::judge::secret_part;
use crate::keys::{NameRules, ValueKind, classify, may_matter};
use crate::placeholder::is_state;
use crate::shapes::SHAPES;
use crate::value::{Value, after_lines, value};
use crate::values::looks;

/// The maximum length of a name with its quotes and the comma after it, in bytes.
const NAME: usize = 64;
/// The maximum length of a function name, in bytes.
const FUNCTION: usize = 40;
/// The maximum number of arguments before the value.
const ARGUMENTS: usize = 3;
/// The first bytes of a value that decide whether it is a secret.
const DECIDES: usize = 96;

/// Finds the value of an argument after the one that names it, or the argument of a named setter. Returns its
/// start and end.
pub(crate) fn argument(text: &[u8], open: usize, names: &NameRules) -> Option<(usize, usize)> {
    // Return early: the first argument of most calls is not a string.
    let mut at = match text.get(open + 1)? {
        b' ' | b'\t' | b'\r' | b'\n' => after_lines(text, open + 1),
        _ => open + 1,
    };
    if !is_string(text, at) {
        return None;
    }
    if may_matter(&text[..open]) {
        let start = run_start(text, open, TOKEN | DOT, FUNCTION);
        let method = run_start(text, open, TOKEN, FUNCTION);
        if let Some(kind) = classify(&text[start..open], names).filter(|kind| kind.is_certain()) {
            return secret(text, at, kind, continues(text, method, b"set"));
        }
    }
    for _ in 0..ARGUMENTS {
        let near = &text[..text.len().min(at + NAME)];
        let name = string(near, at)?;
        at = after_comma(near, name)?;
        let kind = classify(&text[name.start..name.end], names);
        if let Some(kind) = kind.filter(|kind| kind.is_certain()) {
            let function = text[run_start(text, open, TOKEN | DOT, FUNCTION)..open].to_ascii_lowercase();
            return secret(text, at, kind, SHAPES.setters.iter().any(|setter| function.ends_with(setter)));
        }
    }
    None
}

#[inline]
fn is_string(text: &[u8], at: usize) -> bool {
    matches!(text.get(at), Some(b'"' | b'\'' | b'`' | b'\\'))
}

/// Parses the string at `at`, if it is closed and another argument follows.
fn string(text: &[u8], at: usize) -> Option<Value> {
    // Return early: most calls have one argument, or a first argument that cannot be a name.
    let is_name = |byte: &u8| {
        is(*byte, TOKEN | DOT)
            || matches!(byte, b'"' | b'\'' | b'`' | b'\\' | b' ' | b'/' | b':' | b'[' | b']')
            || *byte >= 0x80
    };
    let end = at + text.get(at..)?.iter().position(|byte| !is_name(byte))?;
    if text[end] != b',' {
        return None;
    }
    value(text, at, false).filter(|it| is_string(text, at) && it.is_quoted && it.next > it.end)
}

/// Where the next argument begins, if a comma follows this one.
fn after_comma(text: &[u8], argument: Value) -> Option<usize> {
    let at = after_lines(text, argument.next);
    (text.get(at)? == &b',').then(|| after_lines(text, at + 1))
}

/// Returns the secret part of the value, if the function is a setter or the value looks like a secret.
fn secret(text: &[u8], at: usize, kind: ValueKind, is_setter: bool) -> Option<(usize, usize)> {
    let near = value(&text[..text.len().min(at + DECIDES)], at, false).filter(|it| it.is_quoted)?;
    let word = &text[near.start..near.end];
    let is_of_token = |byte: &u8| !byte.is_ascii_whitespace() && !matches!(byte, b'(' | b'/' | b':');
    let has_look = looks::is_chosen(word) && word.iter().any(u8::is_ascii_digit) && word.iter().all(is_of_token);
    let is_header = matches!(kind, ValueKind::Authorization | ValueKind::Cookie);
    let is_sentence = word.split(|byte| *byte == b' ').any(is_state);
    let is_secret = has_look || looks::is_random(word, 12) || is_header || is_setter && !is_sentence;
    // The end may be far away. Search for it only if the value is a secret.
    if is_secret { secret_part(text, value(text, at, false)?, kind, b"") } else { None }
}
