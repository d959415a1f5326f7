//! Payment card numbers: an issuer's prefix and length, digits grouped as people write them, and a valid Luhn
//! checksum.

use crate::classes::{ALNUM, at_is};

/// The maximum number of digits in a card number.
const MOST: usize = 19;

/// Whether a word of this length may begin a card number: as its first group, or as the whole number.
#[inline]
pub(crate) fn may_begin(length: usize) -> bool {
    matches!(length, 4 | 13..=MOST)
}

/// Where the card number that begins at `start` ends. Text before `floor` is not part of it.
pub(crate) fn find(text: &[u8], start: usize, floor: usize) -> Option<usize> {
    let before = &text[floor.min(start)..start];
    if !matches!(text[start], b'2'..=b'6' | b'8' | b'9') || is_part_of_number(before) || follows_account(before) {
        return None;
    }
    let mut digits = [0; MOST];
    let (mut count, mut at) = (0, start);
    let (mut groups, mut group) = ([0_usize; 6], 0);
    let mut separator = None;
    let mut found = None;
    loop {
        match text.get(at) {
            Some(digit @ b'0'..=b'9') if count < MOST => {
                digits[count] = digit - b'0';
                count += 1;
                groups[group] += 1;
                at += 1;
                continue;
            }
            Some(b'0'..=b'9') => return found,
            _ => {}
        }
        // A group ends here. The card number may end too, or continue with another group.
        let is_card = |digits: &[u8]| has_sensible_groups(&groups[..=group]) && is_issued(digits) && luhn(digits);
        if count >= 13 && is_apart(text, at) && is_card(&digits[..count]) {
            found = Some(at);
        }
        match text.get(at) {
            Some(byte @ (b' ' | b'-')) if at_digit(text, at + 1) && separator.is_none_or(|it| it == *byte) => {
                group += 1;
                if group == groups.len() {
                    return found;
                }
                separator = Some(*byte);
                at += 1;
            }
            _ => return found,
        }
    }
}

fn is_apart(text: &[u8], end: usize) -> bool {
    !at_is(text, end, ALNUM) && !matches!(text.get(end..end + 2), Some([b'.' | b'_', b'0'..=b'9']))
}

fn at_digit(text: &[u8], at: usize) -> bool {
    text.get(at).is_some_and(u8::is_ascii_digit)
}

/// Whether a digit after this text would continue a longer number.
fn is_part_of_number(before: &[u8]) -> bool {
    match before {
        [.., digit, b'.' | b'-' | b'+' | b','] => digit.is_ascii_digit(),
        [.., b'_'] => true,
        [.., byte] => byte.is_ascii_alphanumeric(),
        [] => false,
    }
}

/// Whether the text ends with the beginning of an IBAN, as in `DE89 3704`.
fn follows_account(before: &[u8]) -> bool {
    matches!(before, [.., b'A'..=b'Z', b'A'..=b'Z', b'0'..=b'9', b'0'..=b'9', b' '])
}

fn has_sensible_groups(groups: &[usize]) -> bool {
    matches!(groups, [_] | [4, 4, 4, 1..=4] | [4, 4, 4, 4, 1..=3] | [4, 6, 4 | 5])
}

fn is_issued(digits: &[u8]) -> bool {
    let prefix = digits.iter().take(6).fold(0, |value, digit| value * 10 + u32::from(*digit));
    match digits.len() {
        13 | 19 if prefix / 100_000 == 4 => true,
        14 => matches!(prefix / 1_000, 300..=305 | 309) || matches!(prefix / 10_000, 36 | 38 | 39),
        15 => matches!(prefix / 10_000, 34 | 37) || matches!(prefix / 100, 2131 | 1800),
        16..=19 => {
            let two = prefix / 10_000;
            let is_visa = prefix / 100_000 == 4 && digits.len() == 16;
            let is_mastercard = (matches!(two, 51..=55) || matches!(prefix / 100, 2221..=2720)) && digits.len() == 16;
            let is_discover = prefix / 100 == 6011 || two == 65 || matches!(prefix / 1_000, 644..=649);
            let is_union_pay = two == 62 || two == 81;
            let is_jcb = matches!(prefix / 100, 3528..=3589);
            let is_maestro = matches!(prefix / 100, 5018 | 5020 | 5038 | 5893 | 6304 | 6759 | 6761..=6763);
            let is_mir = matches!(prefix / 100, 2200..=2204) && digits.len() == 16;
            let is_rupay = matches!(two, 60 | 82) && digits.len() == 16;
            is_visa || is_mastercard || is_discover || is_union_pay || is_jcb || is_maestro || is_mir || is_rupay
        }
        _ => false,
    }
}

fn luhn(digits: &[u8]) -> bool {
    let weighted = |(at, digit): (usize, &u8)| match (at % 2, u32::from(*digit)) {
        (0, digit) => digit,
        (_, digit @ 0..=4) => digit * 2,
        (_, digit) => digit * 2 - 9,
    };
    let sum: u32 = digits.iter().rev().enumerate().map(weighted).sum();
    let is_one_digit = digits.iter().all(|digit| *digit == digits[0]);
    sum.is_multiple_of(10) && !is_one_digit
}
