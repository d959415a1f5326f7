//! Code that means harm: it ends in a typed answer, in time, and neither the worker nor another session notices.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use openskill_proto::v1::InvokeRequest;
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::until_true;
use serde_json::{Value, json};

use super::{EXECUTE, run, sandbox};

/// What an attack comes to: the name of its error (`-`: none), and the state of its session.
struct Attack {
    code: &'static str,
    error: &'static str,
    state: &'static str,
}

const fn attack(code: &'static str, error: &'static str, state: &'static str) -> Attack {
    Attack { code, error, state }
}

/// One worker, with room for all sessions of a test.
async fn of_one_worker() -> Option<System> {
    sandbox(Setup::shipped().flag("--workers", 1).with("OPENSKILL_SESSIONS_PER_CALLER", 32)).await
}

/// Runs each in a session that holds something, beside one that must not notice.
async fn survives(system: &System, timeout: u64, attacks: &[Attack]) {
    run(system, "mine = 'untouched'", "neighbour").await;
    let [worker] = system.worker_pids()[..] else { panic!("one worker") };
    for (number, Attack { code: attack, error, state }) in attacks.iter().enumerate() {
        let session = format!("attack-{number}");
        run(system, "kept = 1", &session).await;
        let begun = Instant::now();
        let input = json!({"code": attack, "session_id": session, "timeout": timeout});
        let result = system.invoke(InvokeRequest { timeout_ms: 60_000, ..request(EXECUTE, input) }).await;
        assert_eq!(code(&result), "", "{attack}: {result:?}");
        let told = data(&result);
        assert_eq!(told["error"]["name"].as_str().unwrap_or("-"), *error, "{attack}: {told}");
        assert_eq!(told["session_state"], *state, "{attack}: {told}");
        assert_eq!(told["return_code"], i32::from(*error != "-"), "{attack}: {told}");
        assert!(begun.elapsed() < Duration::from_secs(timeout + 7), "{attack} took {:?}", begun.elapsed());
        let next = run(system, "globals().get('kept')", &session).await;
        let (expected, then) = if *state == "lost" { (Value::Null, "new") } else { (json!("1"), "kept") };
        assert_eq!((&next["result"], next["session_state"].as_str()), (&expected, Some(then)), "{attack}");
        // So that there is memory for the next one.
        super::ask(system, "close_session", json!({"session_id": session})).await;
    }
    assert_eq!(run(system, "mine", "neighbour").await["result"], "'untouched'");
    assert_eq!(system.worker_pids(), [worker], "the worker was not replaced");
}

#[tokio::test]
async fn code_that_meddles_with_its_own_interpreter() {
    let Some(system) = of_one_worker().await else { return };
    survives(
        &system,
        1,
        &[
            attack("import builtins\nbuiltins.print = builtins.repr = None", "-", "kept"),
            attack("import json, sys\njson.dumps = json.loads = None\nsys.stdout = sys.stderr = None", "-", "kept"),
            attack("import sys\nsys.modules.clear()", "-", "kept"),
            attack(
                "class Endless:\n    def __repr__(self):\n        while True: pass\nEndless()",
                "TimeoutError",
                "kept",
            ),
            attack("import os\nos._exit(0)", "ProcessEnded", "lost"),
            attack("import os\nos._exit(3)", "ProcessEnded", "lost"),
            attack("import os\nos.kill(os.getpid(), 9)", "ProcessEnded", "lost"),
            attack("import ctypes\nctypes.string_at(0)", "ProcessEnded", "lost"),
            attack("import os\nos.closerange(0, 256)", "ProcessEnded", "lost"),
            attack("import os\nos.closerange(0, 256)\nwhile True: pass", "ProcessEnded", "lost"),
        ],
    )
    .await;
}

#[tokio::test]
async fn code_that_does_not_stop() {
    let Some(system) = of_one_worker().await else { return };
    survives(
        &system,
        1,
        &[
            attack("while True: pass", "TimeoutError", "kept"),
            attack("import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass", "TimeoutError", "lost"),
            attack("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", "TimeoutError", "lost"),
            attack("import signal, os\nos.kill(os.getpid(), signal.SIGSTOP)", "TimeoutError", "lost"),
            attack("import collections, itertools\ncollections.deque(itertools.repeat(1), maxlen=0)", "TimeoutError", "lost"),
            attack(
                "import threading\ndef spin():\n    while True: pass\nfor _ in range(4): threading.Thread(target=spin).start()\n\
                 threading.Event().wait()",
                "TimeoutError",
                "kept",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn code_that_speaks_in_the_place_of_its_session() {
    let Some(system) = of_one_worker().await else { return };
    // The stream to the worker is the only socket that the process has.
    let find = "import os, stat\nstream = [n for n in range(3, 256) if os.path.exists(f'/proc/self/fd/{n}') and \
                stat.S_ISSOCK(os.stat(f'/proc/self/fd/{n}').st_mode)][0]\n";
    let forged = [
        // An end of this cell, while its code goes on: the next cell is not the next to run.
        r#"{"session": {"ended": {"cell": 2, "return_code": 0, "result": "forged"}}}"#,
        // Of other cells, or nonsense.
        r#"{"session": {"ended": {"cell": 99}}}"#,
        r#"{"session": {"ended": {"cell": -1}}}"#,
        r#"{"session": {"began": 7}}"#,
        r#"{"session": {"ready": true}}"#,
        r#"{"answer": {"id": "input-1", "action": "accept"}}"#,
        r#"{"artifact": {"id": "a", "name": "../../x", "data": "!!!"}}"#,
    ];
    for line in &forged[1..] {
        let code_ = format!("{find}os.write(stream, b'''{line}\\n''')\n'own'");
        let told = run(&system, &code_, "s").await;
        assert_eq!(told["result"], "'own'", "{line}: {told}");
    }
    let code_ = format!("{find}os.write(stream, b'''{}\\n''')\nimport time\ntime.sleep(600)", forged[0]);
    run(&system, "1", "f").await;
    let told = run(&system, &code_, "f").await;
    assert_eq!(told["result"], "forged", "it answers for itself alone: {told}");
    // The code still sleeps, and does not take the next cell: that one ends at its timeout, and the session with it.
    let input = json!({"code": "2", "session_id": "f", "timeout": 1});
    let next = data(&system.invoke(InvokeRequest { timeout_ms: 30_000, ..request(EXECUTE, input) }).await);
    assert_eq!((&next["error"]["name"], &next["session_state"]), (&json!("TimeoutError"), &json!("lost")), "{next}");
    // A flood of lines without end, and a line without end.
    for flood in ["while True: os.write(stream, b'{}\\n' * 10000)", "while True: os.write(stream, b'x' * 65536)"] {
        let input = json!({"code": format!("{find}{flood}"), "session_id": "g", "timeout": 1});
        let told = data(&system.invoke(InvokeRequest { timeout_ms: 30_000, ..request(EXECUTE, input) }).await);
        let name = told["error"]["name"].as_str().unwrap();
        assert!(["TimeoutError", "ProcessEnded"].contains(&name), "{told}");
    }
    assert_eq!(run(&system, "1", "s").await["result"], "1");
}

#[tokio::test]
async fn code_that_takes_too_much() {
    let Some(system) = of_one_worker().await else { return };
    survives(
        &system,
        40,
        &[
            // Refused by the limit on address space, or ended by the bound on memory.
            attack("blocks = [bytes(1 << 20) for _ in range(4096)]", "MemoryError", "kept"),
            attack("import os\nopen('f', 'wb').write(bytes(200 << 20))\nopen('g', 'wb').write(bytes(200 << 20))", "OSError", "kept"),
            attack("import threading\nfor _ in range(1000): threading.Thread(target=threading.Event().wait, daemon=True).start()", "RuntimeError", "kept"),
        ],
    )
    .await;
    let printed = run(&system, "print('x' * 3_000_000)", "p").await;
    assert_eq!((printed["stdout"].as_str().unwrap().len(), &printed["return_code"]), (1 << 20, &json!(0)));
    assert!(printed["notes"][0].as_str().unwrap().contains("left out"), "{printed}");
    let flood = run(&system, "while True: print('x' * 1000)", "p").await;
    assert_eq!(
        (&flood["error"]["name"], &flood["session_state"]),
        (&json!("OutputTooLarge"), &json!("kept")),
        "{flood}"
    );
}

#[tokio::test]
async fn code_that_looks_for_a_way_out() {
    let Some(system) = of_one_worker().await else { return };
    // It exists, and whoever shares the network of the worker can connect to it.
    let name = format!("openskill-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    UnixStream::connect_addr(&address).unwrap();
    let tried = run(
        &system,
        &"import os, socket, glob, ctypes\nfound = {}\n\
         def unshare():\n    libc = ctypes.CDLL(None, use_errno=True)\n    \
         if libc.unshare(0x00020000): raise OSError(ctypes.get_errno(), 'unshare')\n\
         def attempt(name, what):\n    try: found[name] = repr(what())\n    except BaseException as e: found[name] = type(e).__name__\n\
         attempt('socket', lambda: socket.create_connection(('127.0.0.1', 8000), 1))\n\
         attempt('unix', lambda: socket.socket(socket.AF_UNIX).connect('\\0NAME'))\n\
         attempt('mount', unshare)\n\
         attempt('write', lambda: open('/usr/x', 'w'))\n\
         attempt('shadow', lambda: open('/etc/shadow').read())\n\
         attempt('others', lambda: sorted(int(p) for p in os.listdir('/proc') if p.isdigit()))\n\
         attempt('root', lambda: os.environ['OPENSKILL_ALLOWED_ROOT'])\n\
         attempt('skills', lambda: glob.glob('/**/openskill_sdk', recursive=True))\n\
         attempt('setuid', lambda: os.setuid(0))\n\
         attempt('parent', lambda: os.kill(1, 9))\n\
         found"
            .replace("NAME", &name),
        "s",
    )
    .await;
    let found = tried["result"].as_str().unwrap_or_else(|| panic!("{tried}"));
    for (name, refused) in [
        ("socket", &["PermissionError", "OSError"][..]),
        ("unix", &["PermissionError", "ConnectionRefusedError"]),
        ("mount", &["PermissionError", "OSError"]),
        // A signal that is sent and has no effect: the session goes on.
        ("parent", &["None", "PermissionError"]),
        ("write", &["PermissionError", "OSError", "FileNotFoundError"]),
        ("shadow", &["FileNotFoundError", "PermissionError"]),
        ("root", &["KeyError"]),
        ("skills", &["[]"]),
        ("setuid", &["PermissionError", "OSError"]),
    ] {
        let is_refused = refused.iter().any(|it| found.contains(&format!("'{name}': '{it}'")));
        assert!(is_refused, "{name} in {found}");
    }
    // Process 1 of the namespace, which no signal of it reaches, and the session itself.
    assert!(found.contains("'others': '[1, 2]'"), "{found}");
    assert_eq!(run(&system, "1", "s").await["session_state"], "kept");
}

#[tokio::test]
async fn sessions_do_not_see_each_other() {
    let Some(system) = of_one_worker().await else { return };
    run(&system, "import os\nopen('secret', 'w').write('x')\nopen('/tmp/secret', 'w').write('x')", "a").await;
    let looked = run(
        &system,
        "import os, glob\n(os.listdir('.'), os.path.exists('/tmp/secret'), glob.glob('/proc/[0-9]*/root/private/tmp/work/secret'))",
        "b",
    )
    .await;
    assert_eq!(looked["result"], "([], False, [])");
}

#[tokio::test]
async fn what_code_leaves_behind_ends_with_its_session() {
    let Some(system) = of_one_worker().await else { return };
    let [worker] = system.worker_pids()[..] else { panic!("one worker") };
    run(&system, "1", "warm").await;
    let sleeping = || {
        let all = processes::descendants(worker);
        all.into_iter().filter(|pid| processes::command_line(*pid).contains("86399")).count()
    };
    let daemon = "import subprocess\nfor _ in range(3): subprocess.Popen(['setsid', '-f', 'sleep', '86399'])\n\
                  subprocess.Popen(['sleep', '86399'], start_new_session=True); None";
    for session in ["s", ""] {
        let told = run(&system, daemon, session).await;
        assert_eq!(told["return_code"], 0, "{told}");
        if !session.is_empty() {
            until_true("they run", PATIENCE, || sleeping() == 4).await;
            super::ask(&system, "close_session", json!({"session_id": session})).await;
        }
        until_true("they are gone", Duration::from_secs(2), || sleeping() == 0).await;
    }
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_had_says_why() {
    // Nobody gives a worker with another user more than the kernel does.
    let system = Setup::shipped().with("OPENSKILL_PYTHON", "/no/such/python").start().await;
    let skill = system.get(&format!("/skills/{EXECUTE}")).await.json();
    assert_eq!(skill["status"], "unavailable");
    assert!(skill["status_reason"].as_str().unwrap().contains("Python"), "{skill}");
    let Some(system) = sandbox(Setup::shipped().flag("--workers", 1)).await else { return };
    assert_eq!(run(&system, "1", "").await["result"], "1");
}
