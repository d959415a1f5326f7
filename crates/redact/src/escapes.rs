//! Decodes escaped text, and maps positions in the decoded text back to the original. All functions are pure.

use crate::classes::{HEX, at_is};
use crate::span::Span;

/// The set of escapes to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escapes {
    /// Escapes of JSON strings.
    Json,
    /// Backslash escapes of JSON and of most languages, and `%2D` as in URLs.
    All,
}

/// Parses the escape at `at`. Returns its length, and the character or byte that it stands for.
fn escape(text: &[u8], at: usize, which: Escapes) -> Option<(usize, Option<char>, u8)> {
    match text[at] {
        b'\\' => backslash(text, at, which),
        b'%' if which == Escapes::All => Some((3, None, hex(text, at + 1, 2)? as u8)),
        _ => None,
    }
}

fn backslash(text: &[u8], at: usize, which: Escapes) -> Option<(usize, Option<char>, u8)> {
    let simple = |byte| Some((2, None, byte));
    match text.get(at + 1)? {
        b'n' => simple(b'\n'),
        b'r' => simple(b'\r'),
        b't' => simple(b'\t'),
        b'b' | b'f' => simple(b' '),
        byte @ (b'"' | b'\\' | b'/') => simple(*byte),
        b'\'' if which == Escapes::All => simple(b'\''),
        b'x' if which == Escapes::All => Some((4, None, hex(text, at + 2, 2)? as u8)),
        b'u' if which == Escapes::All && text.get(at + 2) == Some(&b'{') => {
            let (length, code) = braced_escape(text, at)?;
            Some((length, Some(code), 0))
        }
        b'u' => {
            let unit = hex(text, at + 2, 4)?;
            let low = (text.get(at + 6..at + 8) == Some(b"\\u")).then(|| hex(text, at + 8, 4)).flatten();
            let (length, code) = match low {
                Some(low @ 0xdc00..=0xdfff) if (0xd800..0xdc00).contains(&unit) => {
                    (12, 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00))
                }
                _ => (6, unit),
            };
            Some((length, Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)), 0))
        }
        _ => None,
    }
}

/// Parses an escape such as `\u{1b}` at `at`, as Rust, JavaScript and our log write it. Returns its length and
/// character.
pub(crate) fn braced_escape(text: &[u8], at: usize) -> Option<(usize, char)> {
    let digits = text.get(at..)?.strip_prefix(b"\\u{")?;
    let count = digits.iter().take(6).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let code = char::from_u32(hex(digits, 0, count)?)?;
    (count > 0 && digits.get(count) == Some(&b'}')).then_some((count + 4, code))
}

fn hex(text: &[u8], at: usize, digits: usize) -> Option<u32> {
    let digits = text.get(at..at + digits)?;
    digits.iter().try_fold(0, |value, byte| Some(value << 4 | (*byte as char).to_digit(16)?))
}

/// Whether the escape at a `\` or a `%` may hide part of a secret. Escaped line breaks and quotes do not.
pub(crate) fn hides(text: &[u8], at: usize) -> bool {
    match text[at] {
        b'%' => at_is(text, at + 1, HEX) && at_is(text, at + 2, HEX),
        _ => match text.get(at + 1) {
            Some(b'/') => true,
            Some(b'x') => hex(text, at + 2, 2).is_some(),
            Some(b'u') => hex(text, at + 2, 4).is_some() || braced_escape(text, at).is_some(),
            _ => false,
        },
    }
}

/// Skips an escape sequence that sets a terminal color. Returns the position after it.
pub(crate) fn after_colour(text: &[u8], at: usize) -> usize {
    if text.get(at) != Some(&b'[') {
        return at;
    }
    let length = text[at + 1..].iter().take(24).take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b'?')).count();
    let end = at + 1 + length;
    end + usize::from(length > 0 && text.get(end).is_some_and(u8::is_ascii_alphabetic))
}

/// Calls `show` for each escape, with its position, its length and its decoded bytes.
fn walk(text: &[u8], which: Escapes, mut show: impl FnMut(usize, usize, &[u8])) {
    let mut at = 0;
    while let Some(found) = next(&text[at..], which) {
        let start = at + found;
        let Some((length, character, byte)) = escape(text, start, which) else {
            at = start + 1;
            continue;
        };
        match character {
            Some(character) => show(start, length, character.encode_utf8(&mut [0; 4]).as_bytes()),
            None => show(start, length, &[byte]),
        }
        at = start + length;
    }
}

fn next(text: &[u8], which: Escapes) -> Option<usize> {
    match which {
        Escapes::Json => memchr::memchr(b'\\', text),
        Escapes::All => memchr::memchr2(b'\\', b'%', text),
    }
}

/// Decodes the escapes of a text. The result may not be UTF-8.
pub(crate) fn decode(text: &[u8], which: Escapes) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut copied = 0;
    walk(text, which, |at, length, meant| {
        out.extend_from_slice(&text[copied..at]);
        out.extend_from_slice(meant);
        copied = at + length;
    });
    out.extend_from_slice(&text[copied..]);
    out
}

/// Maps spans of the decoded text to the original text. The spans must be sorted and must not overlap.
pub(crate) fn translate(text: &[u8], which: Escapes, spans: &mut [Span]) {
    if spans.is_empty() {
        return;
    }
    for span in spans.iter_mut() {
        span.quotes = span.quotes.map(|level| level + 1);
    }
    let mut places = Places { spans, moved: 0 };
    // How many bytes longer the original is than the decoded text, up to this escape.
    let mut ahead = 0;
    walk(text, which, |at, length, meant| {
        let start = at - ahead;
        places.move_to(start, start + meant.len(), at, ahead);
        ahead += length - meant.len();
    });
    places.move_to(usize::MAX, usize::MAX, usize::MAX, ahead);
}

/// The starts and ends of the spans, in order.
struct Places<'s> {
    spans: &'s mut [Span],
    moved: usize,
}

impl Places<'_> {
    /// Maps the starts and ends up to an escape that was decoded to `start..end`. A position inside the escape
    /// maps to `source`, its beginning, or to its end.
    fn move_to(&mut self, start: usize, end: usize, source: usize, ahead: usize) {
        while let Some(span) = self.spans.get_mut(self.moved / 2) {
            let is_start = self.moved.is_multiple_of(2);
            let place = if is_start { &mut span.start } else { &mut span.end };
            match *place {
                it if it <= start => *place = it + ahead,
                // A span that begins or ends within an escape covers all of it.
                it if it < end && is_start => *place = source,
                it => {
                    *place = if it < end { end } else { it };
                    return;
                }
            }
            self.moved += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_the_meaning_is_found_in_the_text() {
        for (text, which, meant, part) in [
            (r#"a\u002db\"c\/d"#, Escapes::Json, "a-b\"c/d", "\\u002db\\\""),
            ("x%2Dy%41", Escapes::All, "x-yA", "y%41"),
            (r"\ud83d\ude00k", Escapes::Json, "😀k", "k"),
            (r"\q\u12", Escapes::Json, r"\q\u12", r"\u12"),
            (r"\u{2d}a\u{1f600}", Escapes::All, "-a😀", r"a\u{1f600}"),
            (r"\u{}\u{110000}\u{2d", Escapes::All, r"\u{}\u{110000}\u{2d", r"\u{2d"),
            (r"\u{2d}", Escapes::Json, r"\u{2d}", r"{2d}"),
        ] {
            let decoded = decode(text.as_bytes(), which);
            assert_eq!(String::from_utf8_lossy(&decoded), meant);
            let wanted = decode(part.as_bytes(), which);
            let start = decoded.windows(wanted.len()).position(|it| it == wanted).unwrap();
            let mut spans = [Span::secret(start, start + wanted.len())];
            translate(text.as_bytes(), which, &mut spans);
            assert_eq!(&text[spans[0].start..spans[0].end], part, "{text}");
        }
    }
}
