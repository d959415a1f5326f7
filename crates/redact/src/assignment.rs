//! A name and its value in free text: `name: value`, `name=value`, `"name": "value"`, `<name>value</name>`, `name
//! => value`, `name := value`, in lines, headers, query strings, forms, shells, configuration and code. The scan
//! calls this module at each separator. All functions are pure.

use crate::classes::{ALNUM, DOTTED, at_is, is};
use crate::judge::secret_part;
use crate::keys::{NameRules, ValueKind, classify, may_matter, names_secret};
use crate::placeholder::{is_state, is_tag};
use crate::value::{Value, after_lines, after_spaces, begins_quoted, ends_line, is_after_mask, line_end, value};

/// The maximum distance from the start of a name to its separator, in bytes.
const NAME: usize = 56;
/// The first bytes of a value that decide whether it is a secret.
const DECIDES: usize = 56;

/// A name before a separator, and the kind of value that it announces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AssignedKey {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) kind: ValueKind,
}

/// A separator: where the name before it ends, and where the value after it begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Separator {
    pub(crate) name_end: usize,
    pub(crate) value_start: usize,
    pub(crate) is_colon: bool,
}

/// Parses the separator at `at`, a `:` or `=`. Returns `None` if it does not separate a name from a value.
pub(crate) fn separator(text: &[u8], at: usize) -> Option<Separator> {
    let (before, after) = (text[..at].last().copied(), text.get(at + 1).copied());
    let found = |name_end, value_start| Some(Separator { name_end, value_start, is_colon: text[at] == b':' });
    match (text[at], before, after) {
        (b':', _, Some(b':')) | (b':', Some(b':'), _) => None,
        (b':', _, Some(b'=')) => found(at, at + 2),
        (b'=', Some(b'=' | b'!' | b'<' | b'>' | b'~'), _) | (b'=', _, Some(b'=' | b'~')) => None,
        (b'=', Some(b':'), _) => None,
        (b'=', _, Some(b'>')) => found(at, at + 2),
        (b'=', Some(b'+' | b'?' | b'|'), _) => found(at - 1, at + 1),
        _ => found(at, at + 1),
    }
}

/// Finds the name before a separator and classifies its value. `hidden` is the end of the last secret found.
pub(crate) fn key(text: &[u8], separator: Separator, names: &NameRules, hidden: usize) -> Option<AssignedKey> {
    let mut end = separator.name_end;
    let floor = end.saturating_sub(16);
    // Skip spaces, emphasis marks, the quotes around the name, and index brackets.
    while end > floor {
        match &text[..end] {
            [.., b'*'] if is_after_mask(text, end) => return None,
            [.., b' ' | b'\t' | b'*' | b'"' | b'\'' | b'`' | b'\\'] | [.., b'"' | b'\'', b']'] => end -= 1,
            _ => break,
        }
    }
    if end > floor && text[end - 1] == b';' && text[..end].ends_with(b"&quot;") {
        end -= 6;
    }
    if !separator.is_colon && text[..end].ends_with(b"]") {
        end = before_index(text, end, end == separator.name_end)?;
    }
    let last = *text[..end].last()?;
    if last >= 0x80 {
        return foreign(text, end, names);
    }
    if !is(last, ALNUM) || !names.is_extended() && !may_matter(&text[..end]) {
        return None;
    }
    let floor = end.saturating_sub(NAME);
    let (mut start, mut words) = (end, 0);
    while start > floor && (is(text[start - 1], DOTTED) || text[start - 1] == b' ' && words < 3) {
        start -= 1;
        words += usize::from(text[start] == b' ');
    }
    // The letter of an escape such as `\n` is not part of the name.
    if start > 0 && text[start - 1] == b'\\' && matches!(text[start], b'n' | b'r' | b't') {
        start += 1;
    }
    let mut kind = classify(&text[start..end], names);
    if kind.is_none() && (start + 1..end).contains(&hidden) {
        // The rest of a word after a mask counts as a word.
        start = hidden;
        kind = classify(&text[start..end], names);
    }
    let kind = kind?;
    Some(AssignedKey { start, end, kind: at_place(text, start, end, kind, separator)? })
}

/// Where a name before a `]` ends: inside the brackets, as in the form field `user[password]=x`, or before them if
/// they are empty or contain a number, as in `password[]=x` and `char password[32] = "x"`.
fn before_index(text: &[u8], end: usize, is_joined: bool) -> Option<usize> {
    let mut end = end - 1;
    for _ in 0..3 {
        let digits = text[..end].iter().rev().take(6).take_while(|byte| byte.is_ascii_digit()).count();
        match &text[..end - digits] {
            [.., b']', b'['] => end = end - digits - 2,
            [.., b'['] => return Some(end - digits - 1),
            _ => break,
        }
    }
    is_joined.then_some(end)
}

/// Recognizes the name of a secret in non-ASCII letters.
fn foreign(text: &[u8], end: usize, names: &NameRules) -> Option<AssignedKey> {
    let start = end.saturating_sub(24);
    let is_secret = names.built_in && names_secret(&text[start..end]);
    is_secret.then_some(AssignedKey { start, end, kind: ValueKind::Password })
}

/// Adjusts the kind of a value to its position: some names are secret only in query strings.
fn at_place(text: &[u8], start: usize, end: usize, kind: ValueKind, separator: Separator) -> Option<ValueKind> {
    if kind != ValueKind::Query {
        return Some(kind);
    }
    let name = &text[start..end];
    let name_start = end - name.iter().rev().take_while(|byte| is(**byte, DOTTED)).count();
    let is_parameter = !separator.is_colon && name_start > 0 && matches!(text[name_start - 1], b'?' | b'&' | b';');
    match (is_parameter, name.ends_with(b"key") || name.ends_with(b"Key")) {
        (true, _) => Some(ValueKind::Query),
        (false, true) => Some(ValueKind::Name),
        (false, false) => None,
    }
}

/// Types that follow variable names, in lower case.
const TYPES: [&str; 9] =
    [" as string", " *string", " []byte", " []rune", " [] string", " varchar", " nvarchar", " nchar", " char"];
const LONGEST_TYPE: usize = 16;

/// Finds the separator after a variable name and its type: `password []byte = "x"`, `@password VARCHAR(9) = 'x'`.
pub(crate) fn after_type(text: &[u8], separator: Separator) -> Option<Separator> {
    let near = &text[..separator.name_end];
    if separator.is_colon || !near.ends_with(b" ") {
        return None;
    }
    let line = near[near.len() - near.len().min(LONGEST_TYPE)..].trim_ascii_end();
    let length = line.iter().rposition(|byte| *byte == b'(').filter(|_| line.ends_with(b")"));
    let typed = &line[..length.unwrap_or(line.len())];
    let tail = |length: usize| typed.len().checked_sub(length).map(|start| &typed[start..]);
    let name = TYPES.iter().find(|name| tail(name.len()).is_some_and(|it| it.eq_ignore_ascii_case(name.as_bytes())))?;
    let value_start = string_start(text, separator.value_start);
    let name_end = near.trim_ascii_end().len() - (line.len() - typed.len()) - name.len();
    let is_string = begins_quoted(text, after_spaces(text, value_start));
    is_string.then_some(Separator { name_end, value_start, ..separator })
}

/// The maximum length of a type annotation, in bytes.
const TYPE: usize = 56;

/// Finds the separator after a type annotation, as in `password: str = "x"`, if a string follows.
pub(crate) fn after_type_annotation(text: &[u8], separator: Separator) -> Option<Separator> {
    let rest =
        text.get(separator.value_start..text.len().min(separator.value_start + TYPE)).filter(|_| separator.is_colon)?;
    let belongs = |byte: &u8| {
        is(*byte, DOTTED)
            || matches!(
                byte,
                b' ' | b':' | b'<' | b'>' | b'[' | b']' | b'&' | b'\'' | b'*' | b'?' | b'|' | b',' | b';' | b'(' | b')'
            )
    };
    let length = rest.iter().position(|byte| !belongs(byte)).filter(|at| *at > 0 && rest[*at] == b'=')?;
    let is_type =
        rest[..length].iter().any(u8::is_ascii_alphabetic) && !matches!(rest.get(length + 1), Some(b'=' | b'>'));
    let value_start = string_start(text, after_lines(text, separator.value_start + length + 1));
    let start = after_spaces(text, value_start);
    // A space after the quote means that the quote closes an earlier one.
    let is_string = begins_quoted(text, start) && text.get(start + 1) != Some(&b' ');
    (is_type && is_string).then_some(Separator { value_start, is_colon: false, ..separator })
}

/// Functions and constructors that wrap a string in parentheses.
#[rustfmt::skip]
const WRAPPERS: [&str; 30] = [
    "", "String", "string", "std::string", "String::from", "new String", "SecretString", "SecretString::new",
    "SecretString::from", "SecretStr", "Secret", "Secret::new", "SecretBox::new", "new SecretString", "Zeroizing::new", "str",
    "bytes", "bytearray", "[]byte", "[]rune", "Some", "Ok", "Just", "Optional.of", "Buffer.from", "Arc::from", "Box::from",
    "Cow::from", "Cow::Borrowed", "aws.String",
];
const LONGEST_WRAPPER: usize = 20;

/// Where the string of a value begins. Skips one opening parenthesis or wrapper call: `String::from("x")`.
pub(crate) fn string_start(text: &[u8], value_start: usize) -> usize {
    let start = after_spaces(text, value_start);
    let near = &text[start.min(text.len())..text.len().min(start + LONGEST_WRAPPER)];
    let Some(length) = near.iter().position(|byte| matches!(byte, b'(' | b'{' | b'"' | b'\'')) else {
        return value_start;
    };
    let inner = start + length + 1;
    let is_wrapper = matches!(near[length], b'(' | b'{') && (length > 0 || near[length] == b'(');
    let is_string =
        is_wrapper && begins_quoted(text, inner) && WRAPPERS.iter().any(|it| it.as_bytes() == &near[..length]);
    if is_string { inner } else { value_start }
}

/// The secret part of a value, judged by the first bytes of the value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verdict {
    from: usize,
    to: usize,
    guess: Value,
}

fn takes_line(kind: ValueKind) -> bool {
    matches!(kind, ValueKind::Authorization | ValueKind::Cookie)
}

/// Judges a value by its name and its first [`DECIDES`] bytes.
pub(crate) fn verdict(text: &[u8], key: AssignedKey, separator: Separator) -> Option<Verdict> {
    let takes_line = takes_line(key.kind);
    let start = separator.value_start;
    let name = &text[key.start..key.end];
    let near = &text[..text.len().min(start + DECIDES)];
    // Rule out code and containers before reading more.
    let spaces = near[start.min(near.len())..].iter().take(2).take_while(|byte| **byte == b' ').count();
    if matches!(near.get(start + spaces..), Some([b'(' | b'[' | b'{' | b'|' | b'=', ..] | [b'#', b' ', ..] | []) | None)
        && !takes_line
    {
        return None;
    }
    if !takes_line && (is_key_block(near, start + spaces) || separator.is_colon && is_prompt(near, start, separator)) {
        return None;
    }
    let guess = value(near, start, takes_line)?;
    let (from, to) = secret_part(near, guess, key.kind, name)?;
    let is_tag = separator.is_colon && near.get(guess.end) == Some(&b' ') && is_tag(&near[guess.start..guess.end]);
    let is_none = !guess.is_quoted && !takes_line && (is_tag || is_prose(near, guess, separator));
    (!is_none).then_some(Verdict { from, to, guess })
}

/// Returns the start and end of the secret part of a value, and where the text continues after the value. The
/// secret is hidden to its end, however far away that is.
pub(crate) fn secret(text: &[u8], key: AssignedKey, separator: Separator, verdict: Verdict) -> (usize, usize, usize) {
    let Verdict { from, to, guess } = verdict;
    let whole = value(text, separator.value_start, takes_line(key.kind)).unwrap_or(guess);
    let mut end = if to == guess.end { whole.end } else { to };
    if key.kind == ValueKind::Password && !whole.is_quoted {
        end = phrase_end(text, from, end);
    }
    (from, end, whole.next.max(end))
}

/// Whether a PEM private key begins here. It has its own end mark.
fn is_key_block(text: &[u8], at: usize) -> bool {
    text.get(at..).is_some_and(|rest| rest.starts_with(b"----"))
}

/// Whether this is a prompt, as in `input("Password: ")`: the quote after the colon closes it.
fn is_prompt(text: &[u8], start: usize, separator: Separator) -> bool {
    let is_quoted_name = matches!(text[..separator.name_end].last(), Some(b'"' | b'\''));
    let closes = |rest: &[u8]| matches!(rest, [b'"' | b'\''] | [b'"' | b'\'', b')' | b',' | b';' | b'+' | b'\n', ..]);
    !is_quoted_name
        && text[start..].iter().take(2).position(|byte| *byte != b' ').is_some_and(|at| closes(&text[start + at..]))
}

/// Whether a word after a colon begins a sentence: it has letters only, and another word follows.
fn is_prose(text: &[u8], value: Value, separator: Separator) -> bool {
    let follows = |at: usize| text.get(at) == Some(&b' ') && at_is(text, at + 1, ALNUM);
    separator.is_colon
        && value.start > separator.value_start
        && follows(value.end)
        && text[value.start..value.end].iter().all(u8::is_ascii_alphabetic)
        && text[value.end..line_end(text, value.end)]
            .split(|byte| *byte == b' ')
            .any(|word| !word.is_empty() && is_state(word))
}

/// Where a password of several words ends. Only a password that is alone on its line may have more than one.
fn phrase_end(text: &[u8], start: usize, end: usize) -> usize {
    let is_of_phrase = |byte: &u8| byte.is_ascii_lowercase() || matches!(byte, b' ' | b'-');
    if text.get(end) != Some(&b' ') || !text[start..end].iter().all(is_of_phrase) {
        return end;
    }
    let near = &text[..text.len().min(end + 256)];
    let phrase = end + near[end..].iter().take_while(|byte| is_of_phrase(byte)).count();
    let is_line = phrase == near.len() || ends_line(near, phrase);
    if is_line { end + text[end..phrase].trim_ascii_end().len() } else { end }
}
