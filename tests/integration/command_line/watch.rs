//! `--watch`: a list, then each change.

use std::process::Stdio;

use openskill_proto::v1::InvokeRequest;
use openskill_tests::binary;
use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, System, request};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::at;

/// A command that goes on, and its lines.
struct Watching {
    lines: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Watching {
    fn start(system: &System, arguments: &[&str]) -> Self {
        let mut child = Command::new(binary())
            .args(arguments)
            .args(["--url", &system.url()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { lines: BufReader::new(child.stdout.take().unwrap()).lines(), _child: child }
    }

    /// The next line that begins with these words.
    async fn line(&mut self, words: &[&str]) -> String {
        let found = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if line.split_whitespace().zip(words).all(|(got, wanted)| got == *wanted) {
                    return line;
                }
            }
            panic!("it ended before {words:?}");
        };
        tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("no {words:?}"))
    }
}

#[tokio::test]
async fn skills_are_watched_as_they_come_and_go() {
    let folder = Folder::new();
    folder.write("first.yaml", "id: first\ntype: inproc\nentry: echo\n");
    let system = Setup::with_skills(&[folder.path()]).flag("--workers", 1).start().await;
    system.has_skill("first").await;
    let mut table = Watching::start(&system, &["skills", "--watch"]);
    table.line(&["CHANGE", "ID"]).await;
    table.line(&["added", "first"]).await;
    let mut json = Watching::start(&system, &["skills", "-w", "-o", "json"]);
    let told: Value = serde_json::from_str(&json.line(&[]).await).unwrap();
    assert_eq!((&told["change"], &told["skill"]["id"]), (&json!("added"), &json!("first")), "{told}");
    folder.write("second.yaml", "id: second\ntype: inproc\nentry: echo\n");
    table.line(&["added", "second"]).await;
    // Without --all too: it was there a moment ago.
    folder.write("second.yaml", "id: second\ntype: inproc\nentry: echo\nunavailable: on holiday\n");
    let line = table.line(&["updated", "second"]).await;
    assert!(line.contains("unavailable  on holiday"), "{line}");
    std::fs::remove_file(folder.path().join("second.yaml")).unwrap();
    table.line(&["removed", "second"]).await;
}

#[tokio::test]
async fn workers_and_circuits_are_watched() {
    let system = Setup::up().start().await;
    let mut workers = Watching::start(&system, &["workers", "--watch"]);
    workers.line(&["added", "worker-2", "up"]).await;
    assert_eq!(at(&system, &["drain", "worker-2"]).await.code, 0);
    workers.line(&["updated", "worker-2", "draining"]).await;
    let mut circuits = Watching::start(&system, &["circuits", "--watch"]);
    circuits.line(&["CHANGE", "SKILL"]).await;
    for _ in 0..3 {
        let failing = request("in_fail", json!({"code": "EXECUTION_ERROR"}));
        system.invoke(InvokeRequest { session_id: "talk".to_owned(), ..failing }).await;
    }
    circuits.line(&["added", "in_fail", "talk", "open", "3"]).await;
    assert_eq!(at(&system, &["circuits", "--reset"]).await.code, 0);
    circuits.line(&["removed", "in_fail", "talk", "closed"]).await;
}
