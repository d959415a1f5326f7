//! A part of `multipart/form-data` whose name marks it as secret: `Content-Disposition: form-data;
//! name="password"`, and a body after a blank line. All functions are pure.

use crate::assignment::AssignedKey;
use crate::judge::secret_up_to;
use crate::keys::ValueKind;
use crate::value::Value;

/// The maximum distance from the start of the header to the name, and the maximum length of the other headers, in
/// bytes.
const HEADERS: usize = 512;

/// A blank line, unescaped or escaped.
const BLANK: [&[u8]; 4] = [b"\r\n\r\n", b"\n\n", b"\\r\\n\\r\\n", b"\\n\\n"];
/// What follows a body: a line break and two dashes.
const BOUNDARY: [&[u8]; 4] = [b"\r\n--", b"\n--", b"\\r\\n--", b"\\n--"];

/// A part of a form: where its body begins, and the boundary that ends it.
#[derive(Debug)]
pub(crate) struct FormPart {
    start: usize,
    boundary: &'static [u8],
}

/// Finds the form part whose header names it at `name`.
pub(crate) fn part(text: &[u8], key: AssignedKey, name: Value) -> Option<FormPart> {
    let before = &text[key.end.saturating_sub(HEADERS)..key.end];
    let line = &before[memchr::memrchr(b'\n', before).map_or(0, |at| at + 1)..];
    memchr::memmem::find(line, b"form-data")?;
    let headers = &text[name.next..text.len().min(name.next + HEADERS)];
    let blank = |mark: &[u8]| memchr::memmem::find(headers, mark).map(|at| at + mark.len());
    let (length, mark) = BLANK.iter().enumerate().filter_map(|(at, mark)| Some((blank(mark)?, at))).min()?;
    Some(FormPart { start: name.next + length, boundary: BOUNDARY[mark] })
}

impl FormPart {
    /// Returns the secret part of the body, according to the kind of its name.
    pub(crate) fn secret(&self, text: &[u8], kind: ValueKind) -> Option<(usize, usize)> {
        secret_up_to(text, self.start, |text| self.end(text), kind, b"")
    }

    fn end(&self, text: &[u8]) -> usize {
        let body = &text[self.start..];
        let length = memchr::memmem::find(body, self.boundary).unwrap_or(body.len());
        self.start + body[..length].trim_ascii_end().len()
    }
}
