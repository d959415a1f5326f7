//! Recognizes placeholders: references, code, types, and words about a value. All functions are pure.

use crate::keys::{ValueKind, Words, built_in};
use crate::shapes::SHAPES;
use crate::value::Value;
use crate::values::looks;

/// Whether an unquoted value is a placeholder, code, a type or a word about the value.
pub(crate) fn is_no_value(text: &[u8], value: Value, key: &[u8]) -> bool {
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
    !goes_on && SHAPES.states.contains(&*buffer)
}

const LONGEST_REFERENCE: usize = 96;

/// Whether a word only refers to a value: `$TOKEN`, `${{ secrets.TOKEN }}`, `{token}`, `<token>`, `%s`.
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
        [b'$', first, rest @ ..] if first.is_ascii_alphabetic() || *first == b'_' => {
            let is_upper = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'_';
            let mut after_name = rest.iter().skip_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_');
            is_upper(first) && rest.iter().all(is_upper)
                || rest.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'_')
                || matches!(after_name.next(), Some(b'[' | b'-' | b'.'))
        }
        [b'{', b'{', ..] => true,
        [b'{', rest @ .., b'}'] | [b'<', rest @ .., b'>'] | [b'%', rest @ .., b'%'] => is_name(rest),
        [b'%', b'(' | b'{', ..] => true,
        _ => word.iter().all(|byte| *byte == b'*' || *byte == b'x' || *byte == b'X') && word.len() >= 3,
    }
}

/// YAML tags whose values refer to the real value.
const REFERRING_TAGS: [&[u8]; 10] =
    [b"!secret", b"!Ref", b"!Sub", b"!GetAtt", b"!ImportValue", b"!Join", b"!ENV", b"!env", b"!include", b"!reference"];

/// Whether a word is a YAML tag before a value: a type, or one of [`REFERRING_TAGS`].
pub(crate) fn is_tag(word: &[u8]) -> bool {
    let is_type = |name: &[u8]| !name.is_empty() && name.iter().all(u8::is_ascii_lowercase);
    REFERRING_TAGS.contains(&word) || word.strip_prefix(b"!!").is_some_and(is_type)
}

/// Whether a value is an expression: a call, a path of names, an index, a keyword.
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
    let is_keyword = SHAPES.keywords.contains(word) && text.get(value.end) == Some(&b' ');
    is_call
        || is_keyword
        || word.len() <= 2 && word[0].is_ascii_alphabetic()
        || is_names(word)
        || is_variable(text, value)
}

/// Whether a word is a path of names such as `self.config.token`, made of letters.
fn is_names(word: &[u8]) -> bool {
    let parts = || word.split(|byte| matches!(byte, b'.' | b'?' | b':')).filter(|part| !part.is_empty());
    let is_name = |part: &[u8]| part.len() <= 32 && part.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let is_known = parts().next().is_some_and(|root| SHAPES.roots.contains(root));
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

/// Whether a value is a variable in a statement with spaces, as in `token = candidate;`.
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

/// Whether a value repeats the name of its key: `password=password`, `token=user_token`.
fn is_same_name(word: &[u8], key: &[u8]) -> bool {
    if word.is_empty() || !word.iter().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-')) {
        return false;
    }
    let (own, other) = (Words::parse(key), Words::parse(word));
    let has_parts =
        word.contains(&b'_') || word[1..].iter().any(u8::is_ascii_uppercase) && word.iter().any(u8::is_ascii_lowercase);
    own.ends_with(&other) || has_parts && built_in(other).is_some_and(ValueKind::is_certain)
}
