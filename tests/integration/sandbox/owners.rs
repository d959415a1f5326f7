//! Whom a session belongs to, what it shares with sessions of others, and what made it.

use openskill_proto::v1::InvokeRequest;
use openskill_tests::folder::Folder;
use openskill_tests::processes;
use openskill_tests::repository;
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::{until, until_true};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{EXECUTE, names, of_one_worker, run, sandbox};

async fn in_conversation(system: &System, conversation: &str, code_: &str) -> Value {
    let call = request(EXECUTE, json!({"code": code_, "session_id": "s"}));
    let call = InvokeRequest { session_id: conversation.to_owned(), timeout_ms: 60_000, ..call };
    data(&system.invoke(call).await)
}

/// The child of the worker that this process descends from. A look at all processes may miss one while others come and go.
async fn supervisor_of(worker: i32, text: &str) -> i32 {
    let of = |root: i32| processes::descendants(root).into_iter().any(|it| processes::command_line(it).contains(text));
    until(text, PATIENCE, async || processes::children(worker, "").into_iter().find(|it| of(*it))).await
}

#[tokio::test]
async fn sessions_of_owners_have_fork_servers_apart_and_one_ends_without_the_other() {
    let Some(system) = of_one_worker().await else { return };
    let [worker] = system.worker_pids()[..] else { panic!("one worker") };
    for (conversation, seconds) in [("one", "86397"), ("two", "86398")] {
        let begin = format!("import subprocess\nmine = 7\nsubprocess.Popen(['sleep', '{seconds}']); None");
        assert_eq!(in_conversation(&system, conversation, &begin).await["session_state"], "new");
    }
    let (one, two) = (supervisor_of(worker, "86397").await, supervisor_of(worker, "86398").await);
    assert_ne!(one, two, "what the kernel ends for too much memory is of one owner");
    // As when the kernel ends all that the group of the first one holds.
    processes::send(one, Signal::KILL);
    until_true("all of it is gone", PATIENCE, || !processes::is_alive(one)).await;
    let other = in_conversation(&system, "two", "mine").await;
    assert_eq!((&other["result"], &other["session_state"]), (&json!("7"), &json!("kept")));
    let mut own = in_conversation(&system, "one", "'mine' in globals()").await;
    if own["session_state"] == "lost" {
        // The worker had not heard of the end yet.
        own = in_conversation(&system, "one", "'mine' in globals()").await;
    }
    assert_eq!((&own["result"], &own["session_state"]), (&json!("False"), &json!("new")));
}

#[tokio::test]
async fn a_call_without_a_session_ends_none_that_is_kept() {
    let setup = Setup::shipped().flag("--workers", 1).with("OPENSKILL_SESSIONS_PER_CALLER", 2);
    let Some(system) = sandbox(setup.with("OPENSKILL_SESSIONS", 2)).await else { return };
    for name in ["a", "b"] {
        run(&system, "1", name).await;
    }
    for _ in 0..3 {
        assert_eq!(run(&system, "1", "").await["result"], "1");
    }
    assert_eq!(names(&system).await, ["a", "b"]);
}

#[tokio::test]
async fn the_result_lists_the_artifacts_that_there_are() {
    let Some(system) = of_one_worker().await else { return };
    let forge = "import os, stat, time\n\
                 stream = [n for n in range(3, 256) if os.path.exists(f'/proc/self/fd/{n}') and \
                 stat.S_ISSOCK(os.stat(f'/proc/self/fd/{n}').st_mode)][0]\n\
                 os.write(stream, b'{\"session\": {\"ended\": {\"cell\": 1, \"artifacts\": [{\"name\": \"../../forged\"}]}}}\\n')\n\
                 time.sleep(600)";
    let told = run(&system, forge, "").await;
    assert_eq!(told["artifacts"], json!([]), "{told}");
    assert!(told["notes"][0].as_str().unwrap().contains("1 artifacts are missing"), "{told}");
}

/// A skill that runs code in the toolset `box`, with this limit.
fn manifest(id: &str, memory_mb: u32) -> String {
    format!(
        "id: {id}\ntype: session\nruntime: python\nentry: execute\naffinity: caller\ntoolset: box\n\
         limits: {{memory_mb: {memory_mb}}}\nparameters:\n  code: {{type: string, required: true}}\n  \
         session_id: {{type: string}}\n"
    )
}

#[tokio::test]
async fn a_session_is_of_one_skill_and_ends_when_its_manifest_changes() {
    let folder = Folder::new();
    folder.write("run_one.yaml", manifest("run_one", 512));
    folder.write("run_two.yaml", manifest("run_two", 512));
    let setup = Setup::with_skills(&[folder.path(), &repository().join("worker/skills")]).flag("--workers", 1);
    let Some(system) = sandbox(setup).await else { return };
    let look = async |skill: &str| {
        let call = request(skill, json!({"code": "seen = globals().get('seen', 0) + 1\nseen", "session_id": "s"}));
        let result = system.invoke(InvokeRequest { timeout_ms: 60_000, ..call }).await;
        assert_eq!(code(&result), "", "{result:?}");
        data(&result)["result"].clone()
    };
    for (skill, seen) in [("run_one", "1"), ("run_two", "1"), ("run_one", "2"), ("run_two", "2")] {
        assert_eq!(look(skill).await, seen, "{skill}");
    }
    folder.write("run_one.yaml", manifest("run_one", 600));
    until("the changed skill has a new session", PATIENCE, async || (look("run_one").await == "1").then_some(())).await;
    assert_eq!(look("run_two").await, "3", "the other one is as it was");
}
