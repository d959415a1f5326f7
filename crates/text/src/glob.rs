//! Matches texts against patterns in which `*` stands for any text.

/// Returns whether a text, or only its beginning unless `whole`, matches a pattern. Each literal part matches at its
/// first occurrence, so this takes time proportional to the product of both lengths at most.
pub fn matches(pattern: &str, text: &str, whole: bool) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    for (place, part) in parts.iter().enumerate() {
        if whole && place + 1 == parts.len() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    !whole || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text() {
        for (pattern, text, expected) in [
            ("git_log", "git_log", true),
            ("git_log", "git_logs", false),
            ("git_*", "git_log", true),
            ("*_log", "git_log", true),
            ("*", "", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, text, true), expected, "{pattern} {text}");
        }
        assert!(matches("git_*o", "git_logs", false) && !matches("*_log", "git_lo", false));
    }

    #[test]
    fn a_hostile_pattern_costs_little() {
        let pattern = "/".to_owned() + &"*a".repeat(400);
        assert!(!matches(&pattern, &("/".to_owned() + &"b".repeat(100_000)), false));
    }
}
