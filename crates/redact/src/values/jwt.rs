//! JSON web tokens: signed (three parts), encrypted (five parts), or truncated.

use crate::classes::{BASE64, PADDING, TOKEN, at_is, run_end};

/// Where the token that begins with `eyJ` at `start` ends. Its header must be a JSON object. `header_end` is the
/// end of the last examined header: each run of characters is examined only once, even if many headers seem to
/// begin in it.
pub(crate) fn find(text: &[u8], start: usize, header_end: &mut usize) -> Option<usize> {
    if start >= *header_end {
        *header_end = run_end(text, start, TOKEN);
    }
    let header = *header_end;
    let is_object = super::base64::begins(&text[start..header]).0.starts_with(b"{\"");
    if !is_object || header - start < 12 || text.get(header) != Some(&b'.') || !at_is(text, header + 1, TOKEN) {
        return None;
    }
    let mut end = run_end(text, header + 1, TOKEN);
    if end - header < 8 {
        return None;
    }
    for _ in 0..3 {
        if text.get(end) != Some(&b'.') {
            break;
        }
        end = run_end(text, end + 1, TOKEN | BASE64);
    }
    Some(run_end(text, end, PADDING))
}
