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
fn crates_depend_only_on_the_crates_below_them() {
    for (folder, allowed) in [
        ("proto", &[][..]),
        ("crates/net", &[]),
        ("crates/skill", &["proto"]),
        ("crates/trace", &["proto"]),
        ("gateway", &["net", "proto", "skill", "trace"]),
        ("worker", &["net", "proto", "skill", "trace"]),
        ("cli", &["gateway", "net", "proto", "trace", "worker"]),
        ("tests", &["proto"]),
    ] {
        let allowed: BTreeSet<_> = allowed.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(edges(folder), allowed, "{folder}");
    }
}

/// The dependencies of a manifest that cargo always builds, without those for tests and build scripts.
fn required_dependencies(folder: &str) -> BTreeSet<String> {
    let manifest = std::fs::read_to_string(repository().join(folder).join("Cargo.toml")).unwrap();
    let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]")).unwrap().to_owned();
    let required = section.lines().skip(1).filter(|line| !line.is_empty() && !line.contains("optional = true"));
    required.filter_map(|line| line.split(['.', ' ', '=']).next()).map(str::to_owned).collect()
}

#[test]
fn a_client_of_the_contract_gets_no_runtime_no_validator_and_no_telemetry() {
    let light = ["base64", "bytes", "prost", "prost-types", "rand", "serde", "serde_json", "sha2"];
    assert_eq!(required_dependencies("proto"), light.iter().map(|it| (*it).to_owned()).collect());
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
    for folder in ["proto/src", "crates", "gateway/src", "worker/src", "cli/src"] {
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
