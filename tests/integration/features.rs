//! Builds that people use one after the other have the same features, and so share what is built of their dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use openskill_tests::repository;

/// The features of each package that a selection of packages builds. A crate of the workspace is built again in any case.
fn features(edges: &str, selection: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let mut cargo = Command::new("cargo");
    cargo.args(["tree", "--locked", "--offline", "--prefix", "none", "--edges", edges, "--no-dedupe"]);
    let output = cargo.args(["--format", "{p}|{f}"]).args(selection).current_dir(repository()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let foreign = lines.lines().filter(|line| !line.contains('/'));
    let mut found = BTreeMap::<_, BTreeSet<_>>::new();
    for (package, features) in foreign.filter_map(|line| line.split_once('|')) {
        found.entry(package.to_owned()).or_default().insert(features.to_owned());
    }
    found
}

#[test]
fn the_program_and_its_tests_are_built_from_the_same_dependencies() {
    let workspace = features("normal,build,dev", &["--workspace"]);
    assert!(workspace.len() > 100, "{}", workspace.len());
    for selection in [&["--package", "openskill"][..], &["--package", "openskill", "--no-default-features"]] {
        for (package, features) in features("normal,build", selection) {
            let add = "name the missing features in the root Cargo.toml";
            assert_eq!(Some(&features), workspace.get(&package), "{package}, {selection:?}: {add}");
        }
    }
}
