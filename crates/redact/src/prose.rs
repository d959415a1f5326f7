//! Secrets after a name without a separator, in prose and command lines: `password hunter2`, `--token x`, `-u
//! name:password`. All functions are pure.

use crate::classes::{ALNUM, TOKEN, at_is, continues, is, run_end, run_start};
use crate::keys::{NameRules, ValueKind, classify, names_secret};
use crate::placeholder::{is_reference, is_state};
use crate::shapes::SHAPES;
use crate::value::value;
use crate::values::{base64, looks};

/// The maximum distance from a name to its value, in bytes.
const NEAR: usize = 48;
/// The number of bytes before a name that are examined.
const BEFORE: usize = 24;

/// Whether a byte occurs in values but rarely in prose: a digit, a symbol or a quote. Most sentences about secrets
/// contain no value.
fn is_of_value(byte: &u8) -> bool {
    byte.is_ascii_digit()
        || matches!(byte, b'"' | b'\'' | b'`' | b'!' | b'@' | b'#' | b'$' | b'%' | b'^' | b'*' | b'&' | 0xe2)
}

/// What precedes a variable and its value, separated by spaces, in csh, Windows, fish and Dockerfiles.
const EXPORTS: [&[u8]; 7] = [b"setenv ", b"setx ", b"set -x ", b"set -gx ", b"set -Ux ", b"\nENV ", b"\nenv "];

/// Finds the secret after the word `start..end`.
pub(crate) fn after_word(text: &[u8], word: usize, end: usize, names: &NameRules) -> Option<(usize, usize)> {
    if !matches!(text.get(end), Some(b' ' | b'\t' | b'+' | b'%')) {
        return None;
    }
    if let Some(is_credential) = scheme(&text[word..end]) {
        return after_scheme(text, end, is_credential);
    }
    // Values behind an escape are found when the escapes are decoded.
    let near = &text[end..text.len().min(end + NEAR)];
    if text[end] == b'%' || !near.iter().any(is_of_value) {
        return None;
    }
    let kind = classify(&text[word.saturating_sub(BEFORE)..end], names)?;
    if kind.is_certain() && EXPORTS.iter().any(|export| text[..run_start(text, end, TOKEN, BEFORE)].ends_with(export)) {
        return complete_value(text, run_of_spaces(text, end));
    }
    match kind {
        ValueKind::Password | ValueKind::Secret => value_in_sentence(text, end, kind),
        ValueKind::Code => code(text, end),
        _ => None,
    }
}

/// Returns the check for the credentials after this word, if the word is an HTTP authentication scheme.
fn scheme(word: &[u8]) -> Option<fn(&[u8]) -> bool> {
    match word.len() {
        5 if word.eq_ignore_ascii_case(b"basic") => Some(base64::is_name_and_password),
        6 if word.eq_ignore_ascii_case(b"bearer") => Some(is_bearer),
        _ => None,
    }
}

/// Where the credentials after a word end. Returns `None` if the word is not an HTTP authentication scheme.
pub(crate) fn credentials(text: &[u8], word: usize, end: usize) -> Option<usize> {
    after_scheme(text, end, scheme(&text[word..end])?).map(|(_, end)| end)
}

/// Finds the credentials after an HTTP authentication scheme.
fn after_scheme(text: &[u8], end: usize, is_credential: fn(&[u8]) -> bool) -> Option<(usize, usize)> {
    let rest = &text[end..text.len().min(end + 6)];
    let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'+')).count();
    let start = end + if rest.starts_with(b"%20") { 3 } else { spaces };
    let belongs =
        |byte: &u8| is(*byte, ALNUM) || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'+' | b'/' | b'=' | b'|' | b':');
    // The first bytes decide whether it is a credential. The end may be far away.
    let near = text[start..].iter().take(96).take_while(|byte| belongs(byte)).count();
    let token = &text[start..start + near];
    let token = &token[..token.len() - token.iter().rev().take_while(|byte| matches!(byte, b'.' | b':')).count()];
    if near == 0 || !is_credential(token) {
        return None;
    }
    let length = if near < 96 { token.len() } else { text[start..].iter().take_while(|byte| belongs(byte)).count() };
    Some((start, start + length))
}

fn is_bearer(token: &[u8]) -> bool {
    let has_digit = token.iter().any(u8::is_ascii_digit);
    let has_letter = token.iter().any(u8::is_ascii_alphabetic);
    match token.len() {
        0..8 => false,
        8..12 => has_digit && has_letter,
        12..16 => has_digit,
        _ => has_digit || looks::is_mixed(token),
    }
}

/// Finds the value that follows a name in a sentence.
fn value_in_sentence(text: &[u8], end: usize, kind: ValueKind) -> Option<(usize, usize)> {
    let limit = text.len().min(end + NEAR);
    let mut at = end;
    let mut has_verb = false;
    for _ in 0..5 {
        at = run_of_spaces(text, at);
        if at >= limit || text[at] == b'\n' {
            return None;
        }
        let word_end = at + text[at..].iter().take(NEAR).take_while(|byte| !byte.is_ascii_whitespace()).count();
        let word = &text[at..word_end];
        if matches!(word, b"=" | b":" | b"->" | b"=>" | b"-" | b"\xe2\x80\x94") {
            return None;
        }
        if SHAPES.fillers.iter().any(|it| word.eq_ignore_ascii_case(it)) {
            has_verb |= matches!(word, b"is" | b"was" | b"to" | b"as");
            at = word_end;
            continue;
        }
        return candidate(text, at, kind, has_verb);
    }
    None
}

fn run_of_spaces(text: &[u8], at: usize) -> usize {
    at + text[at..].iter().take(8).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

fn candidate(text: &[u8], at: usize, kind: ValueKind, has_verb: bool) -> Option<(usize, usize)> {
    let near = &text[..text.len().min(at + 96)];
    let at = at + usize::from(matches!(near.get(at), Some(b'(' | b'<' | b'[')));
    let found = value(near, at, false)?;
    let token = &near[found.start..found.end];
    let is_one_word = !token.iter().any(u8::is_ascii_whitespace);
    if is_reference(token) || is_state(token) || !is_one_word || looks_like_place(token) {
        return None;
    }
    let is_secret = match kind {
        _ if found.is_quoted && has_verb => token.len() >= 4,
        ValueKind::Password => {
            looks::is_chosen(token) && (has_verb || token.iter().any(u8::is_ascii_digit)) && !token.contains(&b'(')
        }
        _ => {
            looks::is_random(token, 12) && !looks::is_uuid(token)
                || token.len() >= 32 && looks::is_hex(token) && has_verb
        }
    };
    if !is_secret {
        return None;
    }
    let whole = if found.end + 48 < near.len() { found } else { value(text, at, false)? };
    Some((whole.start, whole.end))
}

/// Whether a token is a path, a URL or a position in a file.
fn looks_like_place(token: &[u8]) -> bool {
    token.contains(&b'/') && !looks::is_random(token, 24)
        || token.windows(2).any(|it| it[0] == b'.' && it[1].is_ascii_alphabetic())
            && token.iter().filter(|it| it.is_ascii_digit()).count() < 3
}

/// Finds a short number after the name of a one-time code: `OTP is 493022`.
fn code(text: &[u8], end: usize) -> Option<(usize, usize)> {
    let mut at = run_of_spaces(text, end);
    for filler in [&b"code"[..], b"is", b"was", b"number"] {
        if continues(text, at, filler) && text.get(at + filler.len()) == Some(&b' ') {
            at = run_of_spaces(text, at + filler.len());
        }
    }
    let stop = at + text[at..].iter().take(12).take_while(|byte| byte.is_ascii_digit()).count();
    ((4..=8).contains(&(stop - at)) && !at_is(text, stop, ALNUM)).then_some((at, stop))
}

/// Words and punctuation between a name in non-ASCII letters and its value.
const LINKS: [&str; 10] = ["：", "是", "为", "為", "は", "＝", "は「", "「", "：“", "“"];

/// Finds the value after a name in non-ASCII letters. The name ends the run `start..end` of such letters:
/// `密码：hunter2`.
pub(crate) fn after_foreign_word(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    let run = &text[end - (end - start).min(48)..end];
    let link = LINKS.iter().find(|link| run.ends_with(link.as_bytes()));
    if link.is_none() && text.get(end) != Some(&b' ')
        || !names_secret(&run[..run.len() - link.map_or(0, |link| link.len())])
    {
        return None;
    }
    let near = &text[..text.len().min(end + NEAR)];
    let found = value(near, end, false)?;
    if !looks::is_chosen(&near[found.start..found.end]) && (!found.is_quoted || found.end == found.start) {
        return None;
    }
    let found = value(text, end, false)?;
    Some((found.start, found.end))
}

/// Finds the value of the flag whose first dash is at `dash`, unless the flag contains its value. `command` is the
/// text up to the command.
pub(crate) fn after_flag(text: &[u8], dash: usize, command: &[u8], names: &NameRules) -> Option<(usize, usize)> {
    let is_start = dash == 0 || !is(text[dash - 1], ALNUM | crate::classes::JOINT);
    let dashes = text[dash..].iter().take(3).take_while(|byte| **byte == b'-').count();
    let start = dash + dashes;
    if !is_start || dashes > 2 || !at_is(text, start, ALNUM) {
        return None;
    }
    let end = run_end(&text[..text.len().min(start + 48)], start, crate::classes::DOTTED);
    if dashes == 1 && text[start] == b'p' && end > start + 2 && is_of_command(text, dash, command, b'p') {
        return complete_value(text, start + 1);
    }
    let value_start = apart(text, end).filter(|_| text[end - 1] != b'.')?;
    let name = &text[start..end];
    match (dashes, name) {
        (1, b"u") | (2, b"user" | b"proxy-user") => return user_and_password(text, value_start),
        (1, b"p" | b"a" | b"w") if is_of_command(text, dash, command, name[0]) => {
            return complete_value(text, value_start);
        }
        _ => {}
    }
    if text[value_start.min(text.len())..].starts_with(b"--") {
        return None;
    }
    let kind = classify(&text[start..end], names)?;
    let is_secret = kind.is_certain() && (dashes == 2 || name.len() > 3);
    if is_secret { complete_value(text, value_start) } else { None }
}

/// Where the value of a flag begins: after a space, or as the next element of a list.
fn apart(text: &[u8], end: usize) -> Option<usize> {
    let rest = &text[end..text.len().min(end + 24)];
    let quotes = rest.iter().take_while(|byte| matches!(byte, b'\\' | b'"' | b'\'')).count();
    if quotes == 0 {
        let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        return (spaces > 0).then_some(end + spaces);
    }
    let after = &rest[quotes..];
    let separators = after.iter().take_while(|byte| matches!(byte, b',' | b' ' | b'\n')).count();
    (after.first() == Some(&b',')).then_some(end + quotes + separators)
}

/// Returns the whole value at `start`, unless it is a flag, a reference or a word about a state.
fn complete_value(text: &[u8], start: usize) -> Option<(usize, usize)> {
    let near = &text[..text.len().min(start + 64)];
    let found = value(near, start, false)?;
    let word = &near[found.start..found.end];
    let is_flag = !found.is_quoted && word.starts_with(b"--");
    if word.is_empty() || is_reference(word) || is_flag || !found.is_quoted && is_state(word) {
        return None;
    }
    let found = value(text, start, false)?;
    Some((found.start, found.end))
}

/// Returns the password of `name:password`.
fn user_and_password(text: &[u8], start: usize) -> Option<(usize, usize)> {
    let near = &text[..text.len().min(start + 128)];
    let found = value(near, start, false)?;
    let colon = text[found.start..found.end].iter().position(|byte| *byte == b':')?;
    let password = &text[found.start + colon + 1..found.end];
    let is_id = text[found.start..found.end].iter().all(|byte| byte.is_ascii_digit() || *byte == b':');
    (!password.is_empty() && !is_reference(password) && !is_id).then_some((found.start + colon + 1, found.end))
}

/// Whether the short flag takes a password in its command.
fn is_of_command(text: &[u8], dash: usize, command: &[u8], flag: u8) -> bool {
    let between = &text[command.len().min(dash)..dash];
    let has_word = |word: &[u8]| command.ends_with(word);
    let is_line = !command.is_empty() && !between.iter().any(|byte| matches!(byte, b'\n' | b';' | b'|'));
    is_line
        && match flag {
            b'p' => {
                let needs_login = has_word(b"docker") || has_word(b"podman");
                !needs_login && !has_word(b"redis") || needs_login && between.starts_with(b" login")
            }
            b'a' => has_word(b"redis"),
            _ => has_word(b"ldapsearch") || has_word(b"ldapmodify"),
        }
}
