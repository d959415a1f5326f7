//! Assigns tool names that match each provider's pattern and identify exactly one tool.

use std::collections::HashSet;

use openskill_proto::trace::hex;
use sha2::{Digest as _, Sha256};

use super::dialect::Dialect;

/// Returns the maximum length of a name, in bytes.
fn max_bytes(dialect: Dialect) -> usize {
    if dialect == Dialect::Mcp { 128 } else { 64 }
}

/// Returns a name for each tool, in order: its own if the provider accepts it, otherwise a similar one with a
/// suffix. The suffix is a hash of the tool's own name, so that an exported name does not depend on what else is
/// exported.
pub(super) fn assign<'a>(names: impl Iterator<Item = &'a str>, dialect: Dialect) -> Vec<String> {
    let names: Vec<&str> = names.collect();
    let mut taken: HashSet<String> =
        names.iter().filter(|name| sanitize(name, dialect) == **name).map(|name| (*name).to_owned()).collect();
    let mut own = HashSet::new();
    let one = |name: &&str| {
        let sanitized = sanitize(name, dialect);
        if sanitized == *name && own.insert(sanitized.clone()) {
            return sanitized;
        }
        let found = (0_u32..)
            .map(|round| with_suffix(&sanitized, name, round, dialect))
            .find(|name| !taken.contains(name))
            .unwrap_or(sanitized);
        taken.insert(found.clone());
        found
    };
    names.iter().map(one).collect()
}

/// Replaces every character that the provider does not accept.
fn sanitize(name: &str, dialect: Dialect) -> String {
    let allowed =
        |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-' || (dialect == Dialect::Mcp && it == '.');
    let mut sanitized: String = name.chars().map(|it| if allowed(it) { it } else { '_' }).collect();
    let has_valid_start = sanitized.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
    if sanitized.is_empty() || (dialect == Dialect::Gemini && !has_valid_start) {
        sanitized.insert(0, '_');
    }
    sanitized.truncate(max_bytes(dialect));
    sanitized
}

/// Appends a suffix that depends only on the tool's own name.
fn with_suffix(sanitized: &str, name: &str, round: u32, dialect: Dialect) -> String {
    let suffix = hex(&Sha256::digest(format!("{round}/{name}"))[..4]);
    let prefix_bytes = max_bytes(dialect) - suffix.len() - 1;
    format!("{}_{suffix}", &sanitized[..sanitized.len().min(prefix_bytes)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_or_sanitized_and_stay_unique() {
        let long = "x".repeat(70);
        let names = ["echo", "a.b", "a_b", "a/b", "9lives", &long, &format!("{long}y"), ""];
        let given = assign(names.into_iter(), Dialect::OpenAi);
        assert_eq!((&*given[0], &*given[2], &*given[4]), ("echo", "a_b", "9lives"));
        assert!(given[1].starts_with("a_b_") && given[3].starts_with("a_b_"));
        assert_eq!(given.iter().collect::<HashSet<_>>().len(), names.len());
        assert!(given.iter().all(|name| (1..=64).contains(&name.len())));
        assert_eq!(
            assign(["a.b"].into_iter(), Dialect::OpenAi)[0],
            given[1],
            "a name must not depend on what else is exported"
        );
        assert!(assign(["9lives"].into_iter(), Dialect::Gemini)[0].starts_with("_9lives_"));
        assert_eq!(assign(["a.b"].into_iter(), Dialect::Mcp), ["a.b"]);
    }
}
