//! Joins several names, such as principal, session and skill, into one key.

/// Separates the names. Names can't contain it, because requests with control characters are refused.
const SEPARATOR: char = '\0';

/// Joins names into a key. Runs several times per call, so it avoids the formatter.
pub(crate) fn join<const N: usize>(names: [&str; N]) -> String {
    names.join(&*SEPARATOR.encode_utf8(&mut [0; 4]))
}

/// Splits a key into its names. Missing names are empty.
pub(crate) fn split<const N: usize>(key: &str) -> [&str; N] {
    let mut names = key.split(SEPARATOR);
    std::array::from_fn(|_| names.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_splits_into_the_names_it_was_made_of() {
        assert_eq!(split(&join(["alice", "", "echo"])), ["alice", "", "echo"]);
        assert_ne!(join(["a", "bc"]), join(["ab", "c"]));
    }
}
