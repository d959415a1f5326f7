//! Whether a token looks random or human-written.

use crate::classes::{HEX, JOINT, is};

/// The number of bytes of each class in a token.
#[derive(Debug, Clone, Copy, Default)]
struct ByteCounts {
    digits: usize,
    lower: usize,
    upper: usize,
    others: usize,
    /// Bytes that are invalid in tokens.
    foreign: usize,
    /// The number of neighboring bytes that differ in class: digit, lower case, upper case.
    turns: usize,
}

impl ByteCounts {
    /// Counts up to [`LOOKED_AT`] bytes.
    fn new(token: &[u8]) -> Self {
        let mut counts = Self::default();
        let mut before = 0;
        for byte in token.iter().take(LOOKED_AT) {
            let (count, class) = match byte {
                b'0'..=b'9' => (&mut counts.digits, 1),
                b'a'..=b'z' => (&mut counts.lower, 2),
                b'A'..=b'Z' => (&mut counts.upper, 3),
                _ => (&mut counts.others, 0),
            };
            *count += 1;
            counts.foreign += usize::from(!byte.is_ascii_graphic());
            counts.turns += usize::from(before != 0 && class != 0 && class != before);
            before = class;
        }
        counts
    }
}

/// The maximum number of bytes of a token that are examined.
const LOOKED_AT: usize = 128;

/// Whether a token mixes letters and digits like a random one.
pub(crate) fn is_random(token: &[u8], shortest: usize) -> bool {
    if token.len() < shortest {
        return false;
    }
    let token = &token[..token.len().min(LOOKED_AT)];
    let counts = ByteCounts::new(token);
    let letters = counts.lower + counts.upper;
    counts.foreign == 0
        && counts.digits >= 2
        && letters >= 2
        && counts.turns >= 4.max(token.len() / 8)
        && counts.others * 4 <= token.len()
}

/// Whether a token has a digit and a letter, for tokens with a known prefix.
pub(crate) fn is_mixed(token: &[u8]) -> bool {
    let counts = ByteCounts::new(token);
    let letters = counts.lower + counts.upper;
    letters > 0 && (counts.digits > 0 || (counts.lower > 0 && counts.upper > 0 && counts.turns >= 6))
}

/// Whether a token, which may have dashes, contains a long part that looks random. `sk-circle-fade-dot` does not.
pub(crate) fn has_random_part(token: &[u8]) -> bool {
    token.split(|byte| is(*byte, JOINT)).any(|part| part.len() >= 16 && is_mixed(part)) || is_random(token, 32)
}

/// Whether a token is a UUID with dashes.
pub(crate) fn is_uuid(token: &[u8]) -> bool {
    token.len() == 36
        && token.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => is(*byte, HEX),
        })
}

/// Whether a token consists of hexadecimal digits, like a hash.
pub(crate) fn is_hex(token: &[u8]) -> bool {
    token.iter().all(|byte| is(*byte, HEX))
}

/// Whether a token may be a password that a person chose: it has a letter, and a digit or another character.
pub(crate) fn is_chosen(token: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_' | b'.' | b'/' | b'\'');
    token.len() >= 6 && token.iter().any(u8::is_ascii_alphabetic) && !token.iter().all(is_plain)
}
