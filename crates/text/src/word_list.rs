//! Parses word lists. Lines that start with `#` are comments, and the first comment names the source of the list.

/// Returns the words of a list with several space-separated words per line.
pub fn words(list: &str) -> impl Iterator<Item = &str> {
    lines(list).flat_map(str::split_whitespace)
}

/// Returns the entries of a list with one entry per line, as pairs of the text before and after the first colon.
pub fn entries(list: &str) -> impl Iterator<Item = (&str, &str)> {
    lines(list).filter_map(|line| line.split_once(": "))
}

fn lines(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_not_words() {
        let list = "# Of today.\n\na b\n# More.\nc: d e\n";
        assert_eq!(words(list).collect::<Vec<_>>(), ["a", "b", "c:", "d", "e"]);
        assert_eq!(entries(list).collect::<Vec<_>>(), [("c", "d e")]);
    }
}
