//! Text in base64. The first bytes decide whether to decode, so that images and hashes cost little.

use crate::classes::{ALNUM, BASE64, JOINT, PADDING, at_is, is, run_end, run_start};

/// The minimum length of a run, in bytes. No secret can be recognized in a shorter one.
const SHORTEST: usize = 20;
/// The maximum number of bytes of a run that are decoded.
const LONGEST: usize = 256 << 10;
/// The number of bytes that decide whether a run is text.
const LOOKED_AT: usize = 24;
/// The line lengths that wrapped runs use.
const WRAPPED: std::ops::RangeInclusive<usize> = 60..=76;

const CHARACTERS: u16 = ALNUM | BASE64 | JOINT;

fn sextet(byte: u8) -> Option<u32> {
    let sextet = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    };
    Some(u32::from(sextet))
}

/// Decodes base64 in either alphabet. Skips white space and escaped line breaks. Stops at any other byte.
pub(crate) fn decode(text: &[u8], limit: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity((text.len() / 4 * 3 + 3).min(limit + 3));
    let (mut bits, mut count) = (0_u32, 0);
    let mut at = 0;
    while at < text.len() && out.len() < limit {
        let byte = text[at];
        at += 1;
        if let Some(sextet) = sextet(byte) {
            bits = bits << 6 | sextet;
            count += 6;
            if count >= 8 {
                count -= 8;
                out.push((bits >> count) as u8);
            }
        } else if byte == b'\\' && matches!(text.get(at), Some(b'n' | b'r')) {
            at += 1;
        } else if !byte.is_ascii_whitespace() {
            break;
        }
    }
    out
}

/// Returns the first decoded bytes of a run, and their number.
pub(crate) fn begins(run: &[u8]) -> ([u8; LOOKED_AT], usize) {
    let mut out = [0; LOOKED_AT];
    let mut length = 0;
    for (group, out) in run.chunks(4).zip(out.chunks_exact_mut(3)) {
        let sextets = group.iter().map_while(|byte| sextet(*byte));
        let (bits, count) = sextets.fold((0_u32, 0), |(bits, count), sextet| (bits << 6 | sextet, count + 1));
        // Always write three bytes. `length` excludes the bytes after the last valid one.
        out.copy_from_slice(&(bits << (6 * (4 - count))).to_be_bytes()[1..]);
        length += count * 6 / 8;
        if count < 4 {
            break;
        }
    }
    (out, length)
}

/// Whether a run starts with text.
fn begins_text(run: &[u8]) -> bool {
    let (bytes, length) = begins(run);
    is_text(&bytes[..length])
}

fn is_text(bytes: &[u8]) -> bool {
    let wide = bytes.len() >= 8 && bytes.iter().skip(1).step_by(2).all(|byte| *byte == 0);
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t' | 0x1b);
    if wide {
        return bytes.iter().step_by(2).all(is_plain);
    }
    let plain = bytes.iter().filter(|byte| is_plain(byte)).count();
    // Non-ASCII letters form valid sequences. Random bytes rarely do.
    plain == bytes.len() || plain * 3 > bytes.len() && is_nearly_utf8(bytes)
}

fn is_nearly_utf8(bytes: &[u8]) -> bool {
    let has_control = bytes.iter().any(|byte| *byte < b' ' && !matches!(byte, b'\n' | b'\r' | b'\t'));
    !has_control && std::str::from_utf8(bytes).map_or_else(|error| error.error_len().is_none(), |_| true)
}

/// A base64 run around a long word: its end, and the start of its decoded text, if it decodes to text.
pub(crate) struct Run {
    pub(crate) end: usize,
    pub(crate) text_start: Option<usize>,
}

/// Examines the run around a word. The run begins at `floor` or later.
pub(crate) fn around(text: &[u8], word: usize, word_end: usize, floor: usize) -> Run {
    let start = run_start(text, word, CHARACTERS, word - floor.min(word));
    let mut end = run_end(text, word_end, CHARACTERS);
    let is_candidate = |at: usize| end - at >= SHORTEST && begins_text(&text[at..end]);
    let text_start = [start, word].into_iter().find(|at| is_candidate(*at));
    if text_start.is_some() {
        end = wrapped_end(text, start, end);
    }
    Run { end: run_end(text, end, PADDING), text_start }
}

/// Returns the end of the last line, if a run continues on more lines.
fn wrapped_end(text: &[u8], start: usize, mut end: usize) -> usize {
    let mut length = end - start;
    while WRAPPED.contains(&length) {
        let mut next = end;
        while let Some(skip) = line_end(text, next) {
            next += skip;
        }
        while matches!(text.get(next), Some(b' ' | b'\t')) && next - end < 16 {
            next += 1;
        }
        if next == end || !at_is(text, next, CHARACTERS) {
            break;
        }
        let line = run_end(text, next, CHARACTERS);
        if line - next > length {
            break;
        }
        (length, end) = (line - next, line);
    }
    end
}

fn line_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'\n' | b'\r' => Some(1),
        b'\\' if matches!(text.get(at + 1), Some(b'n' | b'r')) => Some(2),
        _ => None,
    }
}

/// Decodes a run to text. Windows programs encode UTF-16: only the first byte of each ASCII character is kept.
pub(crate) fn text(run: &[u8]) -> Vec<u8> {
    let bytes = decode(run, LONGEST);
    let is_wide = bytes.len() >= 8 && bytes[..8].iter().skip(1).step_by(2).all(|byte| *byte == 0);
    if is_wide { bytes.into_iter().step_by(2).collect() } else { bytes }
}

/// Whether a token is base64 of `name:password`, as in HTTP basic authentication.
pub(crate) fn is_name_and_password(token: &[u8]) -> bool {
    let token = &token[..token.len().min(512)];
    let is_base64 = token.iter().all(|byte| is(*byte, CHARACTERS | PADDING));
    if !is_base64 {
        return false;
    }
    let bytes = decode(token, 384);
    bytes.len() >= 4 && bytes.contains(&b':') && is_text(&bytes)
}
