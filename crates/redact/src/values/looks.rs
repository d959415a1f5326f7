//! What a token looks like: random, or written by a person.

use crate::classes::{ALNUM, HEX, JOINT, is};

/// Letters and digits of a token.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    digits: usize,
    lower: usize,
    upper: usize,
    others: usize,
    /// How often a letter follows a digit, a digit a letter, or a small letter a capital one.
    turns: usize,
    is_hex: bool,
}

fn tally(token: &[u8]) -> Tally {
    let mut tally = Tally { is_hex: true, ..Tally::default() };
    let mut before = 0;
    for byte in token {
        let class = match byte {
            b'0'..=b'9' => &mut tally.digits,
            b'a'..=b'z' => &mut tally.lower,
            b'A'..=b'Z' => &mut tally.upper,
            _ => &mut tally.others,
        };
        *class += 1;
        let class = u8::from(byte.is_ascii_digit())
            + 2 * u8::from(byte.is_ascii_lowercase())
            + 4 * u8::from(byte.is_ascii_uppercase());
        tally.turns += usize::from(before != 0 && class != 0 && class != before);
        before = class;
        tally.is_hex &= is(*byte, HEX);
    }
    tally
}

/// How much of a token is looked at.
const LOOKED_AT: usize = 128;

/// Whether a token has letters and digits, mixed like random ones.
pub(crate) fn is_random(token: &[u8], shortest: usize) -> bool {
    if token.len() < shortest || !token.iter().take(LOOKED_AT).all(|byte| (0x21..0x7f).contains(byte)) {
        return false;
    }
    let token = &token[..token.len().min(LOOKED_AT)];
    let tally = tally(token);
    let letters = tally.lower + tally.upper;
    tally.digits >= 2 && letters >= 2 && tally.turns >= 4.max(token.len() / 8) && tally.others * 4 <= token.len()
}

/// Whether a token has a digit and a letter: for tokens whose beginning is known.
pub(crate) fn is_mixed(token: &[u8]) -> bool {
    let tally = tally(&token[..token.len().min(LOOKED_AT)]);
    let letters = tally.lower + tally.upper;
    letters > 0 && (tally.digits > 0 || (tally.lower > 0 && tally.upper > 0 && tally.turns >= 6))
}

/// Whether a token that may have dashes has a long part that looks random: `sk-circle-fade-dot` does not.
pub(crate) fn has_random_part(token: &[u8]) -> bool {
    token.split(|byte| is(*byte, JOINT)).any(|part| part.len() >= 16 && is_mixed(part)) || is_random(token, 32)
}

/// Whether it is a number of 128 bits as programs write it, with dashes.
pub(crate) fn is_uuid(token: &[u8]) -> bool {
    token.len() == 36
        && token.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => is(*byte, HEX),
        })
}

/// Whether it consists of hexadecimal digits, like a hash.
pub(crate) fn is_hex(token: &[u8]) -> bool {
    token.iter().all(|byte| is(*byte, HEX))
}

/// Whether a person may have chosen it as a password: it has a letter, and a digit or another character.
pub(crate) fn is_chosen(token: &[u8]) -> bool {
    let letters = token.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    let others =
        token.iter().filter(|byte| !is(**byte, ALNUM) && !matches!(byte, b'-' | b'_' | b'.' | b'/' | b'\'')).count();
    let digits = token.iter().filter(|byte| byte.is_ascii_digit()).count();
    token.len() >= 6 && letters > 0 && digits + others > 0
}
