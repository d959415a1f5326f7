//! `openskill traces`, `trace` and `replay`.

use openskill_proto::v1::{InvokeRequest, SkillResult};
use openskill_tests::binary;
use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, System, request};
use openskill_tests::wait::until;
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::{call, events};

struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn command(system: &System, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).env_clear().env("OPENSKILL_HTTP_BASE_URL", system.url()).stdin(Stdio::null());
    command
}

async fn run(system: &System, arguments: &[&str]) -> Ran {
    run_with(system, arguments, &[]).await
}

async fn run_with(system: &System, arguments: &[&str], environment: &[(&str, &str)]) -> Ran {
    let output = command(system, arguments).envs(environment.iter().copied()).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// A call that is recorded by the time this returns.
async fn recorded(system: &System, trace: &str, given: InvokeRequest) -> SkillResult {
    let result = call(system, trace, given).await;
    events(system, trace).await;
    result
}

/// Replaces what differs from run to run: numbers become `#`, and bars and runs of spaces become one space.
fn steady(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let kept: String = line.chars().map(|it| if "│█░▏".contains(it) { ' ' } else { it }).collect();
        let words = kept.split_whitespace().map(|word| {
            let is_number = word.starts_with(|it: char| it.is_ascii_digit()) || word.starts_with("call_");
            if is_number { "#" } else { word }
        });
        words.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn traces_are_listed_as_a_table_or_as_json() {
    let system = Setup::up().start().await;
    recorded(&system, "one", request("in_echo", json!({}))).await;
    recorded(&system, "two", request("in_fail", json!({}))).await;
    let ran = run(&system, &["traces"]).await;
    let rows: Vec<&str> = ran.out.lines().collect();
    assert!(ran.code == 0 && rows[0].starts_with("DATE ") && rows.len() == 3, "{}", ran.out);
    assert!(rows[1].contains("  two ") && rows[2].contains("  one "), "{}", ran.out);
    let ran = run(&system, &["traces", "--skill", "in_echo", "--since", "1h", "--min-duration", "1us", "--json"]).await;
    let list: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&list[0]["trace_id"], list.as_array().unwrap().len()), (&json!("one"), 1), "{list}");
    let ran = run(&system, &["traces", "--limit", "1"]).await;
    assert!(ran.err.contains("--cursor "), "{}", ran.err);
    assert_eq!(run(&system, &["traces", "--since", "yesterday"]).await.code, 2);
    assert_eq!(run(&system, &["trace", "no-such-trace"]).await.code, 1);
}

#[tokio::test]
async fn followed_traces_are_printed_as_they_end() {
    let system = Setup::up().start().await;
    let mut follow = command(&system, &["traces", "--follow", "--json"]);
    let mut child = follow.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The command says nothing until a call ends, so calls are made until it does.
    let next = lines.next_line();
    let calls = async {
        loop {
            call(&system, "followed", request("in_echo", json!({}))).await;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let line = tokio::select! {
        line = tokio::time::timeout(PATIENCE, next) => line.expect("it prints").unwrap().unwrap(),
        () = calls => unreachable!(),
    };
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&told["trace_id"], &told["skill_id"]), (&json!("followed"), &json!("in_echo")));
}

#[tokio::test]
async fn a_trace_is_shown_as_a_waterfall() {
    let system = Setup::up().start().await;
    recorded(&system, "water-1", request("typed", json!({"task": "look\u{202e}", "maxSteps": "5"}))).await;
    let ran = run(&system, &["trace", "water-1"]).await;
    let head = ran.out.lines().next().unwrap();
    assert!(head.starts_with("trace water-1 on gateway ") && ran.out.contains('█'), "{}", ran.out);
    let body = ran.out.split_once('\n').unwrap().1;
    let expected = r#"
typed OK # ms # anonymous #
# µs call {"task":"look\u{202e}","maxSteps":"5"}
# µs prepared key_fold /max_steps, string_to_integer /max_steps {"task":"look\u{202e}","max_steps":#
# µs attempt # worker-N OK queued # µs, ran # µs
# ms result {"task":"look\u{202e}","max_steps":#"#;
    let steady = steady(body).replace("worker-1", "worker-N").replace("worker-2", "worker-N").replace("µs", "ms");
    let expected = expected.replace("µs", "ms").replace("\"max_steps\":#", "\"max_steps\":5}");
    assert_eq!(steady.trim(), expected.trim(), "{}", ran.out);
    let ran = run(&system, &["trace", "water-1", "--json"]).await;
    let names: Vec<_> = ran.out.lines().map(|it| serde_json::from_str::<Value>(it).unwrap()["event"].clone()).collect();
    assert_eq!(names, ["call", "prepared", "attempt", "result"]);
}

#[tokio::test]
async fn markdown_has_arguments_and_results_only_if_a_setting_says_so() {
    let system = Setup::up().start().await;
    recorded(&system, "md-1", request("in_echo", json!({"text": "between | us"}))).await;
    let ran = run(&system, &["trace", "md-1", "--markdown"]).await;
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0], "# Trace `md-1`");
    assert!(ran.out.contains("## `in_echo`: `OK` in "), "{}", ran.out);
    assert!(ran.out.contains("| at | event | |\n|---:|---|---|\n"), "{}", ran.out);
    assert!(lines.iter().any(|it| it.contains("| attempt | code `OK`, worker_id `worker-")), "{}", ran.out);
    assert!(!ran.out.contains("between"), "{}", ran.out);
    let raw = [("TRACE_MD_INCLUDE_RAW_RESPONSE", "true")];
    let ran = run_with(&system, &["trace", "md-1", "--markdown"], &raw).await;
    assert!(ran.out.contains("call arguments:\n\n```\n{\"text\":\"between | us\"}\n```\n"), "{}", ran.out);
}

#[tokio::test]
async fn a_replay_compares_the_results() {
    let (skills, other) = (Folder::new(), Folder::new());
    for (folder, mood) in [(&skills, "good"), (&other, "bad")] {
        folder.write("greets.py", format!("import json, sys\ngiven = json.load(sys.stdin)['input']\nprint(json.dumps({{'mood': '{mood}', 'n': given.get('n')}}))\n"));
        folder.write("greets.yaml", "id: greets\ntype: cli\nruntime: python\nentry: greets.py\nidempotent: true\n");
    }
    let system = Setup::with_skills(&[skills.path()]).start().await;
    let second = Setup::with_skills(&[other.path()]).start().await;
    for it in [&system, &second] {
        it.has_skill("greets").await;
    }
    recorded(&system, "greets-1", request("greets", json!({"n": 12345678901234567_u64}))).await;
    let ran = run(&system, &["replay", "greets-1"]).await;
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("same result") && ran.out.contains("12345678901234567"), "{}{}", ran.out, ran.err);
    let ran = run(&system, &["replay", "greets-1", "--gateway", &second.url()]).await;
    assert_eq!((ran.code, ran.out.as_str()), (1, "- /mood: \"good\"\n+ /mood: \"bad\"\n"), "{}", ran.err);
    assert!(ran.err.contains("1 difference"), "{}", ran.err);
    let ran = run(&system, &["replay", "greets-1", "--input", "{\"n\": 1}"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (1, "- /n: 12345678901234567\n+ /n: 1\n"));
}

#[tokio::test]
async fn a_replay_that_could_do_harm_or_lacks_arguments_is_refused() {
    let system = Setup::up().start().await;
    recorded(&system, "harm-1", request("moody", json!({}))).await;
    let ran = run(&system, &["replay", "harm-1"]).await;
    assert!(ran.code == 2 && ran.err.contains("not idempotent") && ran.err.contains("--yes"), "{}", ran.err);
    assert_eq!(run(&system, &["replay", "harm-1", "--yes"]).await.code, 0);
    recorded(&system, "harm-2", request("typed_destructive", json!({"path": "a"}))).await;
    assert!(run(&system, &["replay", "harm-2"]).await.err.contains("destructive"));

    recorded(&system, "lost-1", request("naps_idempotent", json!({"seconds": 0, "password": "hunter2-and-more"})))
        .await;
    let ran = run(&system, &["replay", "lost-1"]).await;
    assert!(ran.code == 2 && ran.err.contains("redacted at /password") && ran.err.contains("--input"), "{}", ran.err);
    let ran = run(&system, &["replay", "lost-1", "--input", "{\"seconds\": 0}"]).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    recorded(&system, "cut-1", request("naps_idempotent", json!({"seconds": 0, "text": "x".repeat(20_000)}))).await;
    assert!(run(&system, &["replay", "cut-1"]).await.err.contains("cut"));

    recorded(&system, "twice", request("in_echo", json!({"n": 1}))).await;
    call(&system, "twice", request("in_echo", json!({"n": 2}))).await;
    let ran = until("both are recorded", PATIENCE, || async {
        let ran = run(&system, &["replay", "twice", "--yes"]).await;
        (ran.code == 2).then_some(ran)
    })
    .await;
    let id = ran.err.lines().last().unwrap().split_whitespace().next().unwrap().to_owned();
    let ran = run(&system, &["replay", &id, "--yes"]).await;
    assert_eq!((ran.code, ran.out.trim()), (0, "{\n  \"n\": 2\n}"), "{}", ran.err);
}
