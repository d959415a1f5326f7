//! What a token looks like: random, or written by a person.

use crate::classes::{HEX, JOINT, is};

/// Letters and digits of a token.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    digits: usize,
    lower: usize,
    upper: usize,
    others: usize,
    /// Bytes that no token contains.
    foreign: usize,
    /// How often a letter follows a digit, a digit a letter, or a small letter a capital one.
    turns: usize,
}

/// The classes of a byte, as counters of one byte each: digits, lower, upper, others, foreign.
static COUNTED: [u64; 256] = counted();

const fn counted() -> [u64; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        table[at] = match at as u8 {
            b'0'..=b'9' => 1,
            b'a'..=b'z' => 1 << 8,
            b'A'..=b'Z' => 1 << 16,
            0x21..0x7f => 1 << 24,
            _ => 1 << 24 | 1 << 32,
        };
        at += 1;
    }
    table
}

/// Counts up to [`LOOKED_AT`] bytes: more do not fit into the counters.
fn tally(token: &[u8]) -> Tally {
    /// The counters of letters and digits.
    const MIXED: u64 = 0xff_ffff;
    let (mut counts, mut before, mut turns) = (0, 0, 0);
    for byte in &token[..token.len().min(LOOKED_AT)] {
        let counted = COUNTED[usize::from(*byte)];
        counts += counted;
        let class = counted & MIXED;
        turns += usize::from(before != 0 && class != 0 && class != before);
        before = class;
    }
    let counter = |number: u32| (counts >> (8 * number) & 0xff) as usize;
    let [digits, lower, upper, others, foreign] = [0, 1, 2, 3, 4].map(counter);
    Tally { digits, lower, upper, others, foreign, turns }
}

/// How much of a token is looked at.
const LOOKED_AT: usize = 128;

/// Whether a token has letters and digits, mixed like random ones.
pub(crate) fn is_random(token: &[u8], shortest: usize) -> bool {
    if token.len() < shortest {
        return false;
    }
    let token = &token[..token.len().min(LOOKED_AT)];
    let tally = tally(token);
    let letters = tally.lower + tally.upper;
    tally.foreign == 0
        && tally.digits >= 2
        && letters >= 2
        && tally.turns >= 4.max(token.len() / 8)
        && tally.others * 4 <= token.len()
}

/// Whether a token has a digit and a letter: for tokens whose beginning is known.
pub(crate) fn is_mixed(token: &[u8]) -> bool {
    let tally = tally(token);
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
    let is_plain = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_' | b'.' | b'/' | b'\'');
    token.len() >= 6 && token.iter().any(u8::is_ascii_alphabetic) && !token.iter().all(is_plain)
}
