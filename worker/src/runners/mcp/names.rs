//! Derives skill ids from tool names: `server__tool`, restricted to the characters of a skill id.

use std::collections::{HashMap, HashSet};

use openskill_proto::limits::MAX_SKILL_ID_BYTES;
use openskill_proto::trace::hex;
use sha2::{Digest as _, Sha256};

/// The number of digest characters that distinguish truncated names.
const DIGEST_CHARS: usize = 8;

/// Returns each tool's skill id. Clashing ids are numbered in the order of the tool names, so that they do not
/// depend on the order of the server's list.
pub(super) fn skill_ids(server: &str, tools: &[&str]) -> HashMap<String, String> {
    let mut sorted: Vec<&str> = tools.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut taken = HashSet::new();
    let mut ids = HashMap::with_capacity(sorted.len());
    for tool in sorted {
        let plain = skill_id(server, tool);
        let mut id = plain.clone();
        let mut number = 2;
        while !taken.insert(id.clone()) {
            let suffix = format!("_{number}");
            id = format!("{}{suffix}", &plain[..plain.len().min(MAX_SKILL_ID_BYTES - suffix.len())]);
            number += 1;
        }
        ids.insert(tool.to_owned(), id);
    }
    ids
}

/// Returns a tool's skill id, before clashes are resolved.
pub(super) fn skill_id(server: &str, tool: &str) -> String {
    let letter = |it: char| match it.to_ascii_lowercase() {
        it if it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-' => it,
        _ => '_',
    };
    let id = format!("{server}__{}", tool.chars().map(letter).collect::<String>());
    if id.len() <= MAX_SKILL_ID_BYTES {
        return id;
    }
    let digest = hex(&Sha256::digest(tool.as_bytes()));
    format!("{}_{}", &id[..MAX_SKILL_ID_BYTES - 1 - DIGEST_CHARS], &digest[..DIGEST_CHARS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_only_letters_that_an_id_may_have() {
        let ids = skill_ids("files", &["readFile", "list.all/things", "git-log"]);
        assert_eq!(ids["readFile"], "files__readfile");
        assert_eq!(ids["list.all/things"], "files__list_all_things");
        assert_eq!(ids["git-log"], "files__git-log");
    }

    #[test]
    fn clashes_are_numbered_in_the_same_order_however_they_are_listed() {
        let one = skill_ids("s", &["a.b", "A_b", "a_b"]);
        let other = skill_ids("s", &["a_b", "a.b", "A_b"]);
        assert_eq!(one, other);
        let mut all: Vec<_> = one.values().cloned().collect();
        all.sort();
        assert_eq!(all, ["s__a_b", "s__a_b_2", "s__a_b_3"]);
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let (one, other) = (format!("{}1", "x".repeat(100)), format!("{}2", "x".repeat(100)));
        let ids = skill_ids("server", &[&one, &other]);
        assert!(ids.values().all(|id| id.len() == MAX_SKILL_ID_BYTES));
        assert_ne!(ids[&one], ids[&other]);
        assert_eq!(ids, skill_ids("server", &[&other, &one]));
    }

    #[test]
    fn the_longest_server_id_leaves_a_usable_id() {
        let server = "s".repeat(64);
        let ids = skill_ids(&server, &["a", "b"]);
        assert!(ids.values().all(|id| id.len() == MAX_SKILL_ID_BYTES));
        assert_ne!(ids["a"], ids["b"]);
    }
}
