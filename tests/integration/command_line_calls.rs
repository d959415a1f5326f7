//! `openskill invoke` on calls that ask or produce artifacts, and commands of operators on an address of their own.

use std::path::Path;
use std::process::{Output, Stdio};

use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::system::{Setup, System};
use openskill_tests::{binary, fixtures, repository};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

async fn start() -> System {
    let system =
        Setup::with_skills(&[&fixtures(), &repository().join("worker/skills")]).flag("--workers", 1).start().await;
    system.has_skill("asks").await;
    system
}

/// Runs `openskill` with these lines on stdin.
async fn run(url: &str, arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(binary())
        .args(arguments)
        .env("OPENSKILL_HTTP_BASE_URL", url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).await.unwrap();
    tokio::time::timeout(openskill_tests::system::PATIENCE, child.wait_with_output()).await.expect("it ends").unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[tokio::test]
async fn invoke_writes_artifacts_byte_for_byte_and_keeps_existing_files() {
    let (system, folder) = (start().await, Folder::new());
    let directory = folder.path().join("pictures");
    let shown = directory.display().to_string();
    // By value, then by a handle that takes several ranges.
    for (size, file) in [(1000, "plot.png"), (3_000_000, "plot-1.png")] {
        let size_text = format!("bytes={size}");
        let ran = run(&system.url(), &["invoke", "draws", &size_text, "--artifacts", &shown], "").await;
        assert!(ran.status.success(), "{}", stderr(&ran));
        let line = format!("artifact: plot.png (image/png, {size} bytes) -> {shown}/{file}\n");
        assert!(stderr(&ran).contains(&line), "{}", stderr(&ran));
        let written = bytes(&directory.join(file));
        assert!(written.len() == size && written.starts_with(b"\x89PNG\r\n\x1a\n\x00\x01\x02"), "{file}");
        assert!(written[8..].iter().zip((0..=250_u8).cycle()).all(|(got, wanted)| *got == wanted), "{file}");
    }
    assert_eq!(bytes(&directory.join("plot.png")).len(), 1000);
    let listed = run(&system.url(), &["invoke", "draws", "bytes=10"], "").await;
    assert!(stderr(&listed).contains("artifact: plot.png (image/png, 10 bytes)\n"), "{}", stderr(&listed));
}

#[tokio::test]
async fn invoke_asks_until_the_answer_is_valid() {
    let system = start().await;
    let schema = json!({
        "type": "object",
        "properties": {
            "file": {"type": "string", "minLength": 3},
            "count": {"type": "integer", "title": "How many"},
            "colour": {"enum": ["red", "green"]},
            "sure": {"type": "boolean"},
        },
        "required": ["file", "count"],
    });
    let call = json!({"message": "Which file?", "schema": schema}).to_string();
    let arguments = ["invoke", "asks", "--interactive", "--json", &call];
    // A required field left empty, a count that is no number; then a file name that only the worker rejects.
    let lines = "\nab\nmany\n5\ngreen\nyes\n".to_owned() + "a.txt\n5\n\nno\n";
    let ran = run(&system.url(), &arguments, &lines).await;
    let told = stderr(&ran);
    assert!(ran.status.success(), "{told}");
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(answer, json!({"file": "a.txt", "count": 5, "sure": false}));
    for expected in ["Which file?\n", "file (text): ", "How many (whole number): ", "colour (red, green; optional): "] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert!(told.contains("a value is required") && told.contains("enter a whole number"), "{told}");
}

#[tokio::test]
async fn the_end_of_the_input_declines_and_without_a_terminal_nobody_is_asked() {
    let system = start().await;
    let call = json!({"message": "Which file?"}).to_string();
    let declined = run(&system.url(), &["invoke", "asks", "--interactive", "--json", &call], "").await;
    assert_eq!(serde_json::from_slice::<Value>(&declined.stdout).unwrap(), json!({"declined": "decline"}));
    let unasked = run(&system.url(), &["invoke", "asks", "--json", &call], "{}\n").await;
    assert_eq!(unasked.status.code(), Some(1));
    assert!(stderr(&unasked).contains("ASK_USER_UNAVAILABLE: "), "{}", stderr(&unasked));
}

#[tokio::test]
async fn with_an_admin_address_the_public_one_does_not_serve_admin_service() {
    let port = Port::reserve();
    let system = Setup::shipped().flag("--admin-listen", port.address()).start().await;
    let admin = format!("http://{}", port.address());
    let refused = run(&system.url(), &["workers"], "").await;
    assert_eq!(refused.status.code(), Some(3));
    assert!(stderr(&refused).contains("--url"), "{}", stderr(&refused));
    let listed = run(&admin, &["workers"], "").await;
    assert!(listed.status.success() && listed.stdout.starts_with(b"ID "), "{}", stderr(&listed));
    assert_eq!(run(&admin, &["skills"], "").await.status.code(), Some(3));
    assert!(run(&system.url(), &["skills"], "").await.status.success());
}
