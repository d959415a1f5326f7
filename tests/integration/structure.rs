//! The edges between crates, and other things that are absent on purpose.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use openskill_tests::repository;

/// Which of our crates a crate's manifest names.
fn edges(folder: &str) -> BTreeSet<String> {
    let manifest = std::fs::read_to_string(repository().join(folder).join("Cargo.toml")).unwrap();
    let names = manifest.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter_map(|name| name.strip_prefix("openskill-")).map(str::to_owned).collect()
}

#[test]
fn crates_know_only_whom_they_may() {
    for (folder, allowed) in [
        ("proto", &[][..]),
        ("gateway", &["proto"]),
        ("worker", &["proto"]),
        ("cli", &["gateway", "proto", "worker"]),
        ("tests", &["proto"]),
    ] {
        let allowed: BTreeSet<_> = allowed.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(edges(folder), allowed, "{folder}");
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

fn all_sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["proto/src", "gateway/src", "worker/src", "cli/src"] {
        sources(&repository().join(folder), &mut found);
    }
    assert!(found.len() > 50, "{}", found.len());
    found
}

#[test]
fn every_file_says_what_it_is_for_and_stays_within_a_few_screens() {
    for path in all_sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        let is_tests = path.ends_with("tests.rs");
        assert!(is_tests || text.starts_with("//!"), "{} has no module documentation", path.display());
        let code = text.split("#[cfg(test)]").next().unwrap();
        assert!(code.lines().count() <= 370, "{} has {} lines", path.display(), code.lines().count());
    }
}

#[test]
fn no_module_is_a_drawer_for_everything() {
    for path in all_sources() {
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(!["common", "utils", "util", "helpers", "core", "misc", "mod"].contains(&name), "{}", path.display());
    }
}

#[test]
fn the_gateway_reads_no_environment_and_no_disk_on_a_call() {
    for path in all_sources().iter().filter(|path| path.starts_with(repository().join("gateway"))) {
        let text = std::fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        assert!(!code.contains("std::env::"), "{}", path.display());
        let may_look_up_sockets = path.ends_with("workers/source.rs");
        assert!(
            may_look_up_sockets || !(code.contains("std::fs::") || code.contains("tokio::fs::")),
            "{}",
            path.display()
        );
    }
}
