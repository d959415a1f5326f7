//! The licence, the source and the version of every dependency are as `deny.toml` says, which `cargo deny` reads too.

use std::collections::BTreeSet;
use std::process::Command;

use openskill_tests::repository;
use serde_json::Value;

/// The licences that a product of ours may contain.
fn allowed() -> BTreeSet<String> {
    let text = std::fs::read_to_string(repository().join("deny.toml")).unwrap();
    let list = text.split_once("allow = [").unwrap().1.split_once(']').unwrap().0;
    list.split(',').map(|it| it.trim().trim_matches('"').to_owned()).collect()
}

/// Whether an SPDX expression can be met with what is allowed. A slash is an old way to write OR.
fn is_met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = either(&words, &mut at, allowed);
    met && at == words.len()
}

fn either(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut met = both(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= both(words, at, allowed);
    }
    met
}

fn both(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut met = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at, allowed);
    }
    met
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let met = either(words, at, allowed);
        let is_closed = words.get(*at) == Some(&")");
        *at += 1;
        return met && is_closed;
    }
    if words.get(*at) != Some(&"WITH") {
        return allowed.contains(*word);
    }
    let exception = words.get(*at + 1).copied().unwrap_or_default();
    *at += 2;
    allowed.contains(&format!("{word} WITH {exception}"))
}

#[test]
fn every_dependency_has_an_allowed_licence_and_comes_from_crates_io() {
    // Of the platform of these tests: nothing else was downloaded.
    let rustc = Command::new("rustc").arg("-vV").output().unwrap();
    let about = String::from_utf8(rustc.stdout).unwrap();
    let host = about.lines().find_map(|it| it.strip_prefix("host: ")).unwrap();
    let described = [".", "crates/readers"].map(|folder| {
        let mut cargo = Command::new("cargo");
        cargo.args(["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", host]);
        let output = cargo.current_dir(repository().join(folder)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    });
    let packages = described.iter().flat_map(|it| it["packages"].as_array().unwrap());
    let (mut count, allowed) = (0, allowed());
    for package in packages.filter(|it| !it["source"].is_null()) {
        let name = format!("{} {}", package["name"], package["version"]);
        let source = package["source"].as_str().unwrap();
        assert!(source.starts_with("registry+https://github.com/rust-lang/crates.io-index"), "{name}: {source}");
        let licence = package["license"].as_str().unwrap_or_else(|| panic!("{name} names no licence"));
        assert!(is_met(licence, &allowed), "{name}: '{licence}' is not among {allowed:?}");
        count += 1;
    }
    assert!(count > 300, "{count}");
}

#[test]
fn every_dependency_has_one_version_unless_deny_toml_excepts_it() {
    let deny = std::fs::read_to_string(repository().join("deny.toml")).unwrap();
    let excepted = |name: &str, version: &str| {
        deny.split("crate = \"").skip(1).any(|it| {
            let (excepted, old) = it.split_once('"').unwrap().0.split_once('@').unwrap();
            excepted == name && format!("{version}.").starts_with(&format!("{old}."))
        })
    };
    for lock in ["Cargo.lock", "crates/readers/Cargo.lock", "proto/generate/Cargo.lock"] {
        let text = std::fs::read_to_string(repository().join(lock)).unwrap();
        let mut names = BTreeSet::new();
        for package in text.split("[[package]]").skip(1) {
            let value = |key: &str| package.split_once(&format!("{key} = \"")).unwrap().1.split_once('"').unwrap().0;
            let (name, version) = (value("name"), value("version"));
            assert!(
                excepted(name, version) || names.insert(name),
                "{lock} has two versions of {name}: use the one that others use, or say in deny.toml who needs {version}"
            );
        }
    }
}

#[test]
fn expressions_are_met_by_one_side_of_or_and_both_of_and() {
    let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
    for (expression, met) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT/GPL-3.0", true),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(GPL-3.0 OR MIT) AND Apache-2.0", true),
        ("GPL-3.0 OR MIT AND GPL-2.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("MIT WITH LLVM-exception", false),
        ("(MIT", false),
        ("MIT GPL-3.0", false),
        ("", false),
    ] {
        assert_eq!(is_met(expression, &allowed), met, "{expression}");
    }
}
