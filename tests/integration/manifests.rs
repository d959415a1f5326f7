//! Manifests that change while the worker runs.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use openskill_proto::v1::{ChangeKind, WatchSkillsRequest};
use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, code, data, request};
use openskill_tests::wait::until;
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::json;

fn skills_with(folder: &Folder, files: &[(&str, &str)]) -> String {
    for (name, text) in files {
        folder.write(&format!("skills/{name}"), text);
    }
    folder.path().join("skills").display().to_string()
}

const SCRIPT: &str = "print('{\"version\": 1}')";
const MANIFEST: &str = "id: one\nversion: 1.0.0\ntype: cli\nruntime: python\nentry: one.py\n";

/// The manifest of a script in the same folder, of the same name.
fn manifest(id: &str) -> String {
    format!("id: {id}\ntype: cli\nruntime: python\nentry: {id}.py\nisolation: process\n")
}

/// A process that holds a write lease on a file until it is dropped.
struct Lease(Child);

impl Lease {
    fn take(file: &Path) -> Self {
        let program = "import fcntl, os, signal, sys\n\
            signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
            fcntl.fcntl(os.open(sys.argv[1], os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
            print('held', flush=True)\n\
            sys.stdin.read()";
        let mut python = Command::new("python3");
        let python = python.args(["-c", program]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        Self(child)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

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
    let line = system.process.log.line(&["invalid manifest", "broken.yaml"]).await;
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
    system.process.log.line(&["invalid manifest", "one.yaml"]).await;
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

#[tokio::test]
async fn what_is_no_plain_file_is_named_and_neither_read_nor_waited_for() {
    let folder = Folder::new();
    let skills = skills_with(&folder, &[("one.py", SCRIPT), ("one.yaml", MANIFEST)]);
    let at = |name: &str| Path::new(&skills).join(name);
    let shadow = folder.write("shadow", "root:$6$hash:19000:0:99999:7:::");
    mkfifoat(CWD, at("pipe.yaml"), Mode::RWXU).unwrap();
    mkfifoat(CWD, at("script.py"), Mode::RWXU).unwrap();
    symlink("/dev/zero", at("zero.yaml")).unwrap();
    symlink("/proc/kmsg", at("kmsg.json")).unwrap();
    symlink("/etc/shadow", at("shadow.yaml")).unwrap();
    symlink(&shadow, at("beside.yaml")).unwrap();
    std::fs::create_dir(at("tools")).unwrap();
    mkfifoat(CWD, at("tools/toolset.yaml"), Mode::RWXU).unwrap();
    symlink(folder.path(), at("elsewhere")).unwrap();
    folder.write("toolset.yaml", "root:$6$hash");

    let system = up(&skills).start().await;
    assert!(system.invoke(request("one", json!({}))).await.success);
    let log = &system.process.log;
    for (file, reason) in [
        ("pipe.yaml", "a named pipe"),
        ("tools/toolset.yaml", "a named pipe"),
        ("zero.yaml", "a symbolic link that leads out"),
        ("kmsg.json", "a symbolic link that leads out"),
        ("shadow.yaml", "a symbolic link that leads out"),
        ("beside.yaml", "a symbolic link that leads out"),
        ("elsewhere/toolset.yaml", "a symbolic link that leads out"),
    ] {
        log.line(&["invalid manifest", file, reason]).await;
    }

    // A script is refused by the skill that names it.
    folder.write("skills/script.yaml", manifest("script"));
    let refused = until("the new skill is there", PATIENCE, || async {
        let result = system.invoke(request("script", json!({}))).await;
        (code(&result) == "UNAVAILABLE").then_some(result)
    })
    .await;
    assert!(refused.error.unwrap().message.contains("'script.py' cannot be used: it is a named pipe"));

    // A manifest that becomes a pipe keeps its last good version, and other changes still take effect.
    std::fs::remove_file(at("one.yaml")).unwrap();
    mkfifoat(CWD, at("one.yaml"), Mode::RWXU).unwrap();
    log.line(&["invalid manifest", "one.yaml", "a named pipe"]).await;
    folder.write("skills/two.py", SCRIPT);
    folder.write("skills/two.yaml", manifest("two"));
    system.has_skill("two").await;
    for skill in ["one", "two"] {
        assert!(system.invoke(request(skill, json!({}))).await.success, "{skill}");
    }
    let (log, shadow) = (log.text(), std::fs::read_to_string("/etc/shadow").unwrap_or_default());
    let shown = shadow.lines().chain(["root:$6$hash"]).find(|line| log.contains(line));
    assert_eq!(shown, None, "{log}");
}

#[tokio::test]
async fn a_config_map_is_served_and_reloaded() {
    let folder = Folder::new();
    let mounted = |version: &str| {
        folder.write(&format!("skills/..{version}/one.py"), SCRIPT);
        folder.write(&format!("skills/..{version}/one.yaml"), MANIFEST.replace("1.0.0", version));
        folder.write(&format!("skills/..{version}/toolset.yaml"), "toolset: mounted");
        let (half, data) = (folder.path().join("skills/..half"), folder.path().join("skills/..data"));
        symlink(format!("..{version}"), &half).unwrap();
        std::fs::rename(half, data).unwrap();
    };
    mounted("1.0.0");
    let skills = folder.path().join("skills");
    for name in ["one.py", "one.yaml", "toolset.yaml"] {
        symlink(Path::new("..data").join(name), skills.join(name)).unwrap();
    }
    let system = up(&skills.display().to_string()).start().await;
    let skill = system.get("/skills/one").await.json();
    assert_eq!((skill["version"].as_str(), skill["toolset"].as_str()), (Some("1.0.0"), Some("mounted")));
    assert!(system.invoke(request("one", json!({}))).await.success);
    mounted("2.0.0");
    until("the new version is served", PATIENCE, || async {
        (system.get("/skills/one").await.json()["version"] == "2.0.0").then_some(())
    })
    .await;
    assert!(!system.process.log.text().contains("invalid manifest"), "{}", system.process.log.text());
}

#[tokio::test]
async fn a_lease_on_a_manifest_or_a_script_holds_nothing_up() {
    let folder = Folder::new();
    let skills = skills_with(&folder, &[("one.py", SCRIPT), ("one.yaml", MANIFEST), ("two.py", SCRIPT)]);
    let manifest_of_two = folder.write("skills/two.yaml", manifest("two"));
    let lease = Lease::take(&manifest_of_two);
    let system = up(&skills).start().await;
    system.process.log.line(&["invalid manifest", "two.yaml", "lease"]).await;
    assert!(system.invoke(request("one", json!({}))).await.success);
    assert_eq!(code(&system.invoke(request("two", json!({}))).await), "NOT_FOUND");
    drop(lease);
    system.has_skill("two").await;

    for script in ["one.py", "two.py"] {
        // One that was never started, and a fork server whose script was just written.
        folder.write(&format!("skills/{script}"), SCRIPT);
        let lease = Lease::take(&Path::new(&skills).join(script));
        let skill = script.trim_end_matches(".py");
        let result = system.invoke(request(skill, json!({}))).await;
        assert_eq!(code(&result), "UNAVAILABLE", "{result:?}");
        let error = result.error.unwrap();
        assert!(error.retryable && error.message.contains(script) && error.message.contains("lease"), "{error:?}");
        drop(lease);
        until("it starts again", PATIENCE, || async {
            system.invoke(request(skill, json!({}))).await.success.then_some(())
        })
        .await;
    }
}
