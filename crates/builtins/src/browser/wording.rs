//! Formats texts from pages and browsers for display on a single line.

use openskill_telemetry::log::text::one_line;

/// Returns at most `most` characters of a text, with invisible characters escaped.
pub(super) fn line(text: &str, most: usize) -> String {
    let mut cut: String = text.chars().take(most).collect();
    if text.chars().nth(most).is_some() {
        cut.push('…');
    }
    one_line(&cut).into_owned()
}
