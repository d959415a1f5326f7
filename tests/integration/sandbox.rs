//! Sessions of Python code: the toolset `microsandbox`. What it keeps, what it ends, and whom it shows what.

use std::time::{Duration, Instant};

use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{ExecuteRequest, InvokeRequest, SkillResult, artifact::Content};
use openskill_tests::folder::Folder;
use openskill_tests::processes;
use openskill_tests::repository;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::{until, until_none_is_left, until_true};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::input_required::{Asking, accept, connect, interactive};

mod attacks;
mod documented;
mod owners;
mod packages;
mod preloaded;

const EXECUTE: &str = "microsandbox_execute";

/// The limit for leftovers.
const GONE: Duration = Duration::from_secs(2);

/// A running sandbox. None: this machine has no jail for it, and the test is skipped.
async fn sandbox(setup: Setup) -> Option<System> {
    let system = setup.start().await;
    let skill = system.get(&format!("/skills/{EXECUTE}")).await.json();
    if skill["status"] == "available" {
        return Some(system);
    }
    let reason = skill["status_reason"].as_str().unwrap_or_default();
    assert!(reason.contains("jail"), "{skill}");
    skip(Need::Jail, reason);
    None
}

/// The same with one worker.
async fn of_one_worker() -> Option<System> {
    sandbox(Setup::shipped().flag("--workers", 1)).await
}

fn cell(code: &str, session: &str) -> InvokeRequest {
    let input = if session.is_empty() { json!({"code": code}) } else { json!({"code": code, "session_id": session}) };
    InvokeRequest { timeout_ms: 60_000, ..request(EXECUTE, input) }
}

/// Runs code, and gives the data of its result.
async fn run(system: &System, code_: &str, session: &str) -> Value {
    let result = system.invoke(cell(code_, session)).await;
    assert_eq!(code(&result), "", "{code_}: {result:?}");
    data(&result)
}

async fn ask(system: &System, skill: &str, input: Value) -> SkillResult {
    system.invoke(request(&format!("microsandbox_{skill}"), input)).await
}

async fn names(system: &System) -> Vec<String> {
    let listed = data(&ask(system, "list_sessions", json!({})).await);
    let sessions = listed["sessions"].as_array().unwrap().iter();
    sessions.map(|it| it["session_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_session_keeps_its_state_and_a_call_without_one_does_not() {
    let Some(system) = of_one_worker().await else { return };
    let first = run(&system, "import math\nx = 20\nprint('set')", "s").await;
    assert_eq!((&first["stdout"], &first["return_code"], &first["result"]), (&json!("set\n"), &json!(0), &Value::Null));
    assert_eq!((&first["session_state"], &first["execution_count"]), (&json!("new"), &json!(1)));
    let second = run(&system, "x += 1\nmath.sqrt(x * x) * 2", "s").await;
    assert_eq!((&second["result"], &second["session_state"]), (&json!("42.0"), &json!("kept")));
    assert_eq!((&second["execution_count"], &second["session_id"]), (&json!(2), &json!("s")));
    let other = run(&system, "'x' in globals()", "t").await;
    assert_eq!((&other["result"], &other["session_state"]), (&json!("False"), &json!("new")));
    for _ in 0..2 {
        let alone = run(&system, "y = globals().get('y', 0) + 1\ny", "").await;
        assert_eq!((&alone["result"], &alone["session_id"]), (&json!("1"), &Value::Null));
    }
    let awaited = run(&system, "import asyncio\nawait asyncio.sleep(0, x)", "s").await;
    assert_eq!(awaited["result"], "21");
    assert_eq!(system.invoke(cell("1", "s")).await.meta.unwrap().jail, "strict");
}

#[tokio::test]
async fn an_exception_is_an_answer_with_the_codes_own_lines() {
    let Some(system) = of_one_worker().await else { return };
    let failed = run(&system, "def divide(x):\n    return 1 / x\n\nprint('before')\ndivide(0)", "s").await;
    assert_eq!((&failed["return_code"], &failed["stdout"]), (&json!(1), &json!("before\n")));
    let error = &failed["error"];
    assert_eq!((&error["name"], &error["message"]), (&json!("ZeroDivisionError"), &json!("division by zero")));
    let traceback = error["traceback"].as_str().unwrap();
    assert!(traceback.contains("File \"<cell 1>\", line 5, in <module>\n    divide(0)"), "{traceback}");
    assert!(!traceback.contains("openskill"), "{traceback}");
    assert_eq!(run(&system, "divide(2)", "s").await["result"], "0.5", "the session goes on");
}

#[tokio::test]
async fn output_comes_while_the_code_runs() {
    let Some(system) = of_one_worker().await else { return };
    let code_ = "import sys, os\nprint('one')\nprint('two', file=sys.stderr)\nos.system('echo three')\ninput('go on?')\nprint('four')";
    let mut call = Asking::start(&system, InvokeRequest { interactive: true, ..cell(code_, "s") }).await;
    // Told before the code has ended: it waits for an answer.
    let (mut out, mut err) = (String::new(), String::new());
    let question = loop {
        match call.event().await {
            Event::Partial(partial) => {
                let part: Value = serde_json::from_str(&partial.data_json).unwrap();
                out += part["stdout"].as_str().unwrap_or_default();
                err += part["stderr"].as_str().unwrap_or_default();
            }
            Event::InputRequired(question) => break question,
            _ => {}
        }
    };
    while !out.contains("three") || !err.contains("two") {
        if let Event::Partial(partial) = call.event().await {
            let part: Value = serde_json::from_str(&partial.data_json).unwrap();
            out += part["stdout"].as_str().unwrap_or_default();
            err += part["stderr"].as_str().unwrap_or_default();
        }
    }
    assert_eq!((out.as_str(), err.as_str()), ("one\nthree\n", "two\n"));
    call.answer(accept(&question, &json!({"text": ""}))).await;
    let result = data(&call.next().await.unwrap_err());
    assert_eq!((&result["stdout"], &result["stderr"]), (&json!("one\nthree\nfour\n"), &json!("two\n")));
}

#[tokio::test]
async fn input_asks_the_user_and_fails_where_there_is_none() {
    let Some(system) = of_one_worker().await else { return };
    let call = InvokeRequest { interactive: true, ..cell("name = input('Who are you? ')\nname.upper()", "s") };
    let mut call = Asking::start(&system, call).await;
    let question = call.next().await.unwrap();
    assert_eq!(question.message, "Who are you? ");
    call.answer(accept(&question, &json!({"text": "ada"}))).await;
    assert_eq!(data(&call.next().await.unwrap_err())["result"], "'ADA'");
    let begun = Instant::now();
    let alone = run(&system, "input('Who?')", "s").await;
    assert_eq!(alone["error"]["name"], "EOFError");
    assert!(alone["error"]["message"].as_str().unwrap().contains("can't ask the user"), "{alone}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    // The time of the code stands still while its user thinks.
    let mut slow = interactive(EXECUTE, json!({"code": "input('?')", "timeout": 1, "session_id": "s"}));
    slow.timeout_ms = 60_000;
    let mut call = Asking::start(&system, slow).await;
    let question = call.next().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    call.answer(accept(&question, &json!({"text": "late"}))).await;
    assert_eq!(data(&call.next().await.unwrap_err())["result"], "'late'");
}

#[tokio::test]
async fn callers_with_the_same_name_for_a_session_do_not_meet() {
    let Some(system) = of_one_worker().await else { return };
    let in_conversation = async |conversation: &str, skill: &str, input: Value| {
        let call = request(&format!("microsandbox_{skill}"), input);
        data(&system.invoke(InvokeRequest { session_id: conversation.to_owned(), ..call }).await)
    };
    let set = json!({"code": "secret = 1", "session_id": "s"});
    in_conversation("one", "execute", set).await;
    let look = json!({"code": "'secret' in globals()", "session_id": "s"});
    let other = in_conversation("two", "execute", look.clone()).await;
    assert_eq!((&other["result"], &other["session_state"]), (&json!("False"), &json!("new")));
    assert_eq!(in_conversation("one", "execute", look).await["result"], "True");
    for conversation in ["one", "two"] {
        assert_eq!(in_conversation(conversation, "list_sessions", json!({})).await["count"], 1, "{conversation}");
    }
    assert_eq!(in_conversation("", "list_sessions", json!({})).await["count"], 0);
    let executed = async |conversation: &str| {
        in_conversation(conversation, "get_performance_stats", json!({})).await["total_executions"].clone()
    };
    assert_eq!((executed("one").await, executed("two").await), (json!(2), json!(1)));
}

#[tokio::test]
async fn principals_with_the_same_name_for_a_session_do_not_meet() {
    if sandbox(Setup::shipped()).await.is_none() {
        return;
    }
    let folder = Folder::new();
    let listen = format!("unix:{}", folder.path().join("worker.sock").display());
    let skills = repository().join("worker/skills").display().to_string();
    let worker = Setup::command(&["worker", "--listen", &listen, "--skills-dir", &skills]).spawn();
    worker.log.line(&["worker ready"]).await;
    let client = connect(&listen).await;
    let call = async |principal: &str, skill: &str, input: Value| {
        let call = ExecuteRequest {
            skill_id: format!("microsandbox_{skill}"),
            principal: principal.to_owned(),
            input_json: input.to_string().into(),
            timeout_ms: 20_000,
            ..ExecuteRequest::default()
        };
        client.clone().execute(call).await.unwrap().into_inner()
    };
    let value = |result: openskill_proto::v1::ExecuteResult| -> Value {
        serde_json::from_slice(&result.data_json).unwrap_or_else(|_| panic!("{result:?}"))
    };
    let look = json!({"code": "seen = globals().get('seen', 0) + 1\nseen", "session_id": "s"});
    for (principal, seen) in [("ada", "1"), ("eve", "1"), ("ada", "2"), ("", "1")] {
        assert_eq!(value(call(principal, "execute", look.clone()).await)["result"], seen, "{principal}");
    }
    let closed = call("joe", "close_session", json!({"session_id": "s"})).await;
    assert_eq!(closed.error.unwrap().code().as_str_name(), "NOT_FOUND");
    assert_eq!(value(call("eve", "close_session", json!({"session_id": "s"})).await)["closed"], true);
    assert_eq!(value(call("ada", "list_sessions", json!({})).await)["count"], 1);
}

#[tokio::test]
async fn a_timeout_keeps_the_state_of_code_that_stops_and_says_so() {
    let Some(system) = of_one_worker().await else { return };
    run(&system, "kept = 7", "s").await;
    let begun = Instant::now();
    let input = json!({"code": "print('begun')\nimport time\ntime.sleep(60)", "session_id": "s", "timeout": 1});
    let slow = data(&system.invoke(InvokeRequest { timeout_ms: 60_000, ..request(EXECUTE, input) }).await);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!((&slow["return_code"], &slow["error"]["name"]), (&json!(1), &json!("TimeoutError")), "{slow}");
    assert_eq!(
        (&slow["session_state"], &slow["stdout"], &slow["timed_out"]),
        (&json!("kept"), &json!("begun\n"), &json!(true))
    );
    assert!(slow["error"]["traceback"].as_str().unwrap().contains("time.sleep(60)"), "{slow}");
    assert_eq!(run(&system, "kept", "s").await["result"], "7");
    // The time of the call counts as well, and leaves enough to answer.
    let call = InvokeRequest { timeout_ms: 2000, ..cell("while True: pass", "s") };
    let hurried = data(&system.invoke(call).await);
    assert_eq!((&hurried["error"]["name"], &hurried["session_state"]), (&json!("TimeoutError"), &json!("kept")));
    assert_eq!(run(&system, "kept", "s").await["result"], "7");
}

#[tokio::test]
async fn a_call_that_is_cancelled_stops_its_code_and_keeps_the_state() {
    let Some(system) = of_one_worker().await else { return };
    run(&system, "kept = 7", "s").await;
    let mut client = system.skills().await;
    let mut events = client.invoke_stream(cell("print('begun')\nwhile True: pass", "s")).await.unwrap().into_inner();
    while !matches!(events.message().await.unwrap().unwrap().event, Some(Event::Partial(_))) {}
    drop((events, client));
    // The next call waits until the code has stopped.
    let next = run(&system, "kept", "s").await;
    assert_eq!((&next["result"], &next["session_state"]), (&json!("7"), &json!("kept")));
}

#[tokio::test]
async fn a_session_has_one_call_at_a_time() {
    let Some(system) = of_one_worker().await else { return };
    let mut client = system.skills().await;
    let mut events = client.invoke_stream(cell("print('begun')\nwhile True: pass", "s")).await.unwrap().into_inner();
    while !matches!(events.message().await.unwrap().unwrap().event, Some(Event::Partial(_))) {}
    let refused = system.invoke(cell("1", "s")).await;
    assert_eq!(code(&refused), "OVERLOADED");
    assert!(refused.error.as_ref().unwrap().message.contains("another call runs in this session"), "{refused:?}");
    assert_eq!(run(&system, "1", "t").await["result"], "1", "another session is free");
    // Whoever closes it ends the call that runs in it.
    assert_eq!(data(&ask(&system, "close_session", json!({"session_id": "s"})).await)["closed"], true);
    let result = loop {
        if let Some(Event::Result(result)) = events.message().await.unwrap().unwrap().event {
            break data(&result);
        }
    };
    assert_eq!((&result["error"]["name"], &result["session_state"]), (&json!("SessionClosed"), &json!("lost")));
}

#[tokio::test]
async fn files_of_the_working_folder_become_artifacts() {
    let Some(system) = of_one_worker().await else { return };
    let code_ = "open('table.csv', 'w').write('a,b\\n')\nopen('large.bin', 'wb').write(bytes(1_000_000)); None";
    let result = system.invoke(cell(code_, "s")).await;
    let listed: Vec<_> = result.artifacts.iter().map(|it| (it.name.as_str(), it.size_bytes)).collect();
    assert_eq!(listed, [("large.bin", 1_000_000), ("table.csv", 4)]);
    assert_eq!(result.artifacts[1].content, Some(Content::Data(b"a,b\n".as_slice().into())));
    assert!(matches!(result.artifacts[0].content, Some(Content::Handle(_))), "{result:?}");
    let told = data(&result)["artifacts"].clone();
    assert_eq!(told[1], json!({"name": "table.csv", "media_type": "text/csv", "size_bytes": 4}));
    let next = system.invoke(cell("print(open('table.csv').read())", "s")).await;
    assert_eq!((next.artifacts.len(), &data(&next)["stdout"]), (0, &json!("a,b\n\n")));
    let plotted = system.invoke(cell("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nNone", "s")).await;
    if data(&plotted)["error"]["name"] == "ModuleNotFoundError" {
        // Nothing that the tests install brings it, and the host's own tests draw figures without it.
        return eprintln!("skipped: matplotlib is not installed, so no figure is drawn");
    }
    assert_eq!(plotted.artifacts.len(), 1, "{plotted:?}");
    assert_eq!(plotted.artifacts[0].media_type, "image/png");
    assert_eq!(system.invoke(cell("1", "s")).await.artifacts.len(), 0, "each figure once");
}

#[tokio::test]
async fn callers_list_close_and_clean_up_their_sessions() {
    let Some(system) = of_one_worker().await else { return };
    for name in ["a", "b", "c"] {
        run(&system, "1", name).await;
    }
    assert_eq!(names(&system).await, ["a", "b", "c"]);
    let listed = data(&ask(&system, "list_sessions", json!({})).await);
    assert_eq!(
        (&listed["sessions"][0]["status"], &listed["sessions"][0]["execution_count"]),
        (&json!("idle"), &json!(1))
    );
    assert_eq!(data(&ask(&system, "close_session", json!({"session_id": "a"})).await)["closed"], true);
    assert_eq!(code(&ask(&system, "close_session", json!({"session_id": "a"})).await), "NOT_FOUND");
    assert_eq!(data(&ask(&system, "cleanup_expired", json!({"max_age": 3600})).await)["cleaned_count"], 0);
    let cleaned = data(&ask(&system, "cleanup_expired", json!({"max_age": 0})).await);
    assert_eq!(cleaned, json!({"cleaned_count": 2, "session_ids": ["b", "c"]}));
    assert!(names(&system).await.is_empty());
    let stats = data(&ask(&system, "get_performance_stats", json!({})).await);
    assert_eq!((&stats["total_executions"], &stats["failed_executions"]), (&json!(3), &json!(0)));
    assert_eq!((&stats["sessions_started"], &stats["lost_sessions"]), (&json!(3), &json!(0)));
    let health = data(&ask(&system, "get_health_status", json!({})).await);
    assert_eq!(
        (&health["status"], &health["active_sessions"], &health["warm"]),
        (&json!("healthy"), &json!(0), &json!(true))
    );
    assert_eq!(run(&system, "1", "a").await["session_state"], "new", "a closed session begins anew");
    let packages = ask(&system, "install_package", json!({"package_name": "numpy"})).await;
    assert_eq!(code(&packages), "UNAVAILABLE");
    assert!(packages.error.unwrap().message.contains("OPENSKILL_SESSION_PACKAGES"));
}

#[tokio::test]
async fn sessions_are_bounded_and_the_least_recently_used_one_makes_room() {
    let setup = Setup::shipped().flag("--workers", 1).with("OPENSKILL_SESSIONS_PER_CALLER", 2);
    let Some(system) = sandbox(setup.with("OPENSKILL_SESSIONS", 3)).await else { return };
    for name in ["a", "b"] {
        run(&system, "1", name).await;
    }
    run(&system, "1", "a").await;
    run(&system, "1", "c").await;
    assert_eq!(names(&system).await, ["a", "c"], "'b' was used least recently");
    let of = |conversation: &str| InvokeRequest { session_id: conversation.to_owned(), ..cell("1", "s") };
    assert_eq!(code(&system.invoke(of("another")).await), "");
    assert_eq!(code(&system.invoke(of("a third")).await), "");
    assert_eq!(names(&system).await, ["c"], "whoever has the most makes room on a full worker");
    for conversation in ["another", "a third"] {
        assert_eq!(data(&system.invoke(of(conversation)).await)["session_state"], "kept", "{conversation}");
    }
}

#[tokio::test]
async fn sessions_end_when_they_are_idle_or_old_and_with_their_worker() {
    let setup = Setup::shipped().flag("--workers", 1).with("OPENSKILL_SESSION_IDLE_S", 1);
    let Some(mut system) = sandbox(setup.with("OPENSKILL_IDLE_MS", 500)).await else { return };
    let [worker] = system.worker_pids()[..] else { panic!("one worker") };
    run(&system, "import subprocess\nchild = subprocess.Popen(['sleep', '600'])", "s").await;
    until_true("the idle session is gone", PATIENCE, || processes::descendants(worker).is_empty()).await;
    assert!(names(&system).await.is_empty());
    run(&system, "1", "s").await;
    let before = processes::descendants(worker);
    assert!(!before.is_empty());
    system.process.terminate();
    system.process.ended().await;
    until_none_is_left("processes", GONE, || left_of(&before)).await;
}

/// Which of these processes still run.
fn left_of(pids: &[i32]) -> Vec<(i32, String)> {
    let alive = pids.iter().filter(|pid| processes::is_alive(**pid));
    alive.map(|pid| (*pid, processes::command_line(*pid))).collect()
}

#[tokio::test]
async fn a_killed_worker_leaves_nothing_of_its_sessions_after_two_seconds() {
    let Some(system) = of_one_worker().await else { return };
    let [worker] = system.worker_pids()[..] else { panic!("one worker") };
    let groups = own_groups();
    for name in ["a", "b"] {
        let daemon = "import os, subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\n\
                      open(os.environ['TMPDIR'] + '/kept', 'w').write('x')";
        run(&system, daemon, name).await;
    }
    let mut client = system.skills().await;
    let mut events = client.invoke_stream(cell("print(1)\nwhile True: pass", "c")).await.unwrap().into_inner();
    while !matches!(events.message().await.unwrap().unwrap().event, Some(Event::Partial(_))) {}
    let before = processes::descendants(worker);
    assert!(before.len() >= 8, "{before:?}");
    let own = before.iter().filter_map(|pid| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok());
    let namespaces: std::collections::HashSet<_> = own.collect();
    assert!(namespaces.len() >= 4, "each session has mounts of its own: {namespaces:?}");
    processes::send(worker, Signal::KILL);
    until_none_is_left("processes", GONE, || left_of(&before)).await;
    until_none_is_left("namespaces", GONE, || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let of = all.filter_map(|it| std::fs::read_link(it.path().join("ns/mnt")).ok());
        of.filter(|it| namespaces.contains(it) && !is_our_own(it)).collect()
    })
    .await;
    drop(events);
    // The worker that comes in its place sweeps up the folders of control groups.
    until("the worker is back", PATIENCE, || {
        let mut client = client.clone();
        async move {
            let answered = client.invoke(cell("1", "fresh")).await;
            answered.is_ok_and(|it| it.into_inner().success).then_some(())
        }
    })
    .await;
    until_none_is_left("control groups", PATIENCE, || {
        let dead = format!("-{worker}-");
        own_groups().into_iter().filter(|it| !groups.contains(it) && it.contains(&dead)).collect()
    })
    .await;
}

fn is_our_own(namespace: &std::path::Path) -> bool {
    std::fs::read_link("/proc/self/ns/mnt").is_ok_and(|own| own == namespace)
}

/// The control groups of workers on this machine.
fn own_groups() -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|it| it.is_dir()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with("openskill-") {
                    found.push(name);
                }
                folders.push(entry.path());
            }
        }
    }
    found
}

#[tokio::test]
async fn two_hundred_calls_of_a_session_leave_no_growth() {
    let Some(system) = of_one_worker().await else { return };
    let [worker] = system.worker_pids()[..] else { panic!("one worker") };
    let state = "import gc, os\n(len(gc.get_objects()), len(os.listdir('/proc/self/fd')), int(open('/proc/self/statm').read().split()[1]))";
    let measure = async || {
        let told = run(&system, state, "s").await["result"].as_str().unwrap().to_owned();
        let numbers: Vec<u64> = told.trim_matches(['(', ')']).split(", ").map(|it| it.parse().unwrap()).collect();
        (numbers, processes::descriptors(worker), processes::descendants(worker).len())
    };
    let work = "text = 'x' * 1000\nprint(text)\nopen('f', 'w').write(text)\n[n for n in range(100)]";
    for _ in 0..50 {
        run(&system, work, "s").await;
    }
    // The fork server for the next owner starts in the background, and may take longer than the calls.
    until_true("both fork servers have their idle children", PATIENCE, || {
        let servers = processes::children(worker, "supervise");
        let sizes: Vec<_> = servers.into_iter().map(|it| processes::descendants(it).len()).collect();
        matches!(sizes[..], [one, other] if one == other)
    })
    .await;
    let (before, descriptors, running) = measure().await;
    for _ in 0..200 {
        run(&system, work, "s").await;
    }
    let (after, descriptors_after, running_after) = measure().await;
    assert!(after[0] < before[0] + 2000, "objects: {before:?} {after:?}");
    assert_eq!(after[1], before[1], "descriptors of the session");
    assert!(after[2] < before[2] + 512, "pages: {before:?} {after:?}");
    assert!(descriptors_after <= descriptors + 4, "descriptors of the worker: {descriptors} {descriptors_after}");
    assert_eq!(running, running_after, "processes");
}

#[tokio::test]
async fn all_calls_of_a_caller_go_to_one_worker_whatever_its_session() {
    let Some(system) = sandbox(Setup::shipped().flag("--workers", 3)).await else { return };
    let holder = |result: SkillResult| result.meta.unwrap().worker_id;
    let mut holders = std::collections::HashSet::new();
    for conversation in ["", "1", "2", "3", "4", "5", "6", "7"] {
        let of = |call: InvokeRequest| InvokeRequest { session_id: conversation.to_owned(), ..call };
        let own = holder(system.invoke(of(cell("1", "s"))).await);
        for call in [
            cell("1", "another"),
            cell("1", ""),
            request("microsandbox_list_sessions", json!({})),
            request("microsandbox_close_session", json!({"session_id": "s"})),
            request("microsandbox_get_performance_stats", json!({})),
        ] {
            assert_eq!(holder(system.invoke(of(call)).await), own, "{conversation}");
        }
        let counted = data(&system.invoke(of(request("microsandbox_get_performance_stats", json!({})))).await);
        assert_eq!(counted["total_executions"], 3, "{conversation}");
        holders.insert(own);
    }
    assert!(holders.len() > 1, "callers spread: {holders:?}");
}
