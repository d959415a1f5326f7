//! A lookup table of byte classes. All functions are pure.

/// ASCII letters and digits.
pub(crate) const ALNUM: u16 = 1;
/// `_` and `-`.
pub(crate) const JOINT: u16 = 1 << 1;
/// A full stop.
pub(crate) const DOT: u16 = 1 << 2;
/// `+` and `/`.
pub(crate) const BASE64: u16 = 1 << 3;
/// `=`.
pub(crate) const PADDING: u16 = 1 << 4;
/// Hexadecimal digits of either case.
pub(crate) const HEX: u16 = 1 << 5;
/// Digits and upper-case letters.
pub(crate) const UPPER: u16 = 1 << 6;
/// ASCII white space.
pub(crate) const SPACE: u16 = 1 << 7;
/// `$`.
pub(crate) const DOLLAR: u16 = 1 << 8;

/// The bytes of most tokens.
pub(crate) const TOKEN: u16 = ALNUM | JOINT;
/// The bytes of tokens with several parts.
pub(crate) const DOTTED: u16 = TOKEN | DOT;
/// The bytes of base64 in both alphabets, with padding.
pub(crate) const ENCODED: u16 = TOKEN | BASE64 | PADDING;

static FLAGS: [u16; 256] = flags();

const fn flags() -> [u16; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 128 {
        let byte = at as u8;
        table[at] = match byte {
            b'0'..=b'9' => ALNUM | HEX | UPPER,
            b'A'..=b'F' => ALNUM | HEX | UPPER,
            b'G'..=b'Z' => ALNUM | UPPER,
            b'a'..=b'f' => ALNUM | HEX,
            b'g'..=b'z' => ALNUM,
            b'_' | b'-' => JOINT,
            b'.' => DOT,
            b'+' | b'/' => BASE64,
            b'=' => PADDING,
            b' ' | b'\t' | b'\n' | b'\r' => SPACE,
            b'$' => DOLLAR,
            _ => 0,
        };
        at += 1;
    }
    table
}

/// Whether a byte is in at least one of the classes.
#[inline]
pub(crate) fn is(byte: u8, classes: u16) -> bool {
    FLAGS[byte as usize] & classes != 0
}

/// Whether the byte at `at` exists and is in one of the classes.
#[inline]
pub(crate) fn at_is(text: &[u8], at: usize, classes: u16) -> bool {
    text.get(at).is_some_and(|byte| is(*byte, classes))
}

/// Where the run of bytes in these classes that begins at `start` ends.
#[inline]
pub(crate) fn run_end(text: &[u8], start: usize, classes: u16) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    start + rest.iter().position(|byte| !is(*byte, classes)).unwrap_or(rest.len())
}

/// Where the run of bytes in these classes that ends at `end` begins. Looks back at most `limit` bytes.
pub(crate) fn run_start(text: &[u8], end: usize, classes: u16, limit: usize) -> usize {
    let floor = end.saturating_sub(limit);
    let before = text.get(floor..end).unwrap_or_default();
    before.iter().rposition(|byte| !is(*byte, classes)).map_or(floor, |at| floor + at + 1)
}

/// Whether `text` continues at `at` with `lower`, ignoring case.
pub(crate) fn continues(text: &[u8], at: usize, lower: &[u8]) -> bool {
    text.get(at..at + lower.len()).is_some_and(|part| part.eq_ignore_ascii_case(lower))
}
