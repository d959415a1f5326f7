//! Manifests that change while the worker runs.

use std::path::Path;

use openskill_proto::v1::{ChangeKind, WatchSkillsRequest};
use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, code, data, request};
use openskill_tests::wait::until;
use serde_json::json;

fn skills_with(folder: &Folder, files: &[(&str, &str)]) -> String {
    for (name, text) in files {
        folder.write(&format!("skills/{name}"), text);
    }
    folder.path().join("skills").display().to_string()
}

const SCRIPT: &str = "print('{\"version\": 1}')";
const MANIFEST: &str = "id: one\nversion: 1.0.0\ntype: cli\nruntime: python\nentry: one.py\n";

fn up(skills: &str) -> Setup {
    Setup::command(&["up", "--listen", "127.0.0.1:0", "--skills-dir", skills])
}

#[tokio::test]
async fn a_change_on_disk_takes_effect_without_a_restart() {
    let folder = Folder::new();
    let skills = skills_with(&folder, &[("one.py", SCRIPT), ("one.yaml", MANIFEST)]);
    let system = up(&skills).start().await;
    let mut watch = system.skills().await.watch_skills(WatchSkillsRequest::default()).await.unwrap().into_inner();
    assert!(watch.message().await.unwrap().unwrap().snapshot_complete);

    folder.write("skills/one.py", "print('{\"version\": 2}')");
    folder.write("skills/one.yaml", MANIFEST.replace("1.0.0", "2.0.0"));
    // A file that is read while it is written causes an update of its own.
    loop {
        let change = watch.message().await.unwrap().unwrap();
        assert_eq!(change.kind(), ChangeKind::Updated);
        if change.skill.unwrap().version == "2.0.0" {
            break;
        }
    }
    assert_eq!(data(&system.invoke(request("one", json!({}))).await), json!({"version": 2}));

    folder.write("skills/two.py", "print('{\"two\": true}')");
    until("the new script is served", PATIENCE, || async {
        system.invoke(request("two", json!({}))).await.success.then_some(())
    })
    .await;
    std::fs::remove_file(Path::new(&skills).join("two.py")).unwrap();
    until("the removed script is gone", PATIENCE, || async {
        (code(&system.invoke(request("two", json!({}))).await) == "NOT_FOUND").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_bad_manifest_is_reported_with_file_line_and_reason_and_the_others_load() {
    let system = Setup::up().start().await;
    let line = system.process.log.line(&["bad manifest", "broken.yaml"]).await;
    assert!(line.contains("line=5") && line.contains("colour"), "{line}");
    assert!(system.invoke(request("in_echo", json!({}))).await.success);
    assert_eq!(code(&system.invoke(request("broken", json!({}))).await), "NOT_FOUND");
}

#[tokio::test]
async fn a_temporarily_broken_manifest_keeps_its_last_good_version() {
    let folder = Folder::new();
    let manifest = MANIFEST.replace("entry: one.py", "entry: hidden.py");
    let skills = skills_with(&folder, &[("hidden.py", SCRIPT), ("one.yaml", &manifest)]);
    let system = up(&skills).start().await;
    folder.write("skills/one.yaml", &manifest[..20]);
    system.process.log.line(&["bad manifest", "one.yaml"]).await;
    assert!(system.invoke(request("one", json!({}))).await.success);
    assert_eq!(code(&system.invoke(request("hidden", json!({}))).await), "NOT_FOUND");
    folder.write("skills/one.yaml", manifest.replace("1.0.0", "3.0.0"));
    until("the fixed manifest takes effect", PATIENCE, || async {
        (system.get("/skills/one").await.json()["version"] == "3.0.0").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_script_that_appears_later_makes_its_skill_available() {
    let folder = Folder::new();
    let manifest = MANIFEST.replace("entry: one.py", "entry: below/one.py");
    let skills = skills_with(&folder, &[("one.yaml", &manifest)]);
    let system = up(&skills).start().await;
    assert_eq!(code(&system.invoke(request("one", json!({}))).await), "UNAVAILABLE");
    folder.write("skills/below/one.py", SCRIPT);
    until("it can run", PATIENCE, || async { system.invoke(request("one", json!({}))).await.success.then_some(()) })
        .await;
}

#[tokio::test]
async fn an_unavailable_skill_is_listed_and_answers_with_its_reason() {
    let system = Setup::up().start().await;
    let skill = system.get("/skills/no_such_runner").await.json();
    assert_eq!(skill["status"], "unavailable");
    assert!(skill["status_reason"].as_str().unwrap().contains("quantum"), "{skill}");
    let result = system.invoke(request("no_such_runner", json!({}))).await;
    assert_eq!(code(&result), "UNAVAILABLE");
    assert!(result.error.unwrap().message.contains("quantum"));
}

#[tokio::test]
async fn without_python_only_python_skills_are_unavailable() {
    let system = Setup::up().with("OPENSKILL_PYTHON", "/nonexistent/python").start().await;
    let result = system.invoke(request("hello", json!({}))).await;
    assert_eq!(code(&result), "UNAVAILABLE");
    assert!(result.error.unwrap().message.contains("OPENSKILL_PYTHON"));
    assert!(system.invoke(request("in_echo", json!({}))).await.success);
}

#[tokio::test]
async fn a_script_without_a_manifest_gets_unchecked_arguments() {
    let system = Setup::up().start().await;
    let result = system.invoke(request("hello", json!({"any": ["thing"]}))).await;
    assert_eq!(data(&result), json!({"hello": {"any": ["thing"]}}));
}
