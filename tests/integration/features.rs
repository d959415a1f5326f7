//! Builds that people use one after the other have the same features, and so share what is built of their dependencies.

use std::collections::BTreeMap;
use std::process::Command;

use openskill_tests::repository;

/// The features of each package that a selection of packages builds. A crate of the workspace is built again in any case.
fn features(selection: &[&str]) -> BTreeMap<String, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["tree", "--locked", "--offline", "--prefix", "none", "--edges", "normal,build", "--no-dedupe"]);
    let output = cargo.args(["--format", "{p}|{f}"]).args(selection).current_dir(repository()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let foreign = lines.lines().filter(|line| !line.contains('/'));
    foreign.filter_map(|line| line.split_once('|')).map(|(name, features)| (name.into(), features.into())).collect()
}

#[test]
fn the_program_and_its_tests_are_built_from_the_same_dependencies() {
    let workspace = features(&["--workspace"]);
    assert!(workspace.len() > 100, "{}", workspace.len());
    for selection in [&["--package", "openskill"][..], &["--package", "openskill", "--no-default-features"]] {
        for (package, features) in features(selection) {
            let add = "name the missing features in the root Cargo.toml";
            assert_eq!(Some(&features), workspace.get(&package), "{package}, {selection:?}: {add}");
        }
    }
}
