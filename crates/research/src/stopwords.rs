//! Words that say nothing about what a text is about.

/// Whether a word, in lower case, is one.
pub fn is_stopword(word: &str) -> bool {
    WORDS.binary_search(&word).is_ok()
}

/// Sorted.
const WORDS: &[&str] = &[
    "a", "about", "above", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "between", "both", "but", "by", "can", "could", "did", "do", "does", "doing",
    "done", "during", "each", "either", "etc", "for", "from", "further", "had", "has", "have", "having", "he", "her",
    "here", "hers", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "itself", "just", "many", "may",
    "me", "might", "more", "most", "much", "must", "my", "name", "no", "nor", "not", "of", "on", "one", "only", "or",
    "other", "our", "out", "over", "own", "s", "same", "shall", "she", "should", "so", "some", "such", "t", "than",
    "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "through", "to", "too", "under",
    "up", "upon", "us", "was", "we", "were", "what", "when", "where", "which", "while", "who", "whom", "whose", "why",
    "will", "with", "would", "you", "your",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(WORDS.is_sorted());
        assert!(is_stopword("the") && !is_stopword("river"));
    }
}
