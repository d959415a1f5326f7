//! `cli:exec`: each argument reaches the command line as one value.

use openskill_tests::folder::Folder;
use openskill_tests::system::{Setup, System, code, data, request};
use serde_json::{Value, json};

/// A program that prints its command line as JSON.
const TELLS: &str = "#!/bin/sh\nprintf '['\nseparator=''\nfor it in \"$@\"; do printf '%s\"%s\"' \"$separator\" \"$it\"; \
                     separator=', '; done\nprintf ']'\n";

async fn start(folder: &Folder) -> System {
    use std::os::unix::fs::PermissionsExt as _;
    let program = folder.write("tells.sh", TELLS);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let manifest = |id: &str, args: Value| {
        folder.write(
            &format!("{id}.yaml"),
            format!("id: {id}\ntype: cli\nruntime: exec\nentry: tells.sh\nexec: {{args: {args}}}\n"),
        );
    };
    manifest("tells", json!(["-v", "--size={size}", "{path}"]));
    manifest("tells_after", json!(["--", "{path}"]));
    let skills = folder.path().display().to_string();
    Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills]).start().await
}

#[tokio::test]
async fn every_value_is_exactly_one_command_line_element() {
    let folder = Folder::new();
    let system = start(&folder).await;
    let odd = "$(id) ; rm -rf / | `x` && *";
    let result = system.invoke(request("tells", json!({"size": -3, "path": odd}))).await;
    assert_eq!(data(&result), json!(["-v", "--size=-3", odd]));
    let list = system.invoke(request("tells", json!({"path": ["a b", "c"]}))).await;
    assert_eq!(data(&list), json!(["-v", "a b", "c"]));
}

#[tokio::test]
async fn a_value_cannot_become_an_option() {
    let folder = Folder::new();
    let system = start(&folder).await;
    for path in [json!("--exec=sh"), json!("-rf"), json!(["ok", "-x"])] {
        let result = system.invoke(request("tells", json!({ "path": path }))).await;
        assert_eq!(code(&result), "INVALID_ARGUMENT", "{result:?}");
        assert!(result.error.unwrap().message.contains("option"));
    }
    let after = system.invoke(request("tells_after", json!({"path": "--exec=sh"}))).await;
    assert_eq!(data(&after), json!(["--", "--exec=sh"]));
}

#[tokio::test]
async fn a_flood_on_stderr_is_truncated_to_its_end() {
    let folder = Folder::new();
    folder.write("floods.py", "import sys\nfor _ in range(500):\n    sys.stderr.write('x' * 100_000)\nprint(1)\n");
    let system = start(&folder).await;
    let result = system.invoke(request("floods", json!({}))).await;
    assert_eq!(data(&result), json!(1));
    let [worker] = system.worker_pids()[..] else { panic!("one worker") };
    let kib = openskill_tests::processes::resident_kib(worker).unwrap();
    assert!(kib < 200 * 1024, "{kib}");
}

#[tokio::test]
async fn a_missing_or_not_executable_program_makes_the_skill_unavailable() {
    let folder = Folder::new();
    folder.write("plain.sh", "#!/bin/sh\necho 1\n");
    folder.write("plain.yaml", "id: plain\ntype: cli\nruntime: exec\nentry: plain.sh\n");
    folder.write("gone.yaml", "id: gone\ntype: cli\nruntime: exec\nentry: gone.sh\n");
    let system = start(&folder).await;
    for (skill, word) in [("plain", "chmod +x"), ("gone", "not there")] {
        let reason = system.get(&format!("/skills/{skill}")).await.json()["status_reason"].to_string();
        assert!(reason.contains(word), "{reason}");
    }
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path().join("plain.sh"), executable).unwrap();
    system.has_skill("plain").await;
}
