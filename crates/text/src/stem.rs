//! Maps related English words, such as `invaded` and `invading`, to the same stem.

use rust_stemmers::{Algorithm, Stemmer};

/// Returns the stem of a lower-case English word. Words that contain other letters are returned unchanged.
pub fn stem(word: &str) -> String {
    if word.len() < 3 || !word.bytes().all(|it| it.is_ascii_lowercase()) {
        return word.to_owned();
    }
    Stemmer::create(Algorithm::English).stem(word).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for (words, expected) in [
            (&["caresses", "caress"][..], "caress"),
            (&["ponies", "pony"], "poni"),
            (&["agreed", "agree"], "agre"),
            (&["hopping", "hop"], "hop"),
            (&["relational", "relate", "relating"], "relat"),
            (&["adoption", "adopted"], "adopt"),
            (&["invaded", "invading", "invades"], "invad"),
            (&["creates", "created", "creating", "create"], "creat"),
            (&["sky"], "sky"),
            (&["controlling", "controlled", "control"], "control"),
        ] {
            for word in words {
                assert_eq!(stem(word), expected, "{word}");
            }
        }
        assert_eq!(stem("naïve"), "naïve");
    }

    proptest! {
        #[test]
        fn any_word_has_a_stem(word in "[a-z]{0,12}(ing|ed|ly|ies|ation|'s|ness|yed|li|é)?[a-z]{0,3}") {
            prop_assert!(word.is_empty() || !stem(&word).is_empty());
        }
    }
}
