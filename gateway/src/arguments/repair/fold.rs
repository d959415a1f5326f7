//! Names and words that differ in writing only, and those that are merely near.

/// A key without its case and the separators between its words: `maxSteps`, `max_steps`, `Max-Steps` are one. Separators
/// that stand elsewhere, or between digits, count: `_id` is not `id`, `v1_0` is not `v10`.
pub(crate) fn key(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    let mut before: Option<char> = None;
    let mut rest = name.chars().peekable();
    while let Some(it) = rest.next() {
        let after = rest.peek().copied();
        let between = before.is_some_and(char::is_alphanumeric) && after.is_some_and(char::is_alphanumeric);
        let of_digits = before.is_some_and(|it| it.is_ascii_digit()) && after.is_some_and(|it| it.is_ascii_digit());
        if !(matches!(it, '_' | '-' | ' ') && between && !of_digits) {
            folded.extend(it.to_lowercase());
        }
        before = Some(it);
    }
    folded
}

/// A word without its case, with all separators between its parts alike: `Like new`, `like_new` are one. What stands
/// before the first part counts: `-1` is not `1`.
pub(super) fn word(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut gap = false;
    for it in text.trim().chars() {
        if matches!(it, '_' | '-') && folded.is_empty() {
            folded.push(it);
        } else if it.is_whitespace() || matches!(it, '_' | '-') {
            gap = true;
        } else {
            if std::mem::take(&mut gap) {
                folded.push(' ');
            }
            folded.extend(it.to_lowercase());
        }
    }
    if gap {
        // A separator at the end is a part of the word: `C-` is not `C`.
        folded.push('-');
    }
    folded
}

/// The only one of `choices` that `fits`.
pub(super) fn only<T>(choices: impl IntoIterator<Item = T>, fits: impl Fn(&T) -> bool) -> Option<T> {
    let mut found = choices.into_iter().filter(fits);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Whether one name may be a slip of the pen for the other: then it is pointed out, and never taken for it.
pub(super) fn is_near(name: &str, other: &str) -> bool {
    if name.len().max(other.len()) > 64 {
        return false;
    }
    let (name, other) = (key(name), key(other));
    let (length, other_length) = (name.chars().count(), other.chars().count());
    let longest = length.max(other_length);
    if length.abs_diff(other_length) > 2 {
        return false;
    }
    let allowed = match longest {
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    };
    strsim::damerau_levenshtein(&name, &other) <= allowed
}

/// The name that was most likely meant, if one is near: by its letters, or because one contains the other.
pub(crate) fn nearest<'a>(name: &str, choices: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let short: String = name.chars().take(80).collect();
    let folded = key(&short);
    if folded.is_empty() {
        return None;
    }
    let rated = choices.into_iter().filter_map(|choice| {
        let other = key(choice);
        let inside = other.len() >= 3 && folded.len() >= 3 && (folded.contains(&other) || other.contains(&folded));
        let alike = strsim::jaro_winkler(&folded, &other);
        let score = if inside { alike.max(0.86) } else { alike };
        (score >= 0.85).then_some((score, choice))
    });
    rated.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, choice)| choice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_words_fold_by_their_writing_only() {
        assert_eq!(key("maxSteps"), key("Max-Steps"));
        for (one, other) in [("max_step", "max_steps"), ("_id", "id"), ("v1_0", "v10"), ("a_", "a")] {
            assert_ne!(key(one), key(other));
        }
        for (one, other) in [("Like new", "like_new"), (" SIX-months ", "six_months"), ("Straße", "straße")] {
            assert_eq!(word(one), word(other));
        }
        for (one, other) in [("-1", "1"), ("C-", "C"), ("C-", "C+"), ("a b", "ab"), ("1.0", "1 0")] {
            assert_ne!(word(one), word(other), "{one} {other}");
        }
    }

    #[test]
    fn what_is_near_is_named() {
        assert_eq!(nearest("War", ["Wars", "Culture"]), Some("Wars"));
        assert_eq!(nearest("last year", ["six_months", "year", "five_years"]), Some("year"));
        assert_eq!(
            nearest("celebrate_net_worth_get", ["calculate_bmi", "celebrity_net_worth_get"]),
            Some("celebrity_net_worth_get")
        );
        assert_eq!(nearest("zebra", ["Wars", "Culture"]), None);
        assert_eq!(nearest("", ["Wars"]), None);
        assert!(is_near("max_step", "max_steps"));
        assert!(!is_near("wave_file", "wave_type"));
        assert!(!is_near("url", "uri"));
    }
}
