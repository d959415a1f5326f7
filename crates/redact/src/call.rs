//! A name and its value as arguments of a call: `setenv("API_SECRET", "x")`. Found at the `(`. Pure.

use crate::classes::{DOT, TOKEN, run_start};
use crate::endings::Endings;
use crate::judge::secret_part;
use crate::keys::{Kind, Names};
use crate::known::KnownNames;
use crate::placeholder::is_state;
use crate::value::{Value, begins_quoted, value};
use crate::values::looks;

/// How long a name and what stands around it may be.
const NAME: usize = 64;
/// How many arguments may stand before a value.
const ARGUMENTS: usize = 3;
/// How much of a value decides.
const DECIDES: usize = 96;

/// How the functions end that give a value to a name, in lower case.
static SETTERS: Endings<20> = Endings::new([
    "setenv",
    "putenv",
    "put_env",
    "set_env",
    "set_var",
    "setvar",
    "environmentvariable",
    "setproperty",
    "set_property",
    "setdefault",
    "setitem",
    "set_secret",
    "setsecret",
    "setheader",
    "set_header",
    "requestheader",
    "header.set",
    "headers.set",
    "define",
    "withenv",
]);

/// The value of an argument after the one that names it: from and to, in the text.
pub(crate) fn argument(text: &[u8], open: usize, names: &Names, known: &mut KnownNames) -> Option<(usize, usize)> {
    let mut at = after_spaces(text, open + 1);
    for _ in 0..ARGUMENTS {
        let near = &text[..text.len().min(at + NAME)];
        let name = string(near, at)?;
        at = after_comma(near, name)?;
        let kind = known.kind(text, name.start, name.end, names);
        if let Some(kind) = kind.filter(|kind| kind.is_certain()) {
            return secret(text, open, kind, at);
        }
    }
    None
}

/// A string at a place, that is closed.
fn string(text: &[u8], at: usize) -> Option<Value> {
    let is_quoted = matches!(text.get(at)?, b'"' | b'\'' | b'`' | b'\\') || begins_quoted(text, at);
    value(text, at, false).filter(|it| is_quoted && it.is_quoted && it.next > it.end)
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

/// The value, if the function is known, or it looks like a secret.
fn secret(text: &[u8], open: usize, kind: Kind, at: usize) -> Option<(usize, usize)> {
    let near = value(&text[..text.len().min(at + DECIDES)], at, false).filter(|it| it.is_quoted)?;
    let word = &text[near.start..near.end];
    let function = &text[run_start(text, open, TOKEN | DOT, 32)..open];
    let is_setter = SETTERS.of(&function.to_ascii_lowercase()).is_some();
    let has_look = looks::is_chosen(word)
        && word.iter().any(u8::is_ascii_digit)
        && !word.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, b'(' | b'/' | b':'))
        || looks::is_random(word, 12);
    let is_header = matches!(kind, Kind::Authorization | Kind::Cookie);
    let is_sentence = word.contains(&b' ') && word.split(|byte| *byte == b' ').any(is_state);
    let is_secret = has_look || is_header || is_setter && !is_sentence && !is_state(word);
    let whole = value(text, at, false).filter(|_| is_secret)?;
    secret_part(text, whole, kind, b"")
}
