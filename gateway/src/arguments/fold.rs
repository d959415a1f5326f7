//! Normalizes names and words of enums, and finds similar names for suggestions.

/// Folds a key: drops its case and the separators between its words. `maxSteps`, `max_steps` and `Max-Steps` become
/// equal. Other separators, and those between digits, are significant: `_id` differs from `id`, and `v1_0` from
/// `v10`.
pub(crate) fn fold_key(key: &str) -> String {
    let mut folded = String::with_capacity(key.len());
    let mut previous: Option<char> = None;
    let mut rest = key.chars().peekable();
    while let Some(current) = rest.next() {
        let next = rest.peek().copied();
        let inside = previous.is_some_and(char::is_alphanumeric) && next.is_some_and(char::is_alphanumeric);
        let in_number = previous.is_some_and(|it| it.is_ascii_digit()) && next.is_some_and(|it| it.is_ascii_digit());
        if !(matches!(current, '_' | '-' | ' ') && inside && !in_number) {
            folded.extend(current.to_lowercase());
        }
        previous = Some(current);
    }
    folded
}

/// Folds an enum word: drops its case and treats all inner separators alike. `Like new` and `like_new` become
/// equal. Leading and trailing separators are significant: `-1` differs from `1`, and `C-` from `C`.
pub(super) fn fold_word(word: &str) -> String {
    let mut folded = String::with_capacity(word.len());
    let mut gap = false;
    for current in word.trim().chars() {
        if matches!(current, '_' | '-') && folded.is_empty() {
            folded.push(current);
        } else if current.is_whitespace() || matches!(current, '_' | '-') {
            gap = true;
        } else {
            if std::mem::take(&mut gap) {
                folded.push(' ');
            }
            folded.extend(current.to_lowercase());
        }
    }
    if gap {
        folded.push('-');
    }
    folded
}

/// Returns the choice that `matches`, if there is exactly one.
pub(super) fn exactly_one<T>(choices: impl IntoIterator<Item = T>, matches: impl Fn(&T) -> bool) -> Option<T> {
    let mut found = choices.into_iter().filter(matches);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Whether one name may be a typo of the other. Feedback reports typos; repair never corrects them.
pub(super) fn is_typo(name: &str, other: &str) -> bool {
    if name.len().max(other.len()) > 64 {
        return false;
    }
    let (name, other) = (fold_key(name), fold_key(other));
    let (length, other_length) = (name.chars().count(), other.chars().count());
    if length.abs_diff(other_length) > 2 {
        return false;
    }
    let max_distance = match length.max(other_length) {
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    };
    strsim::damerau_levenshtein(&name, &other) <= max_distance
}

/// Returns the choice that is most similar to `name`, if one is similar enough: by its letters, or because one
/// contains the other.
pub(crate) fn nearest<'a>(name: &str, choices: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let short: String = name.chars().take(80).collect();
    let folded = fold_key(&short);
    if folded.is_empty() {
        return None;
    }
    let scored = choices.into_iter().filter_map(|choice| {
        let other = fold_key(choice);
        let contained = other.len() >= 3 && folded.len() >= 3 && (folded.contains(&other) || other.contains(&folded));
        let similarity = strsim::jaro_winkler(&folded, &other);
        let score = if contained { similarity.max(0.86) } else { similarity };
        (score >= 0.85).then_some((score, choice))
    });
    scored.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, choice)| choice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_ignores_case_and_inner_separators_only() {
        assert_eq!(fold_key("maxSteps"), fold_key("Max-Steps"));
        for (one, other) in [("max_step", "max_steps"), ("_id", "id"), ("v1_0", "v10"), ("a_", "a")] {
            assert_ne!(fold_key(one), fold_key(other));
        }
        for (one, other) in [("Like new", "like_new"), (" SIX-months ", "six_months"), ("Straße", "straße")] {
            assert_eq!(fold_word(one), fold_word(other));
        }
        for (one, other) in [("-1", "1"), ("C-", "C"), ("C-", "C+"), ("a b", "ab"), ("1.0", "1 0")] {
            assert_ne!(fold_word(one), fold_word(other), "{one} {other}");
        }
    }

    #[test]
    fn a_similar_name_is_suggested() {
        assert_eq!(nearest("War", ["Wars", "Culture"]), Some("Wars"));
        assert_eq!(nearest("last year", ["six_months", "year", "five_years"]), Some("year"));
        assert_eq!(
            nearest("celebrate_net_worth_get", ["calculate_bmi", "celebrity_net_worth_get"]),
            Some("celebrity_net_worth_get")
        );
        assert_eq!(nearest("zebra", ["Wars", "Culture"]), None);
        assert_eq!(nearest("", ["Wars"]), None);
        assert!(is_typo("max_step", "max_steps"));
        assert!(!is_typo("wave_file", "wave_type"));
        assert!(!is_typo("url", "uri"));
    }
}
