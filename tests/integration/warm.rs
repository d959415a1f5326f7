//! Warm Python: no state of one call reaches the next.

use std::collections::HashSet;
use std::time::Duration;

use openskill_proto::v1::InvokeRequest;
use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::until;
use openskill_tests::{fixtures, processes};
use serde_json::{Value, json};

/// A gateway with one worker and the skills of a folder.
async fn with_skills(folder: &Folder) -> System {
    let skills = folder.path().display().to_string();
    Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills]).start().await
}

async fn value(system: &System, skill: &str, input: Value) -> Value {
    let result = system.invoke(request(skill, input)).await;
    assert_eq!(code(&result), "", "{result:?}");
    data(&result)
}

#[tokio::test]
async fn no_change_of_a_call_is_visible_to_the_next() {
    let system = Setup::up().flag("--workers", 1).start().await;
    let first = value(&system, "meddles", json!({})).await;
    // In namespaces of their own all have the same process id; the kernel numbers their entries in /proc.
    let mut processes = HashSet::from([first["process"].to_string()]);
    let mut drawn = HashSet::from([first["drawn"].to_string()]);
    for _ in 0..20 {
        let next = value(&system, "meddles", json!({})).await;
        assert_eq!(next["found"], first["found"]);
        assert!(processes.insert(next["process"].to_string()), "each call has its own process");
        assert!(drawn.insert(next["drawn"].to_string()), "random numbers differ");
    }
    assert_eq!(first["found"]["global"], Value::Null);
    assert_eq!(first["found"]["patched"], "loads");
    assert_eq!(first["found"]["threads"], 1);
    assert_eq!(first["found"]["arguments"], 1);
}

#[tokio::test]
async fn a_fork_sees_what_a_fresh_interpreter_sees() {
    let folder = Folder::new();
    let script = std::fs::read_to_string(fixtures().join("meddles.py")).unwrap();
    folder.write("script.py", script);
    for isolation in ["fork", "process"] {
        let manifest =
            format!("id: as_{isolation}\ntype: cli\nruntime: python\nentry: script.py\nisolation: {isolation}\n");
        folder.write(&format!("as_{isolation}.yaml"), manifest);
    }
    let system = with_skills(&folder).await;
    let fork = value(&system, "as_fork", json!({})).await;
    let process = value(&system, "as_process", json!({})).await;
    assert_eq!(fork["found"], process["found"]);
}

#[tokio::test]
async fn a_script_that_closes_every_descriptor_harms_only_itself() {
    let system = Setup::up().flag("--workers", 1).start().await;
    for _ in 0..10 {
        assert_eq!(value(&system, "closes_everything", json!({})).await, json!("closed"));
    }
}

#[tokio::test]
async fn an_import_that_starts_a_thread_runs_in_each_call() {
    let system = Setup::up().flag("--workers", 1).start().await;
    for _ in 0..3 {
        assert_eq!(value(&system, "imports_a_thread", json!({})).await, json!({"alive": true}));
    }
    system.process.log.line(&["threaded.module", "each call runs it again"]).await;
}

#[tokio::test]
async fn killing_the_fork_server_fails_no_other_call() {
    let system = Setup::up().flag("--workers", 1).start().await;
    let call_id = format!("beside-{}", std::process::id());
    let beside = InvokeRequest { call_id: call_id.clone(), ..request("kills_fork_server", json!({"seconds": 1})) };
    let mut client = system.skills().await;
    let running = tokio::spawn(async move { client.invoke(beside).await.unwrap().into_inner() });
    until("the other call runs", PATIENCE, || async { (!processes::of_call(&call_id).is_empty()).then_some(()) }).await;
    let killer = system.invoke(request("kills_fork_server", json!({"kill": true}))).await;
    assert_eq!(code(&killer), "", "the call that killed it succeeds: {killer:?}");
    let beside = running.await.unwrap();
    assert_eq!(code(&beside), "", "{beside:?}");
    assert!(
        value(&system, "kills_fork_server", json!({})).await["pid"].is_number(),
        "the next call gets a new fork server"
    );
}

#[tokio::test]
async fn a_jailed_call_cannot_kill_the_fork_server() {
    let folder = Folder::new();
    let script = std::fs::read_to_string(fixtures().join("kills_fork_server.py")).unwrap();
    folder.write("tries.py", script);
    let system = with_skills(&folder).await;
    let [worker] = system.worker_pids()[..] else { panic!("one worker") };
    assert!(value(&system, "tries", json!({})).await["pid"].is_number());
    let before = processes::descendants(worker);
    let result = system.invoke(request("tries", json!({"kill": true}))).await;
    assert_eq!(code(&result), "EXECUTION_ERROR", "it has no right to, or no such parent: {result:?}");
    assert!(value(&system, "tries", json!({})).await["pid"].is_number());
    // Parents come before children: the supervisor, what it starts in namespaces, the fork server.
    assert_eq!(before[..2], processes::descendants(worker)[..2], "the fork server serves on");
}

#[tokio::test]
async fn a_changed_script_or_import_takes_effect() {
    let folder = Folder::new();
    folder.write("changing.py", "import part.piece\nprint(part.piece.VALUE)\n");
    folder.write("part/__init__.py", "");
    folder.write("part/piece.py", "VALUE = 1\n");
    let system = with_skills(&folder).await;
    assert_eq!(value(&system, "changing", json!({})).await, json!(1));
    folder.write("part/piece.py", "VALUE = 2\n");
    until("the changed import takes effect", PATIENCE, || async {
        (value(&system, "changing", json!({})).await == json!(2)).then_some(())
    })
    .await;
    folder.write("changing.py", "print(3)\n");
    assert_eq!(value(&system, "changing", json!({})).await, json!(3), "the script is checked on each call");
}

#[tokio::test]
async fn warm_processes_end_when_idle() {
    let folder = Folder::new();
    folder.write("quick.py", "print(1)\n");
    let skills = folder.path().display().to_string();
    let system = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills])
        .with("OPENSKILL_IDLE_MS", 300)
        .start()
        .await;
    let [worker] = system.worker_pids()[..] else { panic!("one worker") };
    assert_eq!(value(&system, "quick", json!({})).await, json!(1));
    assert!(!processes::descendants(worker).is_empty(), "warm processes are kept");
    openskill_tests::wait::until_true("no warm process is left", PATIENCE, || {
        processes::descendants(worker).is_empty()
    })
    .await;
    assert_eq!(value(&system, "quick", json!({})).await, json!(1), "the skill still works");
}

#[tokio::test]
async fn a_removed_skill_keeps_no_warm_process() {
    let folder = Folder::new();
    let script = folder.write("leaving.py", "print(1)\n");
    let system = with_skills(&folder).await;
    let [worker] = system.worker_pids()[..] else { panic!("one worker") };
    value(&system, "leaving", json!({})).await;
    std::fs::remove_file(script).unwrap();
    openskill_tests::wait::until_true("no warm process is left", PATIENCE, || {
        processes::descendants(worker).is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_shared_interpreter_has_fresh_globals_and_warns_what_it_does_not_isolate() {
    let folder = Folder::new();
    let script = "import json, sys\ncount = globals().get('count', 0) + 1\njson.kept = getattr(json, 'kept', 0) + 1\n\
                  call = json.load(sys.stdin)\nprint(json.dumps([count, json.kept, call['input']]))\n";
    folder.write("together.py", script);
    folder.write("together.yaml", "id: together\ntype: cli\nruntime: python\nentry: together.py\nisolation: shared\n");
    let system = with_skills(&folder).await;
    // There may be more than one interpreter.
    until("an interpreter takes a second call", PATIENCE, || async {
        let answer = value(&system, "together", json!({"n": 1})).await;
        assert_eq!([&answer[0], &answer[2]], [&json!(1), &json!({"n": 1})], "{answer}");
        (answer[1] == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_shared_interpreter_puts_back_what_a_call_changed_or_is_replaced() {
    let folder = Folder::new();
    let script = r#"
import atexit, concurrent.futures, json, os, resource, signal, sys, threading, time
what = json.load(sys.stdin)["input"].get("what")
found = {
    "environment": os.environ.get("LEFT"), "folder": os.getcwd(), "umask": os.umask(0o022), "argv": len(sys.argv),
    "path": "/left" in sys.path, "mask": len(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "timer": signal.getitimer(signal.ITIMER_REAL)[0],
    "threads": threading.active_count(), "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
}
if what == "change":
    os.environ["LEFT"] = "x"; os.chdir("/usr"); os.umask(0o077); sys.argv.append("x"); sys.path.append("/left")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); signal.setitimer(signal.ITIMER_REAL, 3600)
if what == "thread":
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
waits = threading.Thread(target=time.sleep, args=(3600,))
if what == "waiting thread":
    waits.start()
if what == "busy thread":
    threading.Thread(target=exec, args=("while True: pass",)).start()
if what == "executor":
    concurrent.futures.ThreadPoolExecutor().submit(time.sleep, 3600)
if what == "thread at exit":
    atexit.register(waits.start)
if what == "limit":
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
if what == "descriptor":
    os.open("/usr", os.O_RDONLY)
if what == "flood":
    for _ in range(100):
        sys.stdout.write("x" * (1 << 20))
if what == "daemon" and os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(3600)
    os._exit(0)
print(json.dumps([found, os.stat("/proc/self/").st_ino]))
"#;
    folder.write("together.py", script);
    folder.write("together.yaml", "id: together\ntype: cli\nruntime: python\nentry: together.py\nisolation: shared\n");
    let skills = folder.path().display().to_string();
    let setup = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills]);
    let system = setup.with("OPENSKILL_WORKER_CONCURRENCY", 1).start().await;
    let first = value(&system, "together", json!({"what": "change"})).await;
    let next = value(&system, "together", json!({})).await;
    assert_eq!(next, first, "put back, in the same interpreter");
    let threads = ["thread", "waiting thread", "busy thread", "executor", "thread at exit"];
    for what in threads.into_iter().chain(["limit", "descriptor"]) {
        let before = value(&system, "together", json!({"what": what})).await;
        let after = value(&system, "together", json!({})).await;
        assert_eq!(after[0], first[0], "{what}");
        assert_ne!(after[1], before[1], "{what}: another interpreter");
    }
    for (what, expected) in [("flood", "OUTPUT_TOO_LARGE"), ("daemon", "EXECUTION_ERROR")] {
        let result = system.invoke(request("together", json!({"what": what}))).await;
        assert_eq!(code(&result), expected, "{result:?}");
        assert_eq!(value(&system, "together", json!({})).await[0], first[0], "{what}");
    }
}

#[tokio::test]
async fn a_shared_interpreter_that_hangs_or_dies_is_replaced() {
    let folder = Folder::new();
    let script = "import json, os, sys, time\nwhat = json.load(sys.stdin)['input'].get('what')\n\
                  if what == 'hang':\n    time.sleep(60)\nif what == 'die':\n    os._exit(3)\n\
                  if what == 'raise':\n    raise ValueError('token=hunter2')\nprint(json.dumps(what))\n";
    folder.write("together.py", script);
    folder.write("together.yaml", "id: together\ntype: cli\nruntime: python\nentry: together.py\nisolation: shared\n");
    let system = with_skills(&folder).await;
    for (what, expected) in [("hang", "TIMEOUT"), ("die", "EXECUTION_ERROR"), ("raise", "EXECUTION_ERROR")] {
        let call = InvokeRequest { timeout_ms: 2000, ..request("together", json!({"what": what})) };
        let result = system.invoke(call).await;
        assert_eq!(code(&result), expected, "{result:?}");
        assert!(!format!("{result:?}").contains("hunter2"));
        assert_eq!(value(&system, "together", json!({"what": "next"})).await, json!("next"));
    }
}

/// Concurrent calls of one shared skill, each of which records that it started: `asks`, and quick ones in between. Returns
/// how `asks` ended; the quick calls must all succeed, and start once each.
async fn among_quick_calls(asks: &[Value], timeout_ms: u32) -> Vec<String> {
    let (folder, root) = (Folder::new(), Folder::new());
    let script = "import json, os, subprocess, sys, time\ncall = json.load(sys.stdin)['input']\n\
                  with open(os.path.join(os.environ['OPENSKILL_ALLOWED_ROOT'], 'begun'), 'a') as file:\n    \
                  file.write(str(call['n']) + '\\n')\n\
                  what = call.get('what')\nif what == 'hang':\n    time.sleep(60)\nif what == 'die':\n    os._exit(3)\n\
                  if what == 'leave':\n    subprocess.Popen(['sleep', '60'])\nprint(json.dumps(call['n']))\n";
    folder.write("together.py", script);
    folder.write("together.yaml", "id: together\ntype: cli\nruntime: python\nentry: together.py\nisolation: shared\n");
    let skills = folder.path().display().to_string();
    let setup = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills]);
    let system = setup.with("OPENSKILL_WORKER_CONCURRENCY", 64).data(root.path()).start().await;
    let client = system.skills().await;
    let invoke = |input: Value, timeout_ms| {
        let (mut client, call) = (client.clone(), InvokeRequest { timeout_ms, ..request("together", input) });
        tokio::spawn(async move { client.invoke(call).await.unwrap().into_inner() })
    };
    let (mut asked, mut quick) = (Vec::new(), Vec::new());
    for (at, ask) in asks.iter().enumerate() {
        asked.push(invoke(json!({"n": -1, "what": ask}), timeout_ms));
        quick.extend((at * 10..at * 10 + 10).map(|n| (n, invoke(json!({ "n": n }), 30_000))));
    }
    let count = quick.len();
    for (n, call) in quick {
        let result = call.await.unwrap();
        assert_eq!(code(&result), "", "{result:?}");
        assert_eq!(data(&result), json!(n));
    }
    let begun = std::fs::read_to_string(root.path().join("begun")).unwrap();
    let mut begun: Vec<_> = begun.lines().filter_map(|line| line.parse::<usize>().ok()).collect();
    begun.sort_unstable();
    assert_eq!(begun, (0..count).collect::<Vec<_>>(), "each once");
    let mut ends = Vec::new();
    for call in asked {
        ends.push(code(&call.await.unwrap()).to_owned());
    }
    ends
}

#[tokio::test]
async fn calls_queued_behind_a_hanging_shared_call_run_elsewhere_once() {
    let ends = among_quick_calls(&[json!("hang"), json!(null), json!("hang"), json!(null)], 1000).await;
    assert_eq!((&*ends[0], &*ends[2]), ("TIMEOUT", "TIMEOUT"), "{ends:?}");
}

#[tokio::test]
async fn calls_queued_behind_a_crashing_shared_call_run_elsewhere_once() {
    let ends = among_quick_calls(&[json!("die"), json!("leave"), json!("die"), json!("leave")], 20_000).await;
    assert_eq!((&*ends[0], &*ends[2]), ("EXECUTION_ERROR", "EXECUTION_ERROR"), "{ends:?}");
}

#[tokio::test]
async fn a_shared_interpreter_accepts_arguments_of_any_size() {
    let folder = Folder::new();
    folder.write("measures.py", "import json, sys\nprint(len(json.load(sys.stdin)['input']['text']))\n");
    folder.write("measures.yaml", "id: measures\ntype: cli\nruntime: python\nentry: measures.py\nisolation: shared\n");
    let system = with_skills(&folder).await;
    for size in [0, 1000, 16_000, 17_000, 70_000, 1_000_000, 10] {
        assert_eq!(value(&system, "measures", json!({"text": "x".repeat(size)})).await, json!(size));
    }
}

#[tokio::test]
async fn a_thousand_concurrent_calls_end_once_each() {
    // On a loaded machine, the limit would adapt and refuse some.
    let system = Setup::up().flag("--workers", 1).with("OPENSKILL_ADAPTIVE_LIMIT", 0).start().await;
    let client = system.skills().await;
    let calls = (0..1000).map(|n| {
        let mut client = client.clone();
        async move {
            let call = InvokeRequest { timeout_ms: 60_000, ..request("hello", json!({ "n": n })) };
            let result = client.invoke(call).await.unwrap().into_inner();
            assert_eq!(code(&result), "", "{result:?}");
            assert_eq!(data(&result), json!({"hello": {"n": n}}));
        }
    });
    use futures_util::StreamExt as _;
    futures_util::stream::iter(calls).for_each_concurrent(64, |call| call).await;
    // All slots are free, and only warm processes are left.
    until("no call is in flight", Duration::from_secs(5), || async {
        (system.workers().await[0].in_flight == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn buffered_output_of_a_script_is_flushed() {
    let folder = Folder::new();
    let script = "import json, os, talk\nfile = open(os.path.join(os.environ['OPENSKILL_ALLOWED_ROOT'], 'out'), 'w')\n\
                  file.write('all of it')\ntalk.say('\"said\"')\n";
    folder.write("unflushed.py", script);
    folder.write("talk.py", "import sys\n\n\ndef say(text, out=sys.stdout):\n    out.write(text)\n");
    folder.write("talk.yaml", "id: talk\ntype: cli\nruntime: python\nentry: talk.py\n");
    let data = Folder::new();
    let skills = folder.path().display().to_string();
    let setup = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills]);
    let system = setup.data(data.path()).start().await;
    assert_eq!(value(&system, "unflushed", json!({})).await, json!("said"));
    assert_eq!(std::fs::read_to_string(data.path().join("out")).unwrap(), "all of it");
}

#[tokio::test]
async fn an_import_after_a_change_of_sys_path_resolves_as_in_a_fresh_interpreter() {
    let folder = Folder::new();
    let script = "import json, os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'vendor'))\n\
                  import colorsys\nprint(json.dumps(getattr(colorsys, 'ours', False)))\n";
    folder.write("vendored.py", script);
    folder.write("vendor/colorsys.py", "ours = True\n");
    let system = with_skills(&folder).await;
    assert_eq!(value(&system, "vendored", json!({})).await, json!(true));
}

#[tokio::test]
async fn a_skill_may_have_the_name_of_a_python_module() {
    let folder = Folder::new();
    folder.write("resource.py", "import json\nprint(json.dumps('mine'))\n");
    folder.write("asks.py", "import json, resource\n");
    folder.write("other.py", "print(2)\n");
    let system = with_skills(&folder).await;
    assert_eq!(value(&system, "resource", json!({})).await, json!("mine"));
    assert_eq!(value(&system, "other", json!({})).await, json!(2));
}

#[tokio::test]
async fn temporary_files_of_a_call_are_invisible_to_the_next() {
    let folder = Folder::new();
    let script = "import json, os, sys\nbase = os.path.dirname(os.environ['TMPDIR'])\n\
                  def attempt(path):\n    try:\n        open(path, 'w').close()\n        return 'written'\n    \
                  except OSError as error:\n        return type(error).__name__\n\
                  own = attempt(os.path.join(os.environ['TMPDIR'], 'x'))\nbeside = attempt(os.path.join(base, 'note'))\n\
                  print(json.dumps([own, beside, os.path.exists(os.path.join(base, 'note'))]))\n";
    folder.write("notes.py", script);
    let system = with_skills(&folder).await;
    for _ in 0..3 {
        let found = value(&system, "notes", json!({})).await;
        // A root of its own is read-only.
        let refused = if found[1] == "OSError" { "OSError" } else { "PermissionError" };
        assert_eq!(found, json!(["written", refused, false]));
    }
}

/// Each call of a caller that has others running weighs less, so that a burst of starts delays no other caller.
#[tokio::test]
async fn calls_of_one_session_yield_the_processor_to_the_first_of_another() {
    let script = "import json, os, sys, time\n\
                  ask = json.load(sys.stdin)['input']\n\
                  place = os.environ['OPENSKILL_ALLOWED_ROOT']\n\
                  open(os.path.join(place, ask['name']), 'w').close()\n\
                  while len([it for it in os.listdir(place) if it.startswith('call-')]) < ask['together']:\n    \
                      time.sleep(0.01)\n\
                  print(json.dumps({'nice': os.nice(0)}))\n";
    let (folder, root) = (Folder::new(), Folder::new());
    folder.write("meets.py", script);
    folder.write(
        "meets.yaml",
        "id: meets\ntype: cli\nruntime: python\nentry: meets.py\nisolation: fork\ntimeout_ms: 60000\n",
    );
    let skills = folder.path().display().to_string();
    let setup = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills]);
    let system = setup.with("OPENSKILL_WORKER_CONCURRENCY", 8).data(root.path()).start().await;
    let calls = ["busy", "busy", "busy", "quiet"].into_iter().enumerate().map(|(number, session)| {
        let input = json!({"name": format!("call-{number}"), "together": 4});
        let session_id = session.to_owned();
        let call = system.invoke(InvokeRequest { session_id, ..request("meets", input) });
        async move { (session, data(&call.await)["nice"].as_u64()) }
    });
    let mut found = futures_util::future::join_all(calls).await;
    found.sort_unstable();
    let least = found.iter().filter_map(|(_, nice)| *nice).min().unwrap();
    assert!(least >= 5, "the worker comes before its skills: {least}");
    let beyond: Vec<_> = found.into_iter().map(|(session, nice)| (session, nice.unwrap() - least)).collect();
    assert_eq!(beyond, [("busy", 0), ("busy", 3), ("busy", 5), ("quiet", 0)]);
}
