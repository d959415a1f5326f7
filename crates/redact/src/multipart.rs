//! A part of `multipart/form-data`, by its name: `Content-Disposition: form-data; name="password"`, and a body after a blank
//! line. Pure.

use crate::assignment::Key;
use crate::judge::secret_up_to;
use crate::keys::Kind;
use crate::value::Value;

/// How far the beginning of the header is before the name, and how long the further headers are.
const HEADERS: usize = 512;

/// A blank line, as texts have it.
const BLANK: [&[u8]; 4] = [b"\r\n\r\n", b"\n\n", b"\\r\\n\\r\\n", b"\\n\\n"];
/// What follows a body: the end of its last line, and two dashes.
const BOUNDARY: [&[u8]; 4] = [b"\r\n--", b"\n--", b"\\r\\n--", b"\\n--"];

/// A part: where its body begins, and what follows that.
#[derive(Debug)]
pub(crate) struct Part {
    start: usize,
    boundary: &'static [u8],
}

/// The part whose name stands at a place.
pub(crate) fn part(text: &[u8], key: Key, name: Value) -> Option<Part> {
    let before = &text[key.end.saturating_sub(HEADERS)..key.end];
    let line = &before[memchr::memrchr(b'\n', before).map_or(0, |at| at + 1)..];
    memchr::memmem::find(line, b"form-data")?;
    let headers = &text[name.next..text.len().min(name.next + HEADERS)];
    let blank = |mark: &[u8]| memchr::memmem::find(headers, mark).map(|at| at + mark.len());
    let (length, mark) = BLANK.iter().enumerate().filter_map(|(at, mark)| Some((blank(mark)?, at))).min()?;
    Some(Part { start: name.next + length, boundary: BOUNDARY[mark] })
}

impl Part {
    /// What of the body is secret, by what the name of the part says.
    pub(crate) fn secret(&self, text: &[u8], kind: Kind) -> Option<(usize, usize)> {
        secret_up_to(text, self.start, |text| self.end(text), kind, b"")
    }

    fn end(&self, text: &[u8]) -> usize {
        let body = &text[self.start..];
        let length = memchr::memmem::find(body, self.boundary).unwrap_or(body.len());
        self.start + body[..length].trim_ascii_end().len()
    }
}
