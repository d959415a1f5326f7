//! Selects the visible part of a line: the whole line, or the part around the match.

/// The maximum size of the displayed part of a line, in bytes.
pub(super) const MAX_LINE_BYTES: usize = 500;

/// The maximum size of the displayed part of a match, in bytes.
const MAX_MATCH_BYTES: usize = 200;

/// Part of a line as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LinePart {
    pub(super) text: String,
    /// The byte offset of the text in the line, counted from 0.
    pub(super) from: usize,
    pub(super) is_cut: bool,
}

/// Returns the part of a line around `found`. Replaces invalid UTF-8 with U+FFFD.
pub(super) fn around(line: &[u8], found: &std::ops::Range<usize>) -> LinePart {
    if line.len() <= MAX_LINE_BYTES {
        return LinePart { text: String::from_utf8_lossy(line).into_owned(), from: 0, is_cut: false };
    }
    let room = MAX_LINE_BYTES.saturating_sub(found.len()) / 2;
    let from = found.start.saturating_sub(room).min(line.len() - MAX_LINE_BYTES);
    let from = boundary(line, from);
    let to = boundary(line, (from + MAX_LINE_BYTES).min(line.len())).max(from);
    LinePart { text: String::from_utf8_lossy(&line[from..to]).into_owned(), from, is_cut: true }
}

/// Returns the matched text, truncated to [`MAX_MATCH_BYTES`].
pub(super) fn match_text(line: &[u8], found: &std::ops::Range<usize>) -> String {
    let to = found.end.min(found.start + MAX_MATCH_BYTES);
    let to = if to < found.end { boundary(line, to) } else { to };
    String::from_utf8_lossy(&line[found.start..to.max(found.start)]).into_owned()
}

/// Returns the start of the UTF-8 character that contains a byte offset.
fn boundary(line: &[u8], at: usize) -> usize {
    let is_inside = |at: usize| line.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    (at.saturating_sub(3)..=at).rev().find(|at| !is_inside(*at)).unwrap_or(at)
}

/// Returns a line without its line ending.
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_shown_around_its_match() {
        let line = format!("{}needle{}", "é".repeat(5000), "ü".repeat(5000));
        let at = 10_000..10_006;
        let shown = around(line.as_bytes(), &at);
        assert!(shown.is_cut && shown.text.contains("needle") && shown.text.len() <= MAX_LINE_BYTES, "{shown:?}");
        assert!(!shown.text.contains('\u{fffd}'), "no character is cut in two");
        assert_eq!(&line[shown.from..shown.from + shown.text.len()], shown.text);
        for at in [0..1, 20_005..20_006] {
            assert!(around(line.as_bytes(), &at).text.len() >= MAX_LINE_BYTES - 6);
        }
        assert_eq!(around(b"a\xffb", &(0..1)).text, "a\u{fffd}b");
    }

    #[test]
    fn a_long_match_is_cut() {
        let line = "é".repeat(5000);
        let shown = match_text(line.as_bytes(), &(0..10_000));
        assert!(shown.len() <= MAX_MATCH_BYTES && !shown.contains('\u{fffd}'));
        assert_eq!(match_text(b"abc", &(1..1)), "");
        assert_eq!(around(line.as_bytes(), &(0..10_000)).text.len(), MAX_LINE_BYTES);
    }
}
