//! Texts of pages and browsers, made fit for one line.

use openskill_log::text::one_line;

/// At most `most` characters of a text, with escapes for what can't be seen.
pub(super) fn line(text: &str, most: usize) -> String {
    let mut cut: String = text.chars().take(most).collect();
    if text.chars().nth(most).is_some() {
        cut.push('…');
    }
    one_line(&cut).into_owned()
}
