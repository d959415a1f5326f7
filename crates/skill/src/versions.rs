//! Orders the versions of a skill, and finds the one that a caller means. Pure.

use std::cmp::Ordering;

/// The version of a skill whose manifest names none.
pub const NO_VERSION: &str = "0.0.0";

/// The maximum number of versions of a skill that a worker serves, and that a traffic rule names.
pub const MAX_VERSIONS: usize = 8;

/// Orders versions by their numbers: 0.10.0 is newer than 0.9.0, and a pre-release is older than its release. Build
/// metadata only decides between versions that are otherwise equal.
#[must_use]
pub fn compare(one: &str, other: &str) -> Ordering {
    key(one).cmp(&key(other))
}

/// A part of a pre-release. A number is older than a text, as in Semantic Versioning.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    Number(u64),
    Text(&'a str),
}

fn key(version: &str) -> (Vec<u64>, bool, Vec<Part<'_>>, &str) {
    let release = without_build(version);
    let (core, pre_release) = release.split_once('-').map_or((release, None), |(core, rest)| (core, Some(rest)));
    let mut numbers: Vec<_> = core.split('.').map_while(|part| part.parse().ok()).collect();
    // 1 and 1.0.0 are the same release, so 1.0.0-rc1 is older than both.
    numbers.truncate(numbers.iter().rposition(|it| *it != 0).map_or(0, |last| last + 1));
    // A text ends where digits begin, so that rc10 is newer than rc9.
    let texts = pre_release.unwrap_or_default().split(['.', '-']);
    let parts = texts.flat_map(|it| it.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()));
    let parts = parts.map(|it| str::from_utf8(it).unwrap_or_default());
    let parts = parts.map(|it| it.parse().map_or(Part::Text(it), Part::Number)).collect();
    (numbers, pre_release.is_none(), parts, version)
}

fn without_build(version: &str) -> &str {
    version.split_once('+').map_or(version, |(release, _)| release)
}

/// Splits `id@version`, as callers write it. The version is empty if there is none.
#[must_use]
pub fn split(name: &str) -> (&str, &str) {
    name.split_once('@').unwrap_or((name, ""))
}

/// Whether a caller who asks for `wanted` accepts `version`: it is the same, or begins with the same components. Only a
/// caller who names a pre-release accepts one.
#[must_use]
pub fn matches(wanted: &str, version: &str) -> bool {
    let is_release = |it: &str| !without_build(it).contains('-');
    let begins = version.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '+']));
    begins && (is_release(version) || !is_release(wanted))
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
        for (newer, older) in [
            ("0.10.0", "0.9.0"),
            ("1.0.0", "0.99"),
            ("1", NO_VERSION),
            ("1.0.0", "1.0.0-rc1"),
            ("1", "1.0.0-rc1"),
            ("2.0.0", "2.0.0-1"),
            ("1.0.0-rc10", "1.0.0-rc9"),
            ("1.0.0-rc.10", "1.0.0-rc.9"),
            ("1.0.0-beta", "1.0.0-alpha.1"),
            ("1.0.0-alpha.beta", "1.0.0-alpha.1"),
            ("1.0.0-alpha.1", "1.0.0-alpha"),
            ("1.0.0+b-7", "1.0.0-rc1"),
            ("1.0.0+b-7", "1.0.0"),
        ] {
            assert_eq!(compare(newer, older), Ordering::Greater, "{newer} {older}");
            assert_eq!(compare(older, newer), Ordering::Less, "{newer} {older}");
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
        let accepted = ["1.0.0+b", "1.0.0+b-7", "1.3.0", "1.3.0-rc1", "1.3.0-rc1.2"];
        let accepts = |wanted| accepted.into_iter().filter(|it| matches(wanted, it)).collect::<Vec<_>>().join(" ");
        assert_eq!(accepts("1"), "1.0.0+b 1.0.0+b-7 1.3.0", "a release candidate is not a 1");
        assert_eq!(accepts("1.0.0"), "1.0.0+b 1.0.0+b-7");
        assert_eq!(accepts("1.3.0-rc1"), "1.3.0-rc1 1.3.0-rc1.2");
        assert_eq!((split("shout@1.2"), split("shout")), (("shout", "1.2"), ("shout", "")));
    }
}
