//! `cli:exec`: each argument reaches the command line as one value, and a program's output becomes data as its manifest says.

use std::path::{Path, PathBuf};

use openskill_tests::folder::Folder;
use openskill_tests::repository;
use openskill_tests::require::{Need, skip};
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
    for (skill, word) in [("plain", "chmod +x"), ("gone", "does not exist")] {
        let reason = system.get(&format!("/skills/{skill}")).await.json()["status_reason"].to_string();
        assert!(reason.contains(word), "{reason}");
    }
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path().join("plain.sh"), executable).unwrap();
    system.has_skill("plain").await;
}

/// The file of a program, as a shell finds it.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A system with one program of the machine: `exec` is that block of its manifest.
async fn with_program(folder: &Folder, program: &str, exec: &Value, parameters: &Value) -> System {
    let entry = on_path(program).unwrap_or_else(|| panic!("{program} is on every machine"));
    let manifest = json!({
        "id": "tool", "type": "cli", "runtime": "exec", "entry": entry, "exec": exec, "parameters": parameters,
    });
    folder.write("tool.json", manifest.to_string());
    let skills = folder.path().display().to_string();
    let setup = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills]);
    setup.start().await
}

#[tokio::test]
async fn a_program_that_knows_no_contract_takes_a_parameter_on_stdin_and_prints_lines() {
    let folder = Folder::new();
    let exec = json!({"args": ["--numeric-sort"], "stdin": "{text}", "output": "lines"});
    let system = with_program(&folder, "sort", &exec, &json!({"text": {"type": "string"}})).await;
    let sorted = system.invoke(request("tool", json!({"text": "10\n9\n2"}))).await;
    assert_eq!(data(&sorted), json!(["2", "9", "10"]));
    assert_eq!(data(&system.invoke(request("tool", json!({}))).await), json!([]), "nothing is given");
    let long = "x\n".repeat(200_000);
    let many = system.invoke(request("tool", json!({ "text": long }))).await;
    assert_eq!(data(&many).as_array().unwrap().len(), 200_000);
}

#[tokio::test]
async fn the_manifest_says_which_exit_codes_are_a_success_and_which_blame_the_caller() {
    let folder = Folder::new();
    let exec = json!({
        "args": ["-E", "--", "{pattern}"], "stdin": "{text}", "output": "text",
        "ok_exits": [0, 1], "invalid_exits": [2], "show_stderr": true,
    });
    let parameters = json!({"pattern": {"type": "string", "required": true}, "text": {"type": "string"}});
    let system = with_program(&folder, "grep", &exec, &parameters).await;
    let grep =
        async |pattern: &str| system.invoke(request("tool", json!({"pattern": pattern, "text": "a\nb\nab"}))).await;
    assert_eq!(data(&grep("a").await), json!("a\nab"));
    assert_eq!(data(&grep("c").await), json!(""), "grep ends with 1 if no line matches");
    // Three failures of a skill open its circuit for the session; those of callers do not.
    for _ in 0..4 {
        let wrong = grep("(").await;
        assert_eq!(code(&wrong), "INVALID_ARGUMENT", "{wrong:?}");
        assert!(wrong.error.unwrap().message.contains("exit code 2: "), "it says what grep said");
    }
    assert_eq!(data(&grep("b").await), json!("b\nab"));
}

#[tokio::test]
async fn json_that_a_program_prints_is_the_data_and_not_a_report() {
    let folder = Folder::new();
    let exec = json!({"stdin": "{value}", "output": "json"});
    let system = with_program(&folder, "cat", &exec, &json!({"value": {}})).await;
    let cat = async |value: Value| system.invoke(request("tool", json!({ "value": value }))).await;
    for value in [json!({"success": false, "n": 12_345_678_901_234_567_u64}), json!([1, "é"]), json!(5)] {
        assert_eq!(data(&cat(value.clone()).await), value);
    }
    assert_eq!(data(&cat(json!("{\"a\": 1}")).await), json!({"a": 1}), "a string is given as it is");
    let two = cat(json!("1 2")).await;
    assert_eq!(code(&two), "EXECUTION_ERROR");
    assert!(two.error.unwrap().message.contains("more than one JSON value"));
}

/// The manifests of programs on a page, by the name of the program.
fn manifests(page: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(page).unwrap();
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let program = |block: &str| {
        let entry = block.lines().find_map(|line| line.strip_prefix("entry: /usr/bin/"))?;
        Some((entry.to_owned(), block.to_owned()))
    };
    blocks.filter_map(program).collect()
}

#[tokio::test]
async fn the_programs_in_the_docs_work_as_skills() {
    let found = manifests(&repository().join("docs/runners/exec.md"));
    let names: Vec<_> = found.iter().map(|(program, _)| program.as_str()).collect();
    assert_eq!(names, ["rg", "jq", "wc"]);
    for (program, manifest) in &found {
        let Some(entry) = on_path(program) else {
            skip(Need::Programs, &format!("{program} is not on the PATH"));
            continue;
        };
        let folder = Folder::new();
        let manifest = manifest.replace(&format!("/usr/bin/{program}"), &entry.display().to_string());
        folder.write("tool.yaml", manifest);
        let skills = folder.path().display().to_string();
        let mut check = Setup::command(&["check", "--skills-dir", &skills]).data(&repository().join("data")).spawn();
        let status = check.ended().await;
        assert!(status.success(), "{program}: {}{}", check.output.text(), check.log.text());
        check.output.line(&["ok", "example"]).await;
    }
}
