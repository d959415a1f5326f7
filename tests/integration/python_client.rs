//! The Python client: its wheel, against a gateway, by a program that uses it as people do.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use openskill_tests::folder::Folder;
use openskill_tests::repository;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::Setup;
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tokio::process::Command;

const CONTRACT: &str = "proto/python/openskill_client/contract.binpb";

/// The descriptors of a file and of what it imports, those first, without comments.
fn described(file: &str) -> FileDescriptorSet {
    fn add(name: &str, all: &FileDescriptorSet, seen: &mut BTreeSet<String>, found: &mut FileDescriptorSet) {
        if !seen.insert(name.to_owned()) {
            return;
        }
        let mut file = all.file.iter().find(|it| it.name() == name).unwrap().clone();
        file.dependency.iter().for_each(|it| add(it, all, seen, found));
        file.source_code_info = None;
        found.file.push(file);
    }
    let all = FileDescriptorSet::decode(openskill_proto::DESCRIPTORS).unwrap();
    let mut found = FileDescriptorSet::default();
    add(file, &all, &mut BTreeSet::new(), &mut found);
    found
}

#[test]
fn the_python_client_carries_the_contract_as_it_is() {
    let now = described("openskill/v1/operation.proto").encode_to_vec();
    let path = repository().join(CONTRACT);
    if std::env::var_os("OPENSKILL_WRITE_CONTRACT").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let kept = std::fs::read(&path).unwrap_or_default();
    assert!(kept == now, "{CONTRACT} is older than the .proto files: run this test with OPENSKILL_WRITE_CONTRACT=1");
}

async fn run(command: &mut Command) -> String {
    let output = tokio::time::timeout(Duration::from_secs(120), command.kill_on_drop(true).output()).await;
    let output = output.expect("it ends").unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}");
    text
}

/// The interpreter of `make test-venv`, and the wheel, built without a network. None: the test is skipped.
async fn wheel(folder: &Folder) -> Option<(PathBuf, PathBuf)> {
    let python = repository().join("target/test-venv/bin/python");
    if !python.exists() {
        skip(Need::Venv, "target/test-venv is not there; run `make test-venv`");
        return None;
    }
    let build = ["-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"];
    let build = build.into_iter().chain(["--no-build-isolation", "--wheel-dir", "dist"]);
    let source = repository().join("proto/python");
    run(Command::new(&python).args(build).arg(source).current_dir(folder.path())).await;
    let file = folder.path().join(format!("dist/openskill_client-{}-py3-none-any.whl", env!("CARGO_PKG_VERSION")));
    Some((python, file))
}

#[tokio::test]
async fn a_program_calls_streams_retries_and_answers_with_the_python_client() {
    let folder = Folder::new();
    let Some((python, wheel)) = wheel(&folder).await else { return };
    let system = Setup::shipped().with("OPENSKILL_STORE", "operations.sqlite").start().await;
    let script = repository().join("tests/clients/python_client.py");
    // A wheel is an archive that Python imports from.
    let mut program = Command::new(python);
    program.arg("-B").arg(script).arg("-v").env("PYTHONPATH", wheel);
    let said = run(program.env("OPENSKILL_ADDRESS", system.address.to_string())).await;
    assert!(said.contains("OK") && !said.contains("skipped"), "{said}");
}
