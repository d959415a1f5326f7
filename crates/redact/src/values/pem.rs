//! PEM private keys (RFC 7468 and similar formats): whole, escaped, on one line, encrypted, or truncated.

use memchr::memmem;

use crate::classes::{ALNUM, is, run_end};

/// The maximum length of a label, in bytes.
const LABEL: usize = 64;

/// Where the private key whose first dash is at `start` ends. Returns `None` if the text is not a private key.
pub(crate) fn find(text: &[u8], start: usize) -> Option<usize> {
    let dashes = dashes_end(text, start);
    let label = text[dashes..].trim_ascii_start();
    let label = &label[..label.len().min(LABEL)];
    let label = label.strip_prefix(b"BEGIN").or_else(|| label.strip_prefix(b"begin"))?;
    let label_end = label.iter().position(|byte| *byte == b'-')?;
    let is_private = memmem::find(&label[..label_end], b"PRIVATE").is_some();
    if !is_private {
        return None;
    }
    // The position after the label's dashes.
    let label_start = text[dashes..].len() - text[dashes..].trim_ascii_start().len() + dashes + 5;
    let body = dashes_end(text, label_start + label_end);
    has_body(text, body).then(|| body_end(text, body))
}

fn dashes_end(text: &[u8], start: usize) -> usize {
    start + text[start..].iter().take_while(|byte| **byte == b'-').count()
}

/// Whether a key follows the label. Prose may mention a label alone.
fn has_body(text: &[u8], body: usize) -> bool {
    let near = &text[body..text.len().min(body + 48)];
    let is_line_end = |byte: &u8| matches!(byte, b'\n' | b'\r' | b'\\');
    near.first().is_none_or(is_line_end) || near.split(|byte| !is(*byte, ALNUM)).any(|word| word.len() >= 16)
}

/// Returns the end of the last line of the key, or the first position that cannot belong to a key.
fn body_end(text: &[u8], body: usize) -> usize {
    let belongs = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || byte.is_ascii_whitespace()
            || matches!(
                byte,
                b'+' | b'/' | b'=' | b'\\' | b'-' | b':' | b',' | b'.' | b'(' | b')' | b'@' | b'_' | b'%' | b'|' | b'>'
            )
    };
    let mut at = body;
    loop {
        let stop = text[at..].iter().position(|byte| *byte == b'-' || !belongs(byte)).map_or(text.len(), |it| at + it);
        if text.get(stop) != Some(&b'-') {
            return trim_end(text, body, stop);
        }
        let dashes = dashes_end(text, stop);
        let label = text[dashes..].trim_ascii_start();
        if label.starts_with(b"END") || label.starts_with(b"end") {
            let label = dashes + (text[dashes..].len() - label.len());
            let line = run_end(text, label, ALNUM | crate::classes::SPACE);
            return dashes_end(text, line);
        }
        if dashes - stop >= 4 && label.starts_with(b"BEGIN") {
            return trim_end(text, body, stop);
        }
        at = dashes;
    }
}

/// Returns the end of a body without trailing white space.
fn trim_end(text: &[u8], body: usize, end: usize) -> usize {
    body + text[body..end].trim_ascii_end().len()
}
