//! Clients that others wrote, from `make test-venv`.

use std::time::Duration;

use openskill_tests::repository;
use openskill_tests::require::{Need, skip};
use serde_json::{Value, json};
use tokio::process::Command;

use super::start;

#[tokio::test]
async fn the_python_library_lists_calls_gets_progress_and_answers_over_http_and_stdio() {
    let python = repository().join("target/test-venv/bin/python");
    if !python.with_file_name("mcp").exists() {
        return skip(Need::Venv, "the library mcp is missing; run `make test-venv`");
    }
    let system = start().await;
    let mut command = Command::new(python);
    command.arg(repository().join("tests/clients/mcp_face.py")).arg(format!("{}/mcp", system.url()));
    command.arg(openskill_tests::binary()).kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(60), command.output()).await.expect("it ends").unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    for way in ["http", "stdio"] {
        let answer = json!({"name": "Ada"});
        let expected = json!({"listed": true, "progress": [0.0, 50.0, 100.0], "is_error": true, "answer": answer});
        assert_eq!(seen[way], expected, "{way}: {seen}");
    }
}
