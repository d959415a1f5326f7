//! While someone develops a skill: `openskill run`, and what `openskill up` shows on a terminal.

use std::path::Path;
use std::process::Stdio;

use openskill_tests::binary;
use openskill_tests::folder::Folder;
use openskill_tests::processes;
use openskill_tests::system::PATIENCE;
use openskill_tests::terminal::Terminal;
use openskill_tests::wait::{until, until_true};
use rustix::process::Signal;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::Ran;

const FAILS: &str = "import sys\nprint('about to\\x1b[2J fail', file=sys.stderr)\nraise RuntimeError('no luck')\n";
const ECHOES: &str =
    "import json, sys\nprint('read', file=sys.stderr)\nprint(json.dumps(json.load(sys.stdin)['input']))\n";

fn write_skills(folder: &Folder) {
    folder.write("fails.py", FAILS);
    folder.write("echoes.py", ECHOES);
    folder.write(
        "typed.yaml",
        "id: typed\ntype: cli\nruntime: python\nentry: echoes.py\nparameters:\n  text: {type: string, required: true}\n",
    );
    let program = folder.write("program", "#!/bin/sh\necho '{\"from\": \"a program\"}'\n");
    std::fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

async fn run(folder: &Path, arguments: &[&str], stdin: &str) -> Ran {
    let mut command = Command::new(binary());
    command.arg("run").args(arguments).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

#[tokio::test]
async fn run_calls_the_skill_of_one_file_without_a_project_or_a_gateway() {
    let folder = Folder::new();
    write_skills(&folder);
    for (arguments, stdin, out) in [
        (&["echoes.py", r#"{"text": 1}"#][..], "", "{\n  \"text\": 1\n}\n"),
        (&["echoes.py", "-"], r#"{"text": 2}"#, "{\n  \"text\": 2\n}\n"),
        (&["echoes.py", "-d", "{}"], "", "{}\n"),
        (&["typed.yaml", "text=3"], "", "{\n  \"text\": \"3\"\n}\n"),
    ] {
        let ran = run(folder.path(), arguments, stdin).await;
        assert_eq!((ran.code, ran.out.as_str()), (0, out), "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains("read\n"), "{}", ran.err);
    }
    let ran = run(folder.path(), &["program"], "").await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "{\n  \"from\": \"a program\"\n}\n"), "{}", ran.err);
    let ran = run(folder.path(), &["fails.py"], "").await;
    let expected = ["about to\\u{1b}[2J fail\nTraceback", "EXECUTION_ERROR: ", "RuntimeError: no luck"];
    assert!(ran.code == 1 && expected.iter().all(|it| ran.err.contains(it)) && ran.out.is_empty(), "{}", ran.err);
    let ran = run(folder.path(), &["typed.yaml", "txt=[]", "--strict"], "").await;
    assert!(ran.code == 1 && ran.err.contains("INVALID_ARGUMENT: "), "{}", ran.err);
    assert_eq!(run(folder.path(), &["missing.py"], "").await.code, 2);
    assert!(!folder.path().join("data").exists());
}

#[tokio::test]
async fn run_calls_a_function_of_a_python_file() {
    let folder = Folder::new();
    let function = |name: &str| format!("@skill\ndef {name}(text: str) -> dict:\n    return {{'{name}': text}}\n");
    let head = "from openskill_sdk import skill\n";
    folder.write("one.py", format!("{head}{}", function("shout")));
    folder.write("several.py", format!("{head}{}{}", function("shout"), function("whisper")));
    folder.write("whisper.py", format!("{head}{}{}", function("shout"), function("whisper")));
    for (file, name) in [("one.py", "shout"), ("whisper.py", "whisper"), ("several.py#whisper", "whisper")] {
        let ran = run(folder.path(), &[file, "text=1"], "").await;
        assert_eq!((ran.code, ran.out), (0, format!("{{\n  \"{name}\": \"1\"\n}}\n")), "{file}: {}", ran.err);
    }
    for file in ["several.py", "several.py#other"] {
        let ran = run(folder.path(), &[file, "text=1"], "").await;
        assert!(ran.code == 2 && ran.err.contains("FILE#NAME`: shout, whisper"), "{file}: {}", ran.err);
    }
}

#[tokio::test]
async fn an_interrupted_run_leaves_no_directory() {
    let (folder, temp) = (Folder::new(), Folder::new());
    folder.write("naps.py", "import time\ntime.sleep(60)\n");
    let mut command = Command::new(binary());
    command.args(["run", "naps.py"]).current_dir(folder.path()).env("TMPDIR", temp.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let pid = child.id().unwrap() as i32;
    until_true("the call begins", PATIENCE, || !processes::children(pid, "").is_empty()).await;
    processes::send(pid, Signal::INT);
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
    let mut left = temp.path().read_dir().unwrap().map(|it| it.unwrap().file_name());
    assert!(!left.any(|it| it.to_string_lossy().starts_with("openskill-run-")));
}

#[tokio::test]
async fn up_on_a_terminal_shows_what_skills_write_to_stderr_unless_a_log_level_is_set() {
    for (level, is_shown) in [(None, true), (Some("info"), false)] {
        let (folder, terminal) = (Folder::new(), Terminal::with_columns(80));
        write_skills(&folder);
        std::fs::create_dir(folder.path().join("data")).unwrap();
        let mut up = Command::new(binary());
        up.args(["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", "."])
            .envs(level.map(|it| ("OPENSKILL_LOG", it)))
            .env("XDG_STATE_HOME", folder.path().join("state"))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(terminal.stdio())
            .stderr(terminal.stdio())
            .kill_on_drop(true);
        let mut up = up.spawn().unwrap();
        let url = until("it is ready", PATIENCE, async || {
            let text = terminal.text();
            let (_, rest) = text.split_once("openskill is ready in ")?;
            Some(rest.split_once(": ")?.1.split_once(',')?.0.to_owned())
        });
        let mut invoke = Command::new(binary());
        invoke.args(["invoke", "fails", "--url", &url.await]).stdin(Stdio::null()).stderr(terminal.stdio());
        assert_eq!(invoke.status().await.unwrap().code(), Some(1));
        let hint = "openskill logs --tail 1 --skill fails";
        until_true("it says where the skill's stderr is", PATIENCE, || terminal.text().contains(hint)).await;
        until_true("the log says that it wrote", PATIENCE, || terminal.text().contains("wrote to stderr")).await;
        let shown = || {
            let text = terminal.text();
            let lines: Vec<_> = text.lines().filter(|it| it.starts_with("fails call-")).collect();
            lines.iter().any(|it| it.ends_with(" | about to\\u{1b}[2J fail"))
                && lines.iter().any(|it| it.ends_with(" | RuntimeError: no luck"))
        };
        if is_shown {
            until_true("the terminal shows the traceback", PATIENCE, shown).await;
        } else {
            assert!(!terminal.text().contains("about to"), "{}", terminal.text());
        }
        up.kill().await.unwrap();
    }
}
