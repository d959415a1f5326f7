//! Names as providers take them, each one leading back to one tool.

use std::collections::HashSet;

use sha2::{Digest as _, Sha256};

use super::Dialect;

/// The longest name.
fn longest(dialect: Dialect) -> usize {
    match dialect {
        Dialect::Mcp => 128,
        _ => 64,
    }
}

/// A name for each tool, in their order: its own where the provider takes it, else one like it, with a mark that is made
/// of its own name alone. So a tool's exported name does not depend on what else is exported.
pub(super) fn assign<'a>(names: impl Iterator<Item = &'a str>, dialect: Dialect) -> Vec<String> {
    let names: Vec<&str> = names.collect();
    let mut taken: HashSet<String> =
        names.iter().filter(|name| plain(name, dialect) == **name).map(|name| (*name).to_owned()).collect();
    let mut own = HashSet::new();
    let one = |name: &&str| {
        let plain = plain(name, dialect);
        if plain == *name && own.insert(plain.clone()) {
            return plain;
        }
        let found = (0_u32..)
            .map(|round| marked(&plain, name, round, dialect))
            .find(|name| !taken.contains(name))
            .unwrap_or(plain);
        taken.insert(found.clone());
        found
    };
    names.iter().map(one).collect()
}

/// The name with what the provider does not take replaced.
fn plain(name: &str, dialect: Dialect) -> String {
    let allowed =
        |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-' || (dialect == Dialect::Mcp && it == '.');
    let mut plain: String = name.chars().map(|it| if allowed(it) { it } else { '_' }).collect();
    let begins_well = plain.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
    if plain.is_empty() || (dialect == Dialect::Gemini && !begins_well) {
        plain.insert(0, '_');
    }
    plain.truncate(longest(dialect));
    plain
}

/// The name with a mark that only this tool's own name gives.
fn marked(plain: &str, name: &str, round: u32, dialect: Dialect) -> String {
    let hash = Sha256::digest(format!("{round}/{name}"));
    let mark: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let room = longest(dialect) - mark.len() - 1;
    format!("{}_{mark}", &plain[..plain.len().min(room)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_over_or_made_to_fit_and_stay_apart() {
        let long = "x".repeat(70);
        let names = ["echo", "a.b", "a_b", "a/b", "9lives", &long, &format!("{long}y"), ""];
        let given = assign(names.into_iter(), Dialect::OpenAi);
        assert_eq!((&*given[0], &*given[2], &*given[4]), ("echo", "a_b", "9lives"));
        assert!(given[1].starts_with("a_b_") && given[3].starts_with("a_b_"));
        assert_eq!(given.iter().collect::<HashSet<_>>().len(), names.len());
        assert!(given.iter().all(|name| (1..=64).contains(&name.len())));
        assert_eq!(assign(["a.b"].into_iter(), Dialect::OpenAi)[0], given[1], "whatever else is exported");
        assert!(assign(["9lives"].into_iter(), Dialect::Gemini)[0].starts_with("_9lives_"));
        assert_eq!(assign(["a.b"].into_iter(), Dialect::Mcp), ["a.b"]);
    }
}
