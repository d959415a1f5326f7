//! The command line: output and exit codes.

use openskill_tests::alone::beside_others;
use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, System, request};
use openskill_tests::terminal::Terminal;
use openskill_tests::wait::{until, until_true};
use openskill_tests::{binary, repository};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

mod completion;
mod counts;
mod development;
mod lists;
mod logs;
mod newcomer;
mod project;
mod sets;
mod watch;

struct Ran {
    code: i32,
    out: String,
    err: String,
}

async fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Ran {
    let output = Command::new(binary())
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs(environment.iter().copied())
        .current_dir(repository())
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

async fn at(system: &System, arguments: &[&str]) -> Ran {
    run(arguments, &[("OPENSKILL_HTTP_BASE_URL", &system.url())]).await
}

#[tokio::test]
async fn invoke_reads_arguments_by_schema_and_prints_the_data() {
    let system = Setup::shipped().start().await;
    let ran = at(&system, &["invoke", "echo", "text=5"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "{\n  \"echoed\": \"5\"\n}\n"));
    let ran = at(&system, &["invoke", "calculator", "numbers=[1,2,6]", "ops=[\"mean\"]"]).await;
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap()["results"]["mean"], 3);
    let ran = at(&system, &["invoke", "echo", "--json", r#"{"text": "x"}"#, "--full", "--trace-id", "cli-1"]).await;
    let full: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&full["trace_id"], &full["data"]), (&json!("cli-1"), &json!({"echoed": "x"})));
    let ran = at(&system, &["invoke", "file_search", "query=openSkill", "--stream"]).await;
    let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.first().unwrap()["event"], "accepted");
    assert_eq!(lines.last().unwrap()["event"], "result");
}

#[tokio::test]
async fn exit_codes_tell_kinds_of_failure_apart() {
    let system = Setup::shipped().start().await;
    let ran = at(&system, &["invoke", "echo", "txt=hello"]).await;
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("INVALID_ARGUMENT") && ran.out.is_empty(), "{}", ran.err);
    assert_eq!(at(&system, &["invoke", "nope"]).await.code, 1);
    assert_eq!(at(&system, &["invoke", "echo", "novalue"]).await.code, 2);
    assert_eq!(at(&system, &["no-such-command"]).await.code, 2);
    // An unset shell variable must not drain the whole gateway.
    assert_eq!(at(&system, &["drain", ""]).await.code, 2);
    let ran = at(&system, &["drain", "no-such-worker"]).await;
    assert_eq!(ran.code, 1, "the gateway is there, and the worker is not");
    assert!(ran.err.contains("there is no worker with this id"), "{}", ran.err);
    let ran = at(&system, &["describe", "worker", "no-such-worker"]).await;
    assert!(ran.code == 1 && ran.err.contains("`openskill workers` lists them"), "{}", ran.err);
    assert_eq!(at(&system, &["describe", "skill", "nope"]).await.code, 1);
    assert_eq!(run(&["skills", "--url", "http://127.0.0.1:1"], &[]).await.code, 3);
    assert_eq!(run(&["gateway", "--listen", "nowhere"], &[]).await.code, 4);
    let taken = system.address.to_string();
    let ran = run(&["gateway", "--listen", &taken], &[]).await;
    assert_eq!(ran.code, 5);
    assert!(ran.err.contains("--listen"), "{}", ran.err);
    assert_eq!(run(&["up", "--listen", &taken], &[]).await.code, 5);
}

#[tokio::test]
async fn a_whole_gateway_is_drained_only_by_somebody_who_means_it() {
    let system = Setup::up().start().await;
    let ran = at(&system, &["drain"]).await;
    assert!(ran.code == 2 && ran.err.contains("--yes"), "{} {}", ran.code, ran.err);
    assert_eq!(at(&system, &["health"]).await.code, 0);
    assert_eq!(at(&system, &["drain", "--yes"]).await.code, 0);
    let ran = at(&system, &["health"]).await;
    assert!(ran.code == 3 && ran.err.contains("draining"), "{}", ran.err);
    assert_eq!(at(&system, &["drain", "--resume"]).await.code, 0);
    assert_eq!(at(&system, &["health"]).await.code, 0);
}

#[tokio::test]
async fn a_drain_waits_for_the_calls_in_flight() {
    let system = Setup::up().flag("--workers", 1).start().await;
    let call = system.invoke(request("in_wait", json!({"ms": 4000})));
    let drain = async {
        until("the call runs", PATIENCE, || async {
            at(&system, &["workers", "-o", "json"]).await.out.contains("\"in_flight\": 1").then_some(())
        })
        .await;
        at(&system, &["drain", "--worker", "worker-1", "--wait"]).await
    };
    let (result, drained) = tokio::join!(call, drain);
    let said = "worker-1 accepts no new calls; 1 in flight\nno call is in flight\n";
    assert_eq!((drained.code, drained.out.as_str()), (0, said), "{}", drained.err);
    assert!(result.success, "{result:?}");
}

#[tokio::test]
async fn only_a_failed_call_that_must_not_be_repeated_gets_a_warning() {
    let folder = Folder::new();
    for (id, more) in [("plain", ""), ("once_more", "idempotent: true"), ("reads", "read_only: true")] {
        folder.write(&format!("{id}.yaml"), format!("id: {id}\ntype: inproc\nentry: fail\n{more}\n"));
    }
    let system = Setup::with_skills(&[folder.path()]).flag("--workers", 1).start().await;
    system.has_skill("reads").await;
    let warns = async |arguments: &[&str]| {
        let ran = at(&system, &[&["invoke"], arguments].concat()).await;
        assert_eq!(ran.code, 1, "{}", ran.err);
        ran.err.contains("the skill may have had an effect")
    };
    assert!(warns(&["plain", "code=EXECUTION_ERROR"]).await);
    assert!(!warns(&["once_more", "code=EXECUTION_ERROR"]).await);
    assert!(!warns(&["reads", "code=EXECUTION_ERROR"]).await);
    assert!(!warns(&["plain", "code=EXECUTION_ERROR", "--idempotency-key", "k"]).await);
    assert!(!warns(&["missing"]).await, "no skill ran");
}

#[tokio::test]
async fn arguments_come_from_a_file_or_from_stdin() {
    let (system, folder) = (Setup::up().flag("--workers", 1).start().await, Folder::new());
    let file = format!("@{}", folder.write("input.json", r#"{"text": "from a file"}"#).display());
    let ran = at(&system, &["invoke", "in_echo", "-d", &file]).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "{\n  \"text\": \"from a file\"\n}\n"), "{}", ran.err);
    for stdin in ["@-", "-"] {
        let mut child = Command::new(binary())
            .args(["invoke", "in_echo", "--data", stdin, "--url", &system.url()])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(br#"{"text": "from stdin"}"#).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("from stdin"), "{stdin}");
    }
    let ran = at(&system, &["invoke", "in_echo", "-d", "@no-such-file"]).await;
    assert!(ran.code == 5 && ran.err.contains("no-such-file"), "{}", ran.err);
    let large = format!("@{}", folder.write("large.json", vec![b' '; 4 * 1024 * 1024 + 1]).display());
    let ran = at(&system, &["invoke", "in_echo", "-d", &large]).await;
    assert!(ran.code == 2 && ran.err.contains("larger than the maximum request size"), "{}", ran.err);
}

#[tokio::test]
async fn unknown_variables_are_named_at_the_start() {
    let mut gateway = Setup::command(&["gateway", "--listen", "127.0.0.1:0"]).with("OPENSKILL_TIMEOUT", 5).spawn();
    let line = gateway.log.line(&["unknown variable ignored"]).await;
    assert!(line.contains("OPENSKILL_TIMEOUT (did you mean OPENSKILL_TIMEOUT_MS?)"), "{line}");
    gateway.terminate();
    gateway.ended().await;
    let ran = run(&["config"], &[("OPENSKILL_LISTN", "x"), ("OPENSKILL_SERVICE_HOST", "10.0.0.1")]).await;
    assert_eq!(ran.err, "openskill: unknown variable ignored: OPENSKILL_LISTN (did you mean OPENSKILL_LISTEN?)\n");
}

#[tokio::test]
async fn logs_are_coloured_on_a_terminal_unless_no_color_is_set() {
    for (no_color, expected) in [("", true), ("1", false)] {
        let terminal = Terminal::with_columns(80);
        let mut gateway = Command::new(binary())
            .args(["gateway", "--listen", "127.0.0.1:0"])
            .env("NO_COLOR", no_color)
            .stdin(std::process::Stdio::null())
            .stderr(terminal.stdio())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        until_true("it logs", PATIENCE, || terminal.text().contains("gateway listening")).await;
        gateway.kill().await.unwrap();
        assert_eq!(terminal.text().contains("\u{1b}[32m"), expected, "NO_COLOR={no_color}");
    }
}

#[tokio::test]
async fn skills_are_listed_as_a_table_or_as_json() {
    let system = Setup::shipped().start().await;
    let ran = at(&system, &["skills"]).await;
    assert_eq!(ran.code, 0);
    assert!(ran.out.starts_with("ID "), "{}", ran.out);
    let list: Value = serde_json::from_str(&at(&system, &["skills", "--json"]).await.out).unwrap();
    let available = list.as_array().unwrap().iter().filter(|it| it["status"] == "available").count();
    assert!(available >= 8, "{list}");
    assert_eq!(ran.out.lines().count(), available + 1, "a heading and a line each");
    assert_eq!((&list[0]["id"], &list[1]["id"]), (&json!("analyze_tool_needs"), &json!("ask_user")));
    assert_eq!(at(&system, &["health"]).await.out, "ready\n");
}

#[tokio::test]
async fn config_shows_the_source_of_each_value_and_every_problem() {
    let ran = run(&["config"], &[("OPENSKILL_TIMEOUT_MS", "500")]).await;
    assert_eq!(ran.code, 0);
    let line = ran.out.lines().find(|line| line.starts_with("OPENSKILL_TIMEOUT_MS")).unwrap();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["OPENSKILL_TIMEOUT_MS", "environment", "500"]);
    let ran = run(&["config"], &[("OPENSKILL_TIMEOUT_MS", "soon"), ("OPENSKILL_DEBUG", "x")]).await;
    assert_eq!(ran.code, 4);
    assert!(
        ran.err.contains("OPENSKILL_TIMEOUT_MS (environment)") && ran.err.contains("OPENSKILL_DEBUG"),
        "{}",
        ran.err
    );
}

#[tokio::test]
async fn the_documented_configuration_reference_is_current() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap();
    let reference = read("cli/src/settings/reference.md");
    assert!(
        read("docs/configuration.md").contains(&reference),
        "docs/configuration.md is out of date: paste reference.md"
    );
    let printed = run(&["config", "--reference"], &[]).await.out;
    assert_eq!(printed.lines().count(), reference.lines().count());
    assert!(!printed.contains(".md"), "links lead nowhere");
}

#[tokio::test]
async fn check_distinguishes_a_bad_manifest_a_failing_example_and_a_missing_skill() {
    let folder = openskill_tests::folder::Folder::new();
    let manifest = |id: &str, more: &str| format!("id: {id}\ntype: inproc\nentry: echo\n{more}");
    folder.write("good.yaml", manifest("good", "examples: [{name: it echoes, input: {a: 1}, data: {a: 1}}]\n"));
    folder.write("wrong.yaml", manifest("wrong", "examples: [{name: it echoes, input: {a: 1}, data: {a: 2}}]\n"));
    folder.write("bad.yaml", manifest("bad", "colour: red\n"));
    let skills = folder.path().display().to_string();
    let check = async |id: &str| run(&["check", id, "--skills-dir", &skills], &[]).await;
    let ran = check("good").await;
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let ran = check("wrong").await;
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("FAIL  example: it echoes"), "{}", ran.out);
    let ran = check("bad").await;
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("bad.yaml:4: ") && ran.err.contains("colour"), "{}", ran.err);
    assert_eq!(check("missing").await.code, 2);
    // Without an id, it checks all skills, whatever is wrong with one of them.
    let ran = run(&["check", "--skills-dir", &skills], &[]).await;
    assert!(ran.out.contains("good 0.0.0 (inproc)\n  ok    manifest\n  ok    example: it echoes\n"), "{}", ran.out);
    assert!(ran.out.contains("FAIL  example: it echoes") && ran.err.contains("bad.yaml:4: "), "{}{}", ran.out, ran.err);
    std::fs::remove_file(folder.path().join("wrong.yaml")).unwrap();
    assert_eq!(run(&["check", "--skills-dir", &skills], &[]).await.code, 1);
}

#[tokio::test]
async fn make_up_builds_starts_and_suggests_what_to_try() {
    let _turn = beside_others();
    let mut command = Command::new("make");
    // Cargo describes this test's package in them. Build scripts that watch them would run again, and rebuild the program.
    let is_of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars().filter(|(name, _)| is_of_package(name)) {
        command.env_remove(name);
    }
    let mut make = command
        .args(["up", "PROFILE=dev", "WORKERS=1"])
        .env("OPENSKILL_LISTEN", "127.0.0.1:0")
        .env("OPENSKILL_TRACE_DIR", "memory")
        .current_dir(repository())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let make_pid = make.id().unwrap() as i32;
    let mut lines = BufReader::new(make.stdout.take().unwrap()).lines();
    let mut output = Vec::new();
    let listen = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            output.push(line);
            if output.last().unwrap().contains("Stop: Ctrl-C") {
                break;
            }
        }
    };
    let is_ready = tokio::time::timeout(std::time::Duration::from_secs(300), listen).await.is_ok();
    if !is_ready {
        // A build would go on without `make`.
        openskill_tests::processes::descendants(make_pid)
            .into_iter()
            .for_each(|pid| openskill_tests::processes::send(pid, rustix::process::Signal::KILL));
    }
    assert!(is_ready, "{}", output.join("\n"));
    let output = output.join("\n");
    assert!(
        output.contains("openskill is ready in") && output.contains("1 worker, ") && output.contains(" skills"),
        "{output}"
    );
    assert!(output.contains("/skills/echo:invoke") && output.contains("grpcurl -plaintext"), "{output}");
    let started = openskill_tests::processes::descendants(make_pid).into_iter();
    let up: Vec<_> =
        started.filter(|pid| openskill_tests::processes::command_line(*pid).contains("openskill up ")).collect();
    let [up] = up[..] else { panic!("make starts one openskill, and not {}", up.len()) };
    openskill_tests::processes::send(up, rustix::process::Signal::TERM);
    let status = tokio::time::timeout(openskill_tests::system::PATIENCE, make.wait()).await.expect("it ends").unwrap();
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(&["completions", shell], &[]).await;
        assert_eq!(ran.code, 0);
        assert!(ran.out.contains("openskill"), "{shell}");
    }
}
