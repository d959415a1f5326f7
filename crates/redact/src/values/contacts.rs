//! E-mail addresses and telephone numbers. Off by default; a rule file turns them on.

use crate::classes::{ALNUM, DOT, DOTTED, JOINT, at_is, run_end, run_start};

/// Returns the start and end of the e-mail address around an `@`.
pub(crate) fn email(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut start = at;
    while start > at.saturating_sub(64)
        && (crate::classes::is(text[start - 1], DOTTED) || matches!(text[start - 1], b'+' | b'%' | b'\''))
    {
        start -= 1;
    }
    let mut end = run_end(&text[..text.len().min(at + 1 + 253)], at + 1, ALNUM | JOINT | DOT);
    while end > at + 1 && matches!(text[end - 1], b'.' | b'-' | b'_') {
        end -= 1;
    }
    let top = run_start(text, end, ALNUM, 64);
    let has_top =
        top > at + 1 && text[top - 1] == b'.' && end - top >= 2 && text[top..end].iter().all(u8::is_ascii_alphabetic);
    (start < at && has_top && at_is(text, at + 1, ALNUM)).then_some((start, end))
}

/// Where the telephone number ends that begins at a `+`, a `(` or a digit.
pub(crate) fn phone(text: &[u8], start: usize) -> Option<(usize, usize)> {
    if start > 0
        && (text[start - 1].is_ascii_alphanumeric()
            || matches!(text[start - 1], b'.' | b'-' | b'/' | b'_' | b'+' | b'('))
    {
        return None;
    }
    let (mut digits, mut groups, mut at) = (0, 1, start);
    let mut end = start;
    while let Some(byte) = text.get(at).filter(|_| at - start < 24) {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                end = at + 1;
            }
            b' ' | b'-' | b'.' | b'/' | b')' if text[at - 1] != b' ' || *byte == b')' => groups += 1,
            b'+' if at == start => {}
            b'(' if matches!(text.get(at + 1), Some(b'0'..=b'9')) => {}
            _ => break,
        }
        at += 1;
    }
    let is_apart =
        !at_is(text, end, ALNUM) && !matches!(text.get(end..end + 2), Some([b'.' | b'-' | b':' | b'/', b'0'..=b'9']));
    let is_mobile =
        text[start] == b'1' && digits == 11 && groups == 1 && matches!(text.get(start + 1), Some(b'3'..=b'9'));
    let is_grouped = groups >= 3 && (10..=11).contains(&digits) && matches!(text[start], b'(' | b'0'..=b'9');
    let is_international = text[start] == b'+' && (8..=15).contains(&digits);
    (is_apart && (is_mobile || is_grouped || is_international)).then_some((start, end))
}
