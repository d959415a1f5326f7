//! Orders the versions of a skill, and finds the one that a caller means. Pure.

use std::cmp::Ordering;

/// The version of a skill whose manifest names none.
pub const NO_VERSION: &str = "0.0.0";

/// The maximum number of versions of a skill that a worker serves, and that a traffic rule names.
pub const MAX_VERSIONS: usize = 8;

/// Orders versions by their numbers: 0.10.0 is newer than 0.9.0, and a pre-release is older than its release.
#[must_use]
pub fn compare(one: &str, other: &str) -> Ordering {
    key(one).cmp(&key(other))
}

fn key(version: &str) -> (Vec<u64>, bool, &str) {
    let numbers = version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect();
    (numbers, !version.contains('-'), version)
}

/// Splits `id@version`, as callers write it. The version is empty if there is none.
#[must_use]
pub fn split(name: &str) -> (&str, &str) {
    name.split_once('@').unwrap_or((name, ""))
}

/// Whether a caller who asks for `wanted` accepts `version`: it is the same, or begins with the same components.
#[must_use]
pub fn matches(wanted: &str, version: &str) -> bool {
    version.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the best of `candidates` for a caller who asks for `wanted`: exactly this version, or else the newest that
/// matches. One that can run precedes those that can't. `describe` returns a candidate's version, and whether it runs.
pub fn find<T>(
    wanted: &str,
    candidates: impl IntoIterator<Item = T>,
    describe: impl Fn(&T) -> (&str, bool),
) -> Option<T> {
    let matching = candidates.into_iter().filter(|it| matches(wanted, describe(it).0));
    matching.max_by(|one, other| {
        let ((one, one_runs), (other, other_runs)) = (describe(one), describe(other));
        let is_exact = (one == wanted).cmp(&(other == wanted));
        is_exact.then(one_runs.cmp(&other_runs)).then_with(|| compare(one, other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        for (newer, older) in [("0.10.0", "0.9.0"), ("1.0.0", "0.99"), ("1.0.0", "1.0.0-rc1"), ("1", NO_VERSION)] {
            assert_eq!(compare(newer, older), Ordering::Greater, "{newer} {older}");
        }
    }

    #[test]
    fn a_caller_gets_the_version_or_the_newest_that_begins_with_its_components() {
        let served = [("1.2.0", true), ("1.2.10", true), ("1.2.11", false), ("1.20.0", true), ("2.0.0", false)];
        let found = |wanted| find(wanted, served, |it| (it.0, it.1)).map(|it| it.0);
        assert_eq!(found("1.2"), Some("1.2.10"), "1.2.11 can't run");
        assert_eq!(found("1"), Some("1.20.0"));
        assert_eq!(found("1.2.0"), Some("1.2.0"));
        assert_eq!(found("2"), Some("2.0.0"), "the caller learns why it can't run");
        assert_eq!(found("1.2.1"), None);
        assert_eq!((split("shout@1.2"), split("shout")), (("shout", "1.2"), ("shout", "")));
    }
}
