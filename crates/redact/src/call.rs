//! A name and its value as arguments of a call: `setenv("API_SECRET", "x")`, and `setPassword("x")`. Found at the `(`. Pure.

use crate::classes::{DOT, TOKEN, continues, is, run_start};
use crate::endings::Endings;
use crate::judge::secret_part;
use crate::keys::{Kind, Names, may_matter};
use crate::known::KnownNames;
use crate::placeholder::is_state;
use crate::value::{Value, value};
use crate::values::looks;

/// How long a name and what stands around it may be.
const NAME: usize = 64;
/// How long the name of a function may be.
const FUNCTION: usize = 40;
/// How many arguments may stand before a value.
const ARGUMENTS: usize = 3;
/// How much of a value decides.
const DECIDES: usize = 96;

/// How the functions end that give a value to a name, in lower case.
#[rustfmt::skip]
static SETTERS: Endings<30> = Endings::new([
    "setenv", "putenv", "putenv_s", "put_env", "set_env", "env.set", "env.store", ".env", "withenv", "addenv", "set_var",
    "setvar", "envvar", "environmentvariable", "environment", "setproperty", "set_property", "setdefault", "setitem",
    "set_secret", "setsecret", "putsecret", "setheader", "set_header", "addheader", "requestheader", "header.set",
    "headers.set", "headers.append", "define",
]);

/// The value of an argument after the one that names it, or of a call of a named setter: from and to, in the text.
pub(crate) fn argument(text: &[u8], open: usize, names: &Names, known: &mut KnownNames) -> Option<(usize, usize)> {
    // Most calls have other arguments.
    let mut at = match text.get(open + 1)? {
        b' ' | b'\t' | b'\r' | b'\n' => after_spaces(text, open + 1),
        _ => open + 1,
    };
    if !is_string(text, at) {
        return None;
    }
    if may_matter(&text[..open]) {
        let start = run_start(text, open, TOKEN | DOT, FUNCTION);
        let method = run_start(text, open, TOKEN, FUNCTION);
        if let Some(kind) = known.kind(text, start, open, names).filter(|kind| kind.is_certain()) {
            return secret(text, at, kind, continues(text, method, b"set"));
        }
    }
    for _ in 0..ARGUMENTS {
        let near = &text[..text.len().min(at + NAME)];
        let name = string(near, at)?;
        at = after_comma(near, name)?;
        let kind = known.kind(text, name.start, name.end, names);
        if let Some(kind) = kind.filter(|kind| kind.is_certain()) {
            let function = &text[run_start(text, open, TOKEN | DOT, FUNCTION)..open];
            return secret(text, at, kind, SETTERS.of(&function.to_ascii_lowercase()).is_some());
        }
    }
    None
}

#[inline]
fn is_string(text: &[u8], at: usize) -> bool {
    matches!(text.get(at), Some(b'"' | b'\'' | b'`' | b'\\'))
}

/// A string at a place, that is closed.
fn string(text: &[u8], at: usize) -> Option<Value> {
    // Most arguments are the only ones, or no names.
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

fn after_spaces(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take(NAME).take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The next argument.
fn after_comma(text: &[u8], argument: Value) -> Option<usize> {
    let at = after_spaces(text, argument.next);
    (text.get(at)? == &b',').then(|| after_spaces(text, at + 1))
}

/// The value, if the function gives values to names, or it looks like a secret.
fn secret(text: &[u8], at: usize, kind: Kind, is_setter: bool) -> Option<(usize, usize)> {
    let near = value(&text[..text.len().min(at + DECIDES)], at, false).filter(|it| it.is_quoted)?;
    let word = &text[near.start..near.end];
    let is_of_token = |byte: &u8| !byte.is_ascii_whitespace() && !matches!(byte, b'(' | b'/' | b':');
    let has_look = looks::is_chosen(word) && word.iter().any(u8::is_ascii_digit) && word.iter().all(is_of_token);
    let is_header = matches!(kind, Kind::Authorization | Kind::Cookie);
    let is_sentence = word.split(|byte| *byte == b' ').any(is_state);
    let is_secret = has_look || looks::is_random(word, 12) || is_header || is_setter && !is_sentence;
    // The end, which may be far, is looked for only if everything up to it is hidden.
    if is_secret { secret_part(text, value(text, at, false)?, kind, b"") } else { None }
}
