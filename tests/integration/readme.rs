//! The commands in README.md and docs/ print what the pages show.
//!
//! A `console` block is a conversation: a line that begins with `$ ` is a command (a backslash at its end continues
//! it, and so does a here-document up to `END`), and what follows is its answer. In an answer `…` stands for anything, and white space does not count.

use std::path::{Path, PathBuf};
use std::time::Duration;

use openskill_tests::folder::Folder;
use openskill_tests::system::{Setup, System};
use openskill_tests::{binary, repository, wheel};
use tokio::process::Command;

struct Exchange {
    line: usize,
    command: String,
    answer: String,
}

impl Exchange {
    /// Whether the command continues: after a backslash, and in a here-document until its END.
    fn is_open(&self) -> bool {
        self.command.ends_with('\\') || (self.command.contains("<<'END'") && !self.command.ends_with("\nEND"))
    }
}

/// The conversations of a page.
fn exchanges(page: &str) -> Vec<Exchange> {
    let text = std::fs::read_to_string(repository().join(page)).unwrap();
    let (mut found, mut inside, mut continues): (Vec<Exchange>, _, _) = (Vec::new(), false, false);
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside && continues {
            let exchange = found.last_mut().unwrap();
            exchange.command.push('\n');
            exchange.command.push_str(line);
            continues = exchange.is_open();
        } else if inside && let Some(command) = line.strip_prefix("$ ") {
            let exchange = Exchange { line: number + 1, command: command.to_owned(), answer: String::new() };
            continues = exchange.is_open();
            found.push(exchange);
        } else if inside {
            found.last_mut().expect("an answer has its command").answer.push_str(line);
        }
    }
    found
}

/// Whether `got` is `wanted`, where `…` stands for anything.
fn matches(wanted: &str, got: &str) -> bool {
    let squeeze = |text: &str| text.split_whitespace().collect::<String>();
    let (wanted, got) = (squeeze(wanted), squeeze(got));
    let parts: Vec<&str> = wanted.split('…').collect();
    let (first, last) = (parts[0], parts[parts.len() - 1]);
    if parts.len() == 1 {
        return wanted == got;
    }
    let Some(rest) = got.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else { return false };
    let mut rest = rest;
    parts[1..parts.len() - 1].iter().all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// A folder with `openskill` and `grpcurl`, for the front of the `PATH`.
fn tools() -> Folder {
    let folder = Folder::new();
    std::os::unix::fs::symlink(binary(), folder.path().join("openskill")).unwrap();
    if !on_path("grpcurl") {
        let python = repository().join("target/test-venv/bin/python");
        assert!(python.exists(), "the stand-in for grpcurl is missing; run `make test-venv`");
        let script = repository().join("tests/readme/grpcurl.py");
        let shim =
            folder.write("grpcurl", format!("#!/bin/sh\nexec {} {} \"$@\"\n", python.display(), script.display()));
        std::fs::set_permissions(shim, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    folder
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

async fn run(system: &System, tools: &Path, folder: &Path, command: &str) -> String {
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("bash");
    shell
        .args(["-c", &format!("exec 2>&1\n{}", command.replace("127.0.0.1:8000", &system.address.to_string()))])
        .env("PATH", path)
        .env("OPENSKILL_HTTP_BASE_URL", system.url())
        .current_dir(folder)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(60), shell.output()).await.expect("it ends").unwrap();
    String::from_utf8_lossy(&output.stdout).replace(&system.address.to_string(), "127.0.0.1:8000")
}

/// A copy of what the commands may change, so that a page can add skills and data.
fn scratch() -> Folder {
    let folder = Folder::new();
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args(["data", "worker"].map(|it| repository().join(it)))
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(copied.success());
    folder
}

async fn holds(page: &str) {
    holds_with(page, |setup, _| setup).await;
}

/// The same with other settings. `change` knows the directory in which the commands run.
async fn holds_with(page: &str, change: impl FnOnce(Setup, &Path) -> Setup) {
    let exchanges = exchanges(page);
    assert!(!exchanges.is_empty(), "{page} has no console block");
    let (tools, scratch) = (tools(), scratch());
    let skills: PathBuf = scratch.path().join("worker/skills");
    let skills = skills.display().to_string();
    let setup = Setup::command(&["up", "--listen", "127.0.0.1:0", "--skills-dir", &skills]);
    // Pages show a machine without a browser.
    let setup = setup.with("OPENSKILL_BROWSER", "/nonexistent/chromium");
    let system = change(setup.data(&scratch.path().join("data")), scratch.path()).start().await;
    for Exchange { line, command, answer } in exchanges {
        // What starts or builds the system, or needs a container engine, has tests of its own.
        if ["make ", "git clone", "cd ", "export PATH", "deploy/"].iter().any(|it| command.starts_with(it)) {
            continue;
        }
        let got = run(&system, tools.path(), scratch.path(), &command).await;
        assert!(matches(&answer, &got), "{page}:{line}\n$ {command}\nwanted:\n{answer}\ngot:\n{got}");
    }
}

#[test]
fn only_an_ellipsis_matches_anything() {
    for (wanted, got, same) in [
        ("a b", "ab", true),
        ("a…c", "a b c", true),
        ("a…c…e", "abcde", true),
        ("a…c…e", "abde", false),
        ("a", "ab", false),
        ("…", "", true),
        ("{\"ms\":…,\"x\":1}", "{\"ms\": 17.2, \"x\": 1}", true),
        ("{\"ms\":…,\"x\":1}", "{\"ms\": 17.2, \"x\": 2}", false),
    ] {
        assert_eq!(matches(wanted, got), same, "{wanted} {got}");
    }
}

#[tokio::test]
async fn the_commands_in_the_readme_work() {
    holds("README.md").await;
}

#[tokio::test]
async fn the_commands_in_releases_md_work() {
    holds("docs/releases.md").await;
}

#[tokio::test]
async fn the_commands_in_agent_md_work() {
    holds("docs/agent.md").await;
}

/// The gateway starts with a file that the commands fill.
#[tokio::test]
async fn the_commands_in_identity_md_work() {
    let with_keys = |setup: Setup, folder: &Path| {
        let path = folder.join("keys.toml");
        let mut options = std::fs::File::options();
        std::os::unix::fs::OpenOptionsExt::mode(options.create_new(true).write(true), 0o600).open(&path).unwrap();
        setup.with("OPENSKILL_KEYS", path.display())
    };
    holds_with("docs/identity.md", with_keys).await;
}

#[tokio::test]
async fn the_commands_in_skills_md_work() {
    holds("docs/skills.md").await;
}

#[tokio::test]
async fn the_commands_in_exec_md_work() {
    holds("docs/runners/exec.md").await;
}

#[tokio::test]
async fn the_commands_in_calling_md_work() {
    holds("docs/calling.md").await;
}

#[tokio::test]
async fn the_commands_in_operations_md_work() {
    let with_store = |setup: Setup, _: &Path| setup.with("OPENSKILL_STORE", "operations.sqlite");
    holds_with("docs/operations.md", with_store).await;
}

#[tokio::test]
async fn the_commands_in_arguments_md_work() {
    holds("docs/arguments.md").await;
}

#[tokio::test]
async fn the_commands_in_tools_md_work() {
    holds("docs/tools.md").await;
}

#[test]
fn links_between_pages_resolve() {
    let outside = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "deploy/README.md"];
    let mut pages = outside.map(|page| repository().join(page)).to_vec();
    for folder in ["docs", "docs/runners", "docs/performance"] {
        pages.extend(std::fs::read_dir(repository().join(folder)).unwrap().flatten().map(|entry| entry.path()));
    }
    for page in pages.iter().filter(|page| page.extension().is_some_and(|it| it == "md")) {
        let text = std::fs::read_to_string(page).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap();
            if !file.is_empty() && !file.contains("://") {
                assert!(page.parent().unwrap().join(file).exists(), "{}: {target}", page.display());
            }
        }
    }
}

#[tokio::test]
async fn the_commands_in_resilience_md_work() {
    holds("docs/resilience.md").await;
}

#[tokio::test]
async fn the_commands_in_shipped_skills_md_work() {
    holds("docs/shipped-skills.md").await;
}

#[tokio::test]
async fn the_commands_in_code_tools_md_work() {
    holds("docs/code-tools.md").await;
}

#[tokio::test]
async fn the_commands_in_tool_index_md_work() {
    holds("docs/tool-index.md").await;
}

#[tokio::test]
async fn the_commands_in_command_line_md_work() {
    let with_store = |setup: Setup, _: &Path| setup.with("OPENSKILL_STORE", "operations.sqlite");
    holds_with("docs/command-line.md", with_store).await;
}

#[tokio::test]
async fn the_commands_in_recorder_md_work() {
    holds("docs/recorder.md").await;
}

#[tokio::test]
async fn the_commands_in_circuit_breakers_md_work() {
    holds("docs/circuit-breakers.md").await;
}

#[tokio::test]
async fn the_commands_in_load_balancing_md_work() {
    holds("docs/load-balancing.md").await;
}

#[tokio::test]
async fn the_commands_in_retries_and_idempotency_md_work() {
    holds("docs/retries-and-idempotency.md").await;
}

#[tokio::test]
async fn the_commands_in_draining_md_work() {
    holds("docs/draining.md").await;
}

#[tokio::test]
async fn the_commands_in_sessions_md_work() {
    holds("docs/runners/sessions.md").await;
}

#[tokio::test]
async fn the_commands_in_session_packages_md_work() {
    let folder = Folder::new();
    let module = "__version__ = '1.17.0'\nstring_types = (str,)\n";
    wheel::write(&folder.path().join("wheels"), "six", "1.17.0", module, &[]);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let allow = |setup: Setup, _: &Path| {
        setup
            .with("OPENSKILL_SESSION_PACKAGES", "six")
            .with("OPENSKILL_PYTHON_INDEX_URL", "none")
            .with("OPENSKILL_PYTHON_FIND_LINKS", path("wheels"))
            .with("OPENSKILL_PYTHON_ENVIRONMENTS", path("store"))
    };
    holds_with("docs/runners/session-packages.md", allow).await;
}

#[tokio::test]
async fn the_commands_in_inproc_md_work() {
    holds("docs/runners/inproc.md").await;
}
