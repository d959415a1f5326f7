//! `openskill submit` and `openskill operations`.

use std::process::Stdio;

use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::system::{PATIENCE, Setup, System};
use openskill_tests::wait::until;
use openskill_tests::{binary, fixtures};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::artifacts::picture;

struct Ran {
    code: i32,
    out: String,
    err: String,
}

async fn start() -> System {
    Setup::up().with("OPENSKILL_STORE", "operations.sqlite").start().await
}

fn command(arguments: &[&str], url: &str) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).args(["--url", url]).stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn run(system: &System, arguments: &[&str]) -> Ran {
    let output = command(arguments, &system.url()).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// Submits a call, and returns the name of its operation.
async fn submit(system: &System, arguments: &[&str]) -> String {
    let ran = run(system, &[&["submit"], arguments].concat()).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    let name = ran.out.strip_suffix('\n').unwrap();
    assert!(name.starts_with("operations/") && !name.contains(char::is_whitespace), "{name}");
    name.to_owned()
}

/// The lines of `operations watch`.
fn events(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_question_is_shown_and_answered() {
    let system = start().await;
    let name = submit(&system, &["in_ask", "message=Which file?", "--interactive"]).await;
    let asks = async || {
        let shown = run(&system, &["operations", "get", &name]).await.out;
        shown.contains("Which file?").then_some(())
    };
    until("the question is shown", PATIENCE, asks).await;
    let answered = run(&system, &["operations", "answer", &name, r#"{"file": "a.txt"}"#]).await;
    assert_eq!(answered.code, 0, "{}", answered.err);
    let watched = run(&system, &["operations", "watch", &name]).await;
    assert!(watched.code == 0 && watched.out.contains("a.txt"), "{}", watched.out);
    let again = run(&system, &["operations", "answer", &name, "decline"]).await;
    assert!(again.code != 0 && again.err.contains("no open question"), "{}", again.err);
}

#[tokio::test]
async fn an_artifact_is_written_to_stdout_as_it_is() {
    let system = start().await;
    let name = submit(&system, &["draws", "bytes=300000"]).await;
    run(&system, &["operations", "watch", &name]).await;
    let output = command(&["operations", "get", &name, "--artifact", "0"], &system.url()).output().await.unwrap();
    assert!(output.status.success() && output.stdout == picture(300_000), "{:?}", output.status);
    assert_ne!(run(&system, &["operations", "get", &name, "--artifact", "1"]).await.code, 0);
}

#[tokio::test]
async fn a_submitted_call_is_watched_shown_listed_and_deleted() {
    let system = start().await;
    let name = submit(&system, &["in_echo", "text=hi", "--trace-id", "stored-1"]).await;
    let id = name.strip_prefix("operations/").unwrap();

    let watched = run(&system, &["operations", "watch", id]).await;
    assert_eq!(watched.code, 0, "{}", watched.err);
    let seen = events(&watched.out);
    let numbers: Vec<_> = seen.iter().map(|it| it["data"]["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=seen.len() as u64).collect::<Vec<_>>());
    let last = seen.last().unwrap();
    assert_eq!((&last["event"], &last["data"]["data"]), (&json!("result"), &json!({"text": "hi"})), "{last}");
    let after = (seen.len() - 1).to_string();
    assert_eq!(events(&run(&system, &["operations", "watch", id, "--after", &after]).await.out).len(), 1);
    let after = seen.len().to_string();
    let none = run(&system, &["operations", "watch", id, "--after", &after]).await;
    assert_eq!((none.code, none.out.as_str()), (0, ""), "{}", none.err);

    let shown = run(&system, &["operations", "get", id]).await.out;
    let named = format!("Name:         {name}\n");
    for part in [named.as_str(), "State:        succeeded\n", "Trace:        stored-1\n", "Data:\n{\n"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let shown = run(&system, &["operations", "get", &name, "-o", "json"]).await.out;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["result"]["data"], &shown["metadata"]["runs"]), (&json!({"text": "hi"}), &json!(1)), "{shown}");

    let table = run(&system, &["operations", "list"]).await.out;
    assert!(table.starts_with("NAME ") && table.lines().nth(1).unwrap().starts_with(&name), "{table}");
    for (filter, count) in [(["--state", "succeeded"], 1), (["--state", "failed"], 0), (["--skill", "in_fail"], 0)] {
        let list = run(&system, &[&["operations", "list", "-o", "json"], &filter[..]].concat()).await.out;
        let list: Vec<Value> = serde_json::from_str(&list).unwrap();
        assert_eq!(list.len(), count, "{filter:?}");
        assert!(list.iter().all(|it| it["name"] == name.as_str() && it.get("result").is_none()), "{list:?}");
    }

    let deleted = run(&system, &["operations", "delete", id]).await;
    assert_eq!((deleted.code, deleted.out), (0, format!("deleted {name}\n")));
    let gone = run(&system, &["operations", "get", id]).await;
    assert!(gone.code == 1 && gone.err.contains("(NotFound)"), "{}", gone.err);
    assert_eq!(run(&system, &["operations", "watch", id]).await.code, 1);
}

#[tokio::test]
async fn submit_waits_and_prints_the_result_as_invoke_does() {
    let system = start().await;
    let invoked = run(&system, &["invoke", "in_echo", "text=hi"]).await;
    let waited = run(&system, &["submit", "in_echo", "text=hi", "--wait"]).await;
    assert_eq!((waited.code, &waited.out), (0, &invoked.out), "{}", waited.err);
    assert!(waited.err.starts_with("operations/"), "{}", waited.err);
    let failed = run(&system, &["submit", "in_fail", "code=EXECUTION_ERROR", "--wait=30", "-o", "json"]).await;
    assert!(failed.code == 1 && failed.err.contains("EXECUTION_ERROR"), "{}", failed.err);
    let operation: Value = serde_json::from_str(&failed.out).unwrap();
    assert_eq!((&operation["metadata"]["state"], &operation["result"]["success"]), (&json!("failed"), &json!(false)));
    let long = run(&system, &["submit", "naps", "seconds=50", "--wait=1"]).await;
    assert!(long.code == 1 && long.err.contains("has not ended after 1 second:"), "{}", long.err);
}

#[tokio::test]
async fn an_operation_is_scheduled_cancelled_and_retried() {
    let system = start().await;
    let scheduled = submit(&system, &["in_echo", "--start-at", "1h"]).await;
    assert!(run(&system, &["operations", "get", &scheduled]).await.out.contains("State:        scheduled\n"));
    let ran = run(&system, &["operations", "cancel", &scheduled]).await;
    assert_eq!((ran.code, ran.out), (0, format!("cancelled {scheduled}\n")), "{}", ran.err);

    let running = submit(&system, &["naps", "seconds=50"]).await;
    until("it runs", PATIENCE, async || {
        run(&system, &["operations", "get", &running]).await.out.contains("State:        running").then_some(())
    })
    .await;
    let early = run(&system, &["operations", "delete", &running]).await;
    assert!(early.code == 1 && early.err.contains("cancel it first"), "{}", early.err);
    let ran = run(&system, &["operations", "cancel", &running]).await;
    assert!(ran.code == 0 && ran.out.contains(&running), "{}{}", ran.out, ran.err);
    let watched = run(&system, &["operations", "watch", &running]).await;
    assert!(watched.code == 1 && watched.err.contains("CANCELLED: "), "{}", watched.err);

    let retried = run(&system, &["operations", "retry", &running]).await;
    let again = retried.out.trim_end();
    assert!(retried.code == 0 && again.starts_with("operations/") && again != running, "{}", retried.err);
    assert_eq!(run(&system, &["operations", "cancel", again]).await.code, 0);
}

#[tokio::test]
async fn a_call_that_cannot_run_is_refused_with_the_feedback_of_invoke() {
    let system = start().await;
    for call in [&["typed", "tsk=x"][..], &["no_such_skill"]] {
        let invoked = run(&system, &[&["invoke"], call].concat()).await;
        let refused = run(&system, &[&["submit"], call].concat()).await;
        assert_eq!((refused.code, refused.out.as_str()), (1, ""));
        assert_eq!(refused.err.lines().next(), invoked.err.lines().next());
    }
    for (arguments, code) in [
        (&["submit", "in_echo", "--start-at", "soon"][..], 2),
        (&["submit", "in_echo", "--wait=0"], 2),
        (&["submit"], 2),
        (&["operations", "list", "--state", "gone"], 2),
        (&["operations", "cancel", "no-such-operation"], 1),
        (&["operations", "retry", "no-such-operation"], 1),
    ] {
        let ran = run(&system, arguments).await;
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
    }
    assert!(run(&system, &["operations", "list", "-o", "json"]).await.out.starts_with("[]"), "nothing was stored");
}

#[tokio::test]
async fn watch_continues_after_a_restart_of_the_gateway() {
    let (port, folder) = (Port::reserve(), Folder::new());
    let start = || {
        let (listen, skills) = (port.address().to_string(), fixtures().display().to_string());
        let setup = Setup::command(&["up", "--listen", &listen, "--skills-dir", &skills]);
        setup.with("OPENSKILL_STORE", folder.path().join("operations.sqlite").display()).start()
    };
    let mut first = start().await;
    let name = submit(&first, &["naps_idempotent", "seconds=3"]).await;
    let mut watch = command(&["operations", "watch", &name], &first.url());
    let mut watching = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut seen = vec![lines.next_line().await.unwrap().unwrap()];
    first.process.terminate();
    first.process.ended().await;
    let second = start().await;
    while let Some(line) = lines.next_line().await.unwrap() {
        seen.push(line);
    }
    let ended = watching.wait_with_output().await.unwrap();
    let err = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success() && err.contains("connecting again"), "{err}");
    let seen = events(&seen.join("\n"));
    let numbers: Vec<_> = seen.iter().map(|it| it["data"]["number"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|it| it[0] < it[1]), "{numbers:?}");
    assert_eq!(seen.last().unwrap()["data"]["data"], json!({"slept": 3}));
    drop(second);
}
