//! Which of some words a text ends with. Pure.

/// Words, by their last byte: most texts end with a byte that ends none.
#[derive(Debug)]
pub(crate) struct Endings<const N: usize> {
    words: [&'static str; N],
    /// The place after that of the first word with this last byte. 0: there is none.
    first: [u8; 256],
    /// The same of the next word with the last byte of this one.
    next: [u8; N],
}

impl<const N: usize> Endings<N> {
    /// None of the words is empty, and there are at most 255.
    pub(crate) const fn new(words: [&'static str; N]) -> Self {
        let (mut first, mut next) = ([0; 256], [0; N]);
        let mut at = N;
        while at > 0 {
            at -= 1;
            let word = words[at].as_bytes();
            let last = word[word.len() - 1] as usize;
            next[at] = first[last];
            first[last] = at as u8 + 1;
        }
        Self { words, first, next }
    }

    /// The first of the words with which a text ends.
    pub(crate) fn of(&self, text: &[u8]) -> Option<&'static str> {
        let mut place = self.first[usize::from(*text.last()?)];
        while place > 0 {
            let at = usize::from(place) - 1;
            if text.ends_with(self.words[at].as_bytes()) {
                return Some(self.words[at]);
            }
            place = self.next[at];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static WORDS: Endings<4> = Endings::new(["xab", "b", "ab", "c"]);

    #[test]
    fn the_first_word_at_the_end_is_found() {
        for (text, word) in [("xab", Some("xab")), ("ab", Some("b")), ("bc", Some("c")), ("b c ", None), ("", None)] {
            assert_eq!(WORDS.of(text.as_bytes()), word, "{text}");
        }
    }
}
