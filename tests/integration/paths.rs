//! Path attacks through the whole system: rejected without reading anything, and without a hang.

use std::os::unix::fs::symlink;

use openskill_tests::folder::Folder;
use openskill_tests::system::{Setup, System};
use serde_json::{Value, json};

/// An allowed root with traps in it, and secrets around it.
async fn trapped() -> (Folder, System) {
    let folder = Folder::new();
    let root = folder.path().join("data");
    folder.write("data/docs/plain.md", "a plain line with needle\n");
    folder.write("data-evil/secret.txt", "needle SECRET\n");
    folder.write("secret.txt", "needle SECRET\n");
    symlink(folder.path().join("secret.txt"), root.join("link.txt")).unwrap();
    symlink(folder.path(), root.join("up")).unwrap();
    symlink("/proc/self/root", root.join("everything")).unwrap();
    let fifo = root.join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let system = Setup::shipped().data(&root).start().await;
    (folder, system)
}

async fn refused((folder, system): &(Folder, System), skill: &str, input: Value) {
    let answer = system.call(skill, input.clone()).await;
    let shown = String::from_utf8_lossy(&answer.body).into_owned();
    let code = answer.code();
    assert!(["FORBIDDEN_PATH", "INVALID_ARGUMENT"].contains(&code.as_str()), "{skill} {input}: {shown}");
    assert!(!shown.contains("SECRET") && !shown.contains(folder.path().to_str().unwrap()), "{skill} {input}: {shown}");
}

const ATTACKS: [&str; 14] = [
    "..",
    "data/..",
    "./data/../secret.txt",
    "data/docs/../../secret.txt",
    "/etc",
    "/etc/passwd",
    "data-evil",
    "./data-evil/secret.txt",
    "data/link.txt",
    "data/up",
    "data/up/secret.txt",
    "/proc/self/root",
    "data/everything/etc/passwd",
    "data/do\u{0}cs",
];

#[tokio::test]
async fn file_search_stays_in_the_allowed_root() {
    let trap = trapped().await;
    let (_, system) = &trap;
    for path in ATTACKS.into_iter().chain(["data/fifo"]) {
        refused(&trap, "file_search", json!({"query": "needle", "root_dir": path})).await;
    }
    // A search skips the traps.
    let answer = system.call("file_search", json!({"query": "needle"})).await;
    assert_eq!(answer.json()["data"]["matches"].as_array().unwrap().len(), 1, "{answer:?}");
    for glob in ["../**", "/etc/*", "**/../../*"] {
        let answer = system.call("file_search", json!({"query": "needle", "glob": glob})).await;
        assert!(!String::from_utf8_lossy(&answer.body).contains("SECRET"), "{glob}");
    }
}

#[tokio::test]
async fn log_transform_reads_and_writes_only_in_the_allowed_root() {
    let trap = trapped().await;
    let (folder, _) = &trap;
    for path in ATTACKS.into_iter().chain(["data/fifo"]) {
        refused(&trap, "log_transform", json!({"input_path": path})).await;
    }
    let input = "data/docs/plain.md";
    for path in ["data/../out.jsonl", "/tmp/out.jsonl", "data/up/out.jsonl", "data-evil/out.jsonl"] {
        let input = json!({"input_path": input, "output": "file", "output_path": path});
        refused(&trap, "log_transform", input).await;
    }
    assert!(!folder.path().join("out.jsonl").exists());
    assert!(!folder.path().join("data-evil/out.jsonl").exists());
    assert_eq!(std::fs::read_to_string(folder.path().join("secret.txt")).unwrap(), "needle SECRET\n");
}
