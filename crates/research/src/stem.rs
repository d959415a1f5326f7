//! Porter's stemmer: words of one stem become equal, `invaded` and `invading`.

/// The stem of an English word in lower case. Words with other letters stay as they are.
pub fn stem(word: &str) -> String {
    if word.len() < 3 || !word.bytes().all(|it| it.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let mut word = word.to_owned();
    plural(&mut word);
    past_and_gerund(&mut word);
    if ends(&word, "y").is_some_and(has_vowel) {
        replace(&mut word, "y", "i");
    }
    suffixes(&mut word, LONG, 1);
    suffixes(&mut word, MIDDLE, 1);
    last_suffix(&mut word);
    tidy(&mut word);
    word
}

fn is_vowel(word: &[u8], at: usize) -> bool {
    match word.get(at) {
        Some(b'a' | b'e' | b'i' | b'o' | b'u') => true,
        Some(b'y') => at > 0 && !is_vowel(word, at - 1),
        _ => false,
    }
}

fn has_vowel(stem: &str) -> bool {
    (0..stem.len()).any(|at| is_vowel(stem.as_bytes(), at))
}

/// How many times a consonant follows a vowel.
fn measure(stem: &str) -> usize {
    let vowels: Vec<_> = (0..stem.len()).map(|at| is_vowel(stem.as_bytes(), at)).collect();
    vowels.windows(2).filter(|it| matches!(it, [true, false])).count()
}

fn ends<'a>(word: &'a str, suffix: &str) -> Option<&'a str> {
    word.strip_suffix(suffix)
}

fn replace(word: &mut String, suffix: &str, by: &str) {
    word.truncate(word.len() - suffix.len());
    word.push_str(by);
}

fn plural(word: &mut String) {
    for (suffix, by) in [("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")] {
        if word.ends_with(suffix) {
            return replace(word, suffix, by);
        }
    }
}

fn past_and_gerund(word: &mut String) {
    if let Some(stem) = ends(word, "eed") {
        if measure(stem) > 0 {
            replace(word, "eed", "ee");
        }
        return;
    }
    let Some(suffix) = ["ed", "ing"].into_iter().find(|it| ends(word, it).is_some_and(has_vowel)) else { return };
    replace(word, suffix, "");
    if ["at", "bl", "iz"].iter().any(|it| word.ends_with(it)) {
        word.push('e');
    } else if ends_double(word) && !word.ends_with(['l', 's', 'z']) {
        word.pop();
    } else if measure(word) == 1 && ends_short(word) {
        word.push('e');
    }
}

fn ends_double(word: &str) -> bool {
    let bytes = word.as_bytes();
    matches!(bytes, [.., one, two] if one == two) && !is_vowel(bytes, bytes.len() - 1)
}

/// Consonant, vowel, consonant, and the last is not w, x or y.
fn ends_short(word: &str) -> bool {
    let bytes = word.as_bytes();
    let Some(last) = bytes.len().checked_sub(1).filter(|it| *it >= 2) else { return false };
    !is_vowel(bytes, last)
        && is_vowel(bytes, last - 1)
        && !is_vowel(bytes, last - 2)
        && !word.ends_with(['w', 'x', 'y'])
}

const LONG: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("abli", "able"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
];

const MIDDLE: &[(&str, &str)] =
    &[("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", "")];

const LAST: &[&str] = &[
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "ion",
    "al", "er", "ic", "ou",
];

fn suffixes(word: &mut String, table: &[(&str, &str)], least: usize) {
    let Some((suffix, by)) = table.iter().find(|(suffix, _)| word.ends_with(suffix)) else { return };
    if ends(word, suffix).is_some_and(|it| measure(it) >= least) {
        replace(word, suffix, by);
    }
}

fn last_suffix(word: &mut String) {
    let Some(suffix) = LAST.iter().find(|it| word.ends_with(**it)) else { return };
    let Some(stem) = ends(word, suffix).filter(|it| measure(it) > 1) else { return };
    if *suffix != "ion" || stem.ends_with(['s', 't']) {
        replace(word, suffix, "");
    }
}

fn tidy(word: &mut String) {
    if let Some(stem) = ends(word, "e") {
        let measured = measure(stem);
        if measured > 1 || (measured == 1 && !ends_short(stem)) {
            word.pop();
        }
    }
    if word.ends_with("ll") && measure(word) > 1 {
        word.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for (words, expected) in [
            (&["caresses", "caress"][..], "caress"),
            (&["ponies", "poni"], "poni"),
            (&["agreed", "agree"], "agre"),
            (&["motoring", "motored", "motor"], "motor"),
            (&["hopping", "hop"], "hop"),
            (&["relational", "relate", "relating"], "relat"),
            (&["generalizations", "general"], "gener"),
            (&["adoption", "adopted"], "adopt"),
            (&["invaded", "invading", "invades"], "invad"),
            (&["happy"], "happi"),
            (&["sky"], "sky"),
            (&["controlling", "controlled", "control"], "control"),
        ] {
            for word in words {
                assert_eq!(stem(word), expected, "{word}");
            }
        }
        assert_eq!(stem("naïve"), "naïve");
    }
}
