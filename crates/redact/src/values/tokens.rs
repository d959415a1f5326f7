//! Tokens without a known prefix: recognized by a mark inside them, or by their parts.

use crate::classes::{ALNUM, DOT, HEX, TOKEN, at_is, is, run_end};
use crate::shapes::SHAPES;
use crate::values::looks;

/// Finds the secret of an Azure application around a `~`: three characters, a digit, `Q~`, and more.
pub(crate) fn azure_application(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let belongs = |byte: &u8| is(*byte, TOKEN | DOT) || *byte == b'~';
    let [.., _, _, _, digit, b'Q'] = &text[..at] else { return None };
    if !digit.is_ascii_digit() || !text[at - 5..at].iter().all(belongs) {
        return None;
    }
    let length = text[at + 1..].iter().take(40).take_while(|byte| belongs(byte)).count();
    (length >= 28).then_some((at - 5, at + 1 + length))
}

/// Finds a password hash that begins at a `$`.
pub(crate) fn password_hash(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let rest = &text[at..];
    let mark = SHAPES.hashes.iter().find(|mark| rest.starts_with(mark.as_bytes()))?;
    let is_within = at > 0 && (is(text[at - 1], TOKEN | DOT) || text[at - 1] == b'$');
    if is_within || !at_is(rest, mark.len(), TOKEN | DOT) {
        return None;
    }
    let belongs = |byte: &u8| is(*byte, TOKEN | DOT) || matches!(byte, b'$' | b'/' | b'+' | b'=' | b',');
    let near = rest.iter().take(40).take_while(|byte| belongs(byte)).count();
    if near < 20 || !looks::is_mixed(&rest[..near]) {
        return None;
    }
    Some((at, at + rest.iter().take_while(|byte| belongs(byte)).count()))
}

/// Finds a token of several parts without a known prefix. Returns its end.
pub(crate) fn find_dotted(text: &[u8], start: usize, end: usize) -> Option<usize> {
    let first = run_end(&text[..text.len().min(start + 80)], start, TOKEN);
    if text.get(first) != Some(&b'.') {
        return None;
    }
    let part = |from: usize| run_end(&text[..text.len().min(from + 128)], from, TOKEN);
    let second = part(first + 1);
    let lengths = (first - start, second - first - 1);
    // Discord: an id in base64, a timestamp, and a signature.
    if (23..=28).contains(&lengths.0)
        && lengths.1 == 6
        && matches!(text[start], b'M' | b'N' | b'O')
        && text.get(second) == Some(&b'.')
    {
        let third = part(second + 1);
        return (third - second > 26).then_some(third);
    }
    // Zhipu: 32 hexadecimal digits and 16 letters.
    let is_pair = end == first
        && lengths == (32, 16)
        && looks::is_hex(&text[start..end])
        && looks::is_mixed(&text[first + 1..second]);
    (is_pair && !at_is(text, second, ALNUM | HEX)).then_some(second)
}

/// Whether a run has the mark and the length of an Azure key.
pub(crate) fn has_azure_mark(run: &[u8]) -> bool {
    (40..=90).contains(&run.len())
        && SHAPES.marks.iter().any(|mark| memchr::memmem::find(&run[28..], mark.as_bytes()).is_some())
}

/// Whether a word looks like the secret half of a key pair, not like a hash, an id or a path.
pub(crate) fn is_cloud_secret(word: &[u8]) -> bool {
    let count = |class: fn(&&u8) -> bool| word.iter().filter(class).count();
    let (upper, lower) = (count(|it| it.is_ascii_uppercase()), count(|it| it.is_ascii_lowercase()));
    let others = count(|it| it.is_ascii_digit() || matches!(it, b'+' | b'/'));
    upper >= 4 && lower >= 4 && others >= 1 && word.len() - upper - lower <= word.len() / 2
}
