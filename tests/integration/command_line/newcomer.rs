//! A newcomer in an empty directory, with nothing but the binary.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use openskill_tests::alone::beside_others;
use openskill_tests::binary;
use openskill_tests::folder::Folder;
use openskill_tests::processes;
use openskill_tests::system::PATIENCE;
use openskill_tests::wait::until;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The binary, somewhere else: nothing of the repository is beside it.
pub(super) struct Newcomer {
    folder: Folder,
    binary: PathBuf,
    tools: Folder,
}

impl Newcomer {
    pub(super) fn new() -> Self {
        let tools = Folder::new();
        let copy = tools.path().join("openskill");
        std::fs::copy(binary(), &copy).unwrap();
        Self { folder: Folder::new(), binary: copy, tools }
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.tools.path())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    pub(super) async fn run(&self, arguments: &[&str]) -> (i32, String) {
        Self::finish(self.command(arguments)).await
    }

    /// The same in a directory of the project.
    pub(super) async fn run_in(&self, folder: &Path, arguments: &[&str]) -> (i32, String) {
        let mut command = self.command(arguments);
        command.current_dir(folder);
        Self::finish(command).await
    }

    pub(super) async fn finish(mut command: Command) -> (i32, String) {
        let output: Output = command.output().await.unwrap();
        let text = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap()).concat();
        (output.status.code().unwrap(), text)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        self.folder.write(name, text);
    }
}

/// `openskill up`, stopped at the end.
pub(super) struct Up {
    pub(super) url: String,
    banner: String,
    child: Child,
}

impl Up {
    async fn start(newcomer: &Newcomer) -> Self {
        Self::start_as(newcomer.command(&["up", "--listen", "127.0.0.1:0"])).await
    }

    pub(super) async fn start_as(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut banner = String::new();
        let ready = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                banner += &(line + "\n");
                if banner.contains("Stop: Ctrl-C") {
                    break;
                }
            }
        };
        tokio::time::timeout(PATIENCE, ready).await.expect("it becomes ready");
        let address = banner.split("http://").nth(1).unwrap().split(',').next().unwrap();
        Self { url: format!("http://{address}"), banner: banner.clone(), child }
    }

    pub(super) async fn stop(mut self) {
        processes::send(self.child.id().unwrap() as i32, Signal::TERM);
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap();
        assert!(status.success(), "{status}");
    }
}

fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path.display().to_string());
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn an_empty_directory_says_what_is_missing() {
    let newcomer = Newcomer::new();
    for command in ["up", "check", "doctor", "worker"] {
        let (code, text) = newcomer.run(&[command]).await;
        assert!(code == 4 && text.contains("`openskill init` to make a project"), "{command}: {code} {text}");
        // All that is missing at once.
        assert!(text.contains("OPENSKILL_ALLOWED_ROOT"), "{text}");
    }
    let (code, text) = newcomer.run(&["new", "shout"]).await;
    assert!(code == 2 && text.contains("openskill init"), "{text}");
    let (code, text) = newcomer.run(&["skills", "--url", "http://127.0.0.1:1"]).await;
    assert!(code == 3 && text.contains("openskill up"), "{text}");
    newcomer.write("data/.gitkeep", "");
    newcomer.write("skills/README.md", "");
    let (code, text) = newcomer.run(&["check", "--skills-dir", "skills"]).await;
    assert!(code == 1 && text.contains("openskill new ID"), "{text}");
}

#[tokio::test]
async fn init_keeps_what_is_there() {
    let newcomer = Newcomer::new();
    newcomer.write(".gitignore", "mine\n");
    let (code, text) = newcomer.run(&["init"]).await;
    assert!(code == 0 && text.contains("kept  ./.gitignore"), "{text}");
    assert_eq!(std::fs::read_to_string(newcomer.path(".gitignore")).unwrap(), "mine\n");
    let before = files(newcomer.folder.path());
    newcomer.write("skills/shout.py", "mine\n");
    let (code, text) = newcomer.run(&["init"]).await;
    assert!(code == 2 && text.contains("already exists"), "{text}");
    assert_eq!(files(newcomer.folder.path()), before);
    assert_eq!(std::fs::read_to_string(newcomer.path("skills/shout.py")).unwrap(), "mine\n");
    // Skills of one's own need no example.
    newcomer.write("other/skills/own.yaml", "id: own\ntype: inproc\nentry: echo\n");
    assert_eq!(newcomer.run(&["init", "other"]).await.0, 0);
    assert!(!newcomer.path("other/skills/shout.yaml").exists() && newcomer.path("other/openskill.toml").exists());
}

#[tokio::test]
async fn a_skill_is_written_checked_called_watched_traced_and_removed() {
    let _turn = beside_others();
    let newcomer = Newcomer::new();
    let (code, text) = newcomer.run(&["init"]).await;
    assert_eq!(code, 0, "{text}");
    for name in ["openskill.toml", ".gitignore", "data/.gitkeep", "skills/shout.yaml", "skills/tests/test_shout.py"] {
        assert!(newcomer.path(name).is_file() && text.contains(name), "{name}: {text}");
    }
    let (code, text) = newcomer.run(&["check"]).await;
    assert!(code == 0 && text.matches("ok    example").count() == 2, "{text}");
    let test = std::process::Command::new("python3").arg(newcomer.path("skills/tests/test_shout.py")).output().unwrap();
    assert!(test.status.success(), "{}", String::from_utf8_lossy(&test.stderr));

    let up = Up::start(&newcomer).await;
    assert!(up.banner.contains("/skills/shout:invoke -d") && up.banner.contains(", 1 skill\n"), "{}", up.banner);
    let url = up.url.as_str();
    let (code, text) = newcomer.run(&["invoke", "shout", "text=hello", "--trace-id", "walk-1", "--url", url]).await;
    assert!(code == 0 && text.contains("HELLO"), "{text}");
    until("the call is recorded", PATIENCE, || async {
        let (code, text) = newcomer.run(&["trace", "walk-1", "--url", url]).await;
        (code == 0 && text.contains("HELLO")).then_some(())
    })
    .await;
    let (code, text) = newcomer.run(&["logs", "--skill", "shout", "--url", url]).await;
    assert!(code == 0 && text.contains("walk-1  OK in "), "{text}");

    let mut watch = newcomer.command(&["skills", "--watch", "--url", url]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut wait_for = async |start: &str| {
        let found = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.starts_with(start) {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("no line {start}"));
    };
    wait_for("added    shout").await;
    assert_eq!(newcomer.run(&["new", "count_words", "--type", "cli:exec"]).await.0, 0);
    wait_for("added    count_words").await;
    for name in ["skills/count_words.yaml", "skills/count_words.sh"] {
        std::fs::remove_file(newcomer.path(name)).unwrap();
    }
    wait_for("removed  count_words").await;
    up.stop().await;
}
