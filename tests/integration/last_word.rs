//! A forked call reports its own end. The report is trusted only as far as it can do no harm.

use std::time::Duration;

use openskill_proto::v1::InvokeRequest;
use openskill_tests::folder::Folder;
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use serde_json::json;

/// A concurrency of one, so that the next call notices a slot that is not freed.
async fn with_script(folder: &Folder, script: &str, more: &str) -> System {
    folder.write("scripts/ends.py", script);
    folder.write("ends.yaml", format!("id: ends\ntype: cli:python\nentry: scripts/ends.py\n{more}"));
    let skills = folder.path().display().to_string();
    Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills])
        .with("OPENSKILL_WORKER_CONCURRENCY", 1)
        .start()
        .await
}

#[tokio::test]
async fn a_script_that_reports_its_end_and_goes_on_is_killed() {
    let folder = Folder::new();
    let script = r#"
import os
import time

print('"first"', flush=True)
events = int(os.environ["OPENSKILL_EVENTS_FD"])
os.write(events, b"\x040 0\n")
os.closerange(0, events + 1)
time.sleep(3600)
"#;
    let system = with_script(&folder, script, "").await;
    for number in 0..2 {
        let call_id = format!("goes-on-{}-{number}", std::process::id());
        let result = system.invoke(InvokeRequest { call_id: call_id.clone(), ..request("ends", json!({})) }).await;
        assert_eq!((code(&result), data(&result)), ("", json!("first")));
        processes::gone(&call_id, PATIENCE).await;
    }
    system.process.log.line(&["sent its exit message but still runs"]).await;
}

#[tokio::test]
async fn half_an_event_before_the_report_does_no_harm() {
    let folder = Folder::new();
    let script = r#"
import os
import sys

events = int(os.environ["OPENSKILL_EVENTS_FD"])
os.write(events, b"half a line")
print('"second"')
sys.exit(3)
"#;
    let system = with_script(&folder, script, "").await;
    let result = system.invoke(request("ends", json!({}))).await;
    assert_eq!(result.error.unwrap().message, "the skill ended with exit code 3");
}

#[tokio::test]
async fn a_file_in_place_of_the_pipe_is_not_written_to() {
    let folder = Folder::new();
    let script = r#"
import json
import os
import sys

path = json.load(sys.stdin)["input"]["path"]
events = int(os.environ["OPENSKILL_EVENTS_FD"])
os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY), events)
os.write(events, b"mine")
print('"third"')
"#;
    let system = with_script(&folder, script, "jail: \"off\"\n").await;
    let file = folder.path().join("own.txt");
    let result = system.invoke(request("ends", json!({"path": file}))).await;
    assert_eq!((code(&result), data(&result)), ("", json!("third")));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
}

#[tokio::test]
async fn a_process_that_closed_all_pipes_still_counts_as_left_over() {
    let folder = Folder::new();
    let script = r#"
import os
import time

events = int(os.environ["OPENSKILL_EVENTS_FD"])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, events + 1)
        time.sleep(3600)
    os._exit(0)
os.wait()
print('"fourth"')
"#;
    let system = with_script(&folder, script, "").await;
    let call_id = format!("leaves-{}", std::process::id());
    let result = system.invoke(InvokeRequest { call_id: call_id.clone(), ..request("ends", json!({})) }).await;
    assert_eq!(code(&result), "EXECUTION_ERROR", "{result:?}");
    assert!(result.error.unwrap().message.contains("left 1 process"));
    // Its supervisor may take a moment to exit.
    processes::gone(&call_id, Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_fork_of_the_script_cannot_report_its_end() {
    let folder = Folder::new();
    let script = r#"
import json
import os
import sys

how = json.load(sys.stdin)["input"]["how"]
if os.fork() == 0:
    sys.exit(0)
os.wait()
print('"fifth"', flush=True)
if how == "leave":
    os._exit(5)
if how == "die":
    os.abort()
"#;
    let system = with_script(&folder, script, "").await;
    let ends = async |how| system.invoke(request("ends", json!({"how": how}))).await;
    let result = ends("return").await;
    assert_eq!((code(&result), data(&result)), ("", json!("fifth")));
    assert_eq!(ends("leave").await.error.unwrap().message, "the skill ended with exit code 5");
    assert_eq!(ends("die").await.error.unwrap().message, "the skill was killed by SIGABRT");
}

#[tokio::test]
async fn a_finished_call_frees_its_slot_for_the_next() {
    let folder = Folder::new();
    let script = r#"
import fcntl
import json
import os
import sys

path = json.load(sys.stdin)["input"]["path"]
fcntl.flock(os.open(path, os.O_CREAT | os.O_WRONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
print('"locked"')
"#;
    folder.write("scripts/ends.py", script);
    folder.write("ends.yaml", "id: ends\ntype: cli:python\nentry: scripts/ends.py\njail: \"off\"\n");
    let skills = folder.path().display().to_string();
    let more_slots = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills]);
    let system = more_slots.start().await;
    for _ in 0..50 {
        let result = system.invoke(request("ends", json!({"path": folder.path().join("lock")}))).await;
        assert_eq!((code(&result), data(&result)), ("", json!("locked")), "{result:?}");
    }
}
