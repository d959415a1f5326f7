//! A part of `multipart/form-data`, by its name: `Content-Disposition: form-data; name="password"`, and a body after a blank
//! line. Pure.

use crate::assignment::Key;
use crate::value::Value;

/// How far the beginning of the header is before the name, and how long the further headers are.
const HEADERS: usize = 512;

/// A blank line, as texts have it.
const BLANK: [&[u8]; 4] = [b"\r\n\r\n", b"\n\n", b"\\r\\n\\r\\n", b"\\n\\n"];
/// What follows a body: the end of its last line, and two dashes.
const BOUNDARY: [&[u8]; 4] = [b"\r\n--", b"\n--", b"\\r\\n--", b"\\n--"];

/// The body of the part whose name stands at a place.
pub(crate) fn part(text: &[u8], key: Key, name: Value) -> Option<Value> {
    let before = &text[key.end.saturating_sub(HEADERS)..key.end];
    let line = &before[memchr::memrchr(b'\n', before).map_or(0, |at| at + 1)..];
    memchr::memmem::find(line, b"form-data")?;
    let headers = &text[name.next..text.len().min(name.next + HEADERS)];
    let blank = |mark: &[u8]| memchr::memmem::find(headers, mark).map(|at| at + mark.len());
    let (length, mark) = BLANK.iter().enumerate().filter_map(|(at, mark)| Some((blank(mark)?, at))).min()?;
    let start = name.next + length;
    let length = memchr::memmem::find(&text[start..], BOUNDARY[mark]);
    let end = length.map_or(text.len(), |length| start + length);
    let end = start + text[start..end].trim_ascii_end().len();
    Some(Value { start, end, next: end, is_quoted: true })
}
