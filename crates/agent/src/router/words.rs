//! Finds words in a text.

/// A text in lower case. Its words consist of ASCII letters, digits and underscores.
#[derive(Debug)]
pub(super) struct Words(String);

impl Words {
    pub(super) fn new(text: &str) -> Self {
        Self(text.to_ascii_lowercase())
    }

    /// Returns whether the text contains this word. Parts of paths and file names don't count.
    pub(super) fn has(&self, word: &str) -> bool {
        self.end_of(word).is_some()
    }

    /// Returns the offset of the end of a word's first occurrence.
    pub(super) fn end_of(&self, word: &str) -> Option<usize> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '-');
        let is_whole = |(at, _): &(usize, &str)| {
            let (before, after) = (&self.0[..*at], &self.0[at + word.len()..]);
            !before.ends_with(|c| is_part(c) || c == '.') && !after.starts_with(is_part)
        };
        self.0.match_indices(word).find(is_whole).map(|(at, _)| at + word.len())
    }
}
