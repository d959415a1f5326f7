//! Splits a text into words.

/// The words of a text in lower case, consisting of ASCII letters, digits and underscores.
#[derive(Debug)]
pub(super) struct Words<'a> {
    text: &'a str,
    words: Vec<(usize, String)>,
}

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut words: Vec<(usize, String)> = Vec::new();
        let mut is_within = false;
        for (at, c) in text.char_indices() {
            if !is_part(c) {
                is_within = false;
                continue;
            }
            match words.last_mut() {
                Some((_, word)) if is_within => word.push(c.to_ascii_lowercase()),
                _ => words.push((at, c.to_ascii_lowercase().to_string())),
            }
            is_within = true;
        }
        Self { text, words }
    }

    /// Returns whether the text contains this word. Parts of paths and file names don't count.
    pub(super) fn has(&self, word: &str) -> bool {
        self.at(word).is_some()
    }

    /// Returns the offset of the end of a word's first occurrence.
    pub(super) fn end_of(&self, word: &str) -> Option<usize> {
        self.at(word).map(|at| at + word.len())
    }

    fn at(&self, word: &str) -> Option<usize> {
        let is_free = |at: usize| {
            let before = self.text[..at].chars().next_back();
            let after = self.text[at + word.len()..].chars().next();
            !matches!(before, Some('/' | '.' | '-')) && !matches!(after, Some('/' | '-'))
        };
        self.words.iter().find(|(at, it)| it == word && is_free(*at)).map(|(at, _)| *at)
    }
}
