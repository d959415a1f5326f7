//! Sanitizes servers' texts for logs and terminals.

/// Truncates a text to at most `most` bytes at a character boundary. Removes control characters except line ends.
pub(super) fn clean(text: &str, most: usize) -> String {
    let shown = |it: &char| !it.is_control() || *it == '\n';
    let mut cleaned: String = text.chars().filter(shown).take(most).collect();
    cleaned.truncate(cleaned.floor_char_boundary(most));
    cleaned
}

/// Does the same, and joins all lines.
pub(super) fn line(text: &str, most: usize) -> String {
    clean(text, most).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_bounded_and_has_no_control_characters() {
        assert_eq!(clean("a\u{1b}[31m\r\nb\u{7}", 100), "a[31m\nb");
        assert_eq!(clean("aé", 2), "a");
        assert_eq!(line("a\n  b\tc", 100), "a bc");
    }
}
