//! `openskill logs`.

use std::process::Stdio;

use openskill_tests::binary;
use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, System};
use openskill_tests::wait::until;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::at;

/// Calls a skill by its id and `invoke` or `stream`.
async fn call(system: &System, skill: &str, trace: &str) {
    let headers = [("content-type", "application/json"), ("x-trace-id", trace)];
    let input = json!({"input": {"code": "EXECUTION_ERROR", "message": "it broke"}});
    system.post(&format!("/skills/{skill}"), &headers, input.to_string()).await;
}

/// The log, once it has this many lines.
async fn log(system: &System, arguments: &[&str], lines: usize) -> Vec<String> {
    until(&format!("{lines} lines of the log"), PATIENCE, || async {
        let ran = at(system, &[&["logs"], arguments].concat()).await;
        assert_eq!(ran.code, 0, "{}", ran.err);
        let found: Vec<_> = ran.out.lines().map(str::to_owned).collect();
        (found.len() == lines).then_some(found)
    })
    .await
}

#[tokio::test]
async fn a_log_has_what_skills_logged_and_how_calls_ended() {
    let system = Setup::up().flag("--workers", 1).start().await;
    call(&system, "reports_progress:stream", "first").await;
    call(&system, "in_fail:invoke", "second").await;
    let lines = log(&system, &[], 3).await;
    assert!(lines[0].contains("  warning  reports_progress  first  careful"), "{lines:?}");
    assert!(lines[1].contains("  info     reports_progress  first  OK in "), "{lines:?}");
    assert!(lines[2].contains("  error    in_fail           second  EXECUTION_ERROR in "), "{lines:?}");
    assert_eq!(log(&system, &["--skill", "in_fail"], 1).await, lines[2..]);
    let json = log(&system, &["--skill", "in_fail", "--json"], 1).await;
    let told: Value = serde_json::from_str(&json[0]).unwrap();
    assert_eq!((&told["level"], &told["trace"]), (&json!("error"), &json!("second")), "{told}");
    assert_eq!(log(&system, &["--tail", "1"], 1).await, lines[2..]);
}

#[tokio::test]
async fn a_log_has_the_stderr_of_calls_that_the_worker_logs() {
    let folder = Folder::new();
    folder.write("speaks.py", "import sys\nprint('read 3 rows; password=hunter2', file=sys.stderr)\nprint('{}')\n");
    let setup = Setup::with_skills(&[folder.path()]).with("OPENSKILL_LOG", "info,openskill::stderr=debug");
    let system = setup.start().await;
    system.has_skill("speaks").await;
    call(&system, "speaks:invoke", "first").await;
    let lines = log(&system, &[], 2).await;
    assert!(lines[0].contains("  stderr   speaks            first  read 3 rows; password=***"), "{lines:?}");
    assert!(lines[1].contains("first  OK in "), "{lines:?}");
}

#[tokio::test]
async fn a_followed_log_goes_on_where_the_list_ends() {
    let system = Setup::up().flag("--workers", 1).start().await;
    call(&system, "reports_progress:invoke", "before").await;
    log(&system, &[], 2).await;
    let mut child = Command::new(binary())
        .args(["logs", "--follow", "--url", &system.url()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("a line").unwrap().unwrap();
    assert!(next().await.ends_with("before  careful"));
    assert!(next().await.contains("before  OK in "));
    // What is printed above comes after the subscription.
    call(&system, "reports_progress:stream", "after").await;
    assert!(next().await.ends_with("after  careful"));
    assert!(next().await.contains("after  OK in "));
}
