//! The program of the gateway's image: built without a worker, it serves those of other processes and says what it lacks.

use std::path::PathBuf;
use std::process::{Command, Output};

use openskill_tests::fixtures;
use openskill_tests::folder::Folder;
use openskill_tests::gateway_binary;
use openskill_tests::port::Port;
use openskill_tests::require::{Need, skip};
use openskill_tests::rest;
use openskill_tests::system::Setup;
use serde_json::json;

fn program_or_skip() -> Option<PathBuf> {
    let program = gateway_binary();
    if program.is_none() {
        skip(Need::Gateway, "there is no program without a worker; run `make gateway PROFILE=dev`");
    }
    program
}

#[tokio::test]
async fn a_gateway_without_a_worker_inside_serves_workers_of_the_whole_program() {
    let Some(program) = program_or_skip() else { return };
    let (folder, port) = (Folder::new(), Port::reserve());
    let socket = folder.path().join("worker.sock");
    let source = format!("unix:{}", socket.display());
    let _worker =
        Setup::command(&["worker", "--listen", &source, "--skills-dir", &fixtures().display().to_string()]).spawn();
    let gateway = ["gateway", "--workers", &source, "--listen", &port.address().to_string()];
    // A setting of workers, which is nothing to this program.
    let running = Setup::command(&gateway).binary(&program).with("OPENSKILL_BROWSER_TABS", "none").spawn();
    running.log.line(&["gateway ready"]).await;
    let body = json!({"input": {"text": "hello"}}).to_string();
    let answer = rest::send(port.address(), http::Method::POST, "/skills/in_echo:invoke", &[], body).await;
    assert_eq!(answer.json()["data"], json!({"text": "hello"}), "{answer:?}");
    let client = run(&program, &["skills", "--url", &format!("http://{}", port.address())]);
    assert!(client.status.success() && String::from_utf8_lossy(&client.stdout).contains("in_echo"), "{client:?}");
}

#[test]
fn what_needs_a_worker_says_so_and_is_not_offered() {
    let Some(program) = program_or_skip() else { return };
    for line in [
        &["worker"][..],
        &["up", "--workers", "3"],
        &["check", "--no-such-flag"],
        &["doctor", "--help"],
        &["tools", "add", "git"],
        &["mcp"],
    ] {
        let Output { status, stderr, .. } = run(&program, line);
        let said = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(2), "{line:?}: {said}");
        assert!(said.contains("built without a worker") && said.contains("openskill-worker"), "{line:?}: {said}");
    }
    let help = String::from_utf8(run(&program, &["--help"]).stdout).unwrap();
    let offers = |name: &str| help.lines().any(|line| line.trim_start().starts_with(&format!("{name} ")));
    for name in ["gateway", "agent", "invoke", "keys", "certs"] {
        assert!(offers(name), "{name}: {help}");
    }
    for name in ["up", "worker", "init", "new", "check", "doctor", "manifest", "pin"] {
        assert!(!offers(name), "{name}: {help}");
    }
}

fn run(program: &PathBuf, line: &[&str]) -> Output {
    Command::new(program).args(line).env_clear().output().unwrap()
}
