//! Okapi BM25: scores texts by the query words that they contain.
//!
//! Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).

/// The parameters of BM25.
#[derive(Debug, Clone, Copy)]
pub struct Bm25 {
    /// How slowly repetitions of a word saturate. 0 means that they don't count.
    pub k1: f64,
    /// The penalty for long texts, from 0 to 1.
    pub b: f64,
}

impl Bm25 {
    /// The customary parameters.
    pub const USUAL: Self = Self { k1: 1.2, b: 0.75 };

    /// Returns the score of a word that occurs `count` times in a text, from 0 to `k1 + 1`. Multiply it by the
    /// word's rarity. `length` is the length of the text as a multiple of the mean length.
    #[must_use]
    pub fn score(self, count: f64, length: f64) -> f64 {
        count * (self.k1 + 1.0) / (count + self.k1 * (1.0 - self.b + self.b * length))
    }
}

/// Returns the rarity of a word (its inverse document frequency) that `having` of `all` texts contain. Always
/// positive.
#[must_use]
pub fn rarity(all: f64, having: f64) -> f64 {
    ((all.max(having) - having + 0.5) / (having + 0.5)).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_and_repeated_words_in_short_texts_say_more() {
        let score = |count, length| Bm25::USUAL.score(count, length);
        assert!(score(2.0, 1.0) > score(1.0, 1.0) && score(1.0, 0.5) > score(1.0, 2.0));
        assert!(score(1e9, 1.0) <= 2.2 && score(0.0, 1.0) == 0.0);
        assert!(rarity(100.0, 1.0) > rarity(100.0, 50.0) && rarity(5.0, 9.0) > 0.0);
    }
}
