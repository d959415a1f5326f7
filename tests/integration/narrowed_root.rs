//! Skills whose root is a folder in the root of others, who replace that folder.
//!
//! `data/docs` is the root of every skill here but one, `whole`, which may do anything in `data`.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use openskill_proto::v1::{InvokeRequest, SkillResult};
use openskill_tests::binary;
use openskill_tests::containers::{Image, gone};
use openskill_tests::folder::Folder;
use openskill_tests::repository;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use rustix::process::geteuid;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::jail::{new_user, whole_jail};

const PYTHON: &str = include_str!("../fixtures/narrowed/looks.py");
const SHELL: &str = include_str!("../fixtures/narrowed/looks.sh");

/// Where a link may lead: out of the worker's root, to a neighbour, and to the root itself.
const TARGETS: [&str; 3] = ["../outside", "private", "."];

/// The skills that are scripts and programs: all ways to start one.
const LOOKING: [&str; 5] = ["fresh", "forked", "shared", "free", "program"];

/// Where the container engine listens.
const ENGINE: &str = "/var/run/docker.sock";

/// A name that nothing else has.
fn own(name: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{name}_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// The folders, and the skills that look into them.
struct Stage {
    folder: Folder,
    system: System,
}

fn prepare() -> Folder {
    let folder = Folder::new();
    for (place, text) in [("data/docs", "plain"), ("data/private", "CANARY"), ("outside", "CANARY"), ("data", "CANARY")]
    {
        folder.write(&format!("{place}/text"), text);
    }
    folder.write("skills/looks.py", PYTHON);
    let program = folder.write("skills/looks.sh", SHELL);
    std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    let python = |more: &str| format!("type: cli\nruntime: python\nentry: looks.py\n{more}");
    let narrowed = |more: &str| python(&format!("allowed_root: ./data/docs\n{more}"));
    for (id, rest) in [
        ("whole", python("isolation: process")),
        ("fresh", narrowed("isolation: process")),
        ("forked", narrowed("isolation: fork")),
        ("shared", narrowed("isolation: shared")),
        ("free", narrowed("jail: \"off\"")),
        ("program", "type: cli\nruntime: exec\nentry: looks.sh\nallowed_root: ./data/docs".to_owned()),
    ] {
        folder.write(&format!("skills/{id}.yaml"), format!("id: {id}\n{rest}\n"));
    }
    folder
}

fn setup(folder: &Folder) -> Setup {
    let own = folder.path().join("skills").display().to_string();
    // With the library of the skills that ship.
    let shipped = repository().join("worker/skills").display().to_string();
    let folders = format!("{own}:{shipped}");
    Setup::command(&["up", "--workers", "1", "--listen", "127.0.0.1:0", "--skills-dir", &folders])
        .data(&folder.path().join("data"))
}

impl Stage {
    async fn new() -> Self {
        let folder = prepare();
        let system = setup(&folder).start().await;
        Self { folder, system }
    }

    async fn call(&self, skill: &str, input: Value) -> SkillResult {
        // Each call in a session of its own: circuit breakers are not the subject.
        let session_id = own("session");
        self.system.invoke(InvokeRequest { timeout_ms: 20_000, session_id, ..request(skill, input) }).await
    }

    async fn looks(&self, skill: &str) -> (String, String) {
        let result = self.call(skill, json!({})).await;
        assert_eq!(code(&result), "", "{skill}: {result:?}\n{}", self.system.process.log.text());
        let told = data(&result);
        let text = |key: &str| told[key].as_str().unwrap().to_owned();
        (text("read"), text("write"))
    }

    async fn works(&self, skills: &[&str], text: &str) {
        for skill in skills {
            assert_eq!(self.looks(skill).await, (text.to_owned(), "done".to_owned()), "{skill}");
        }
    }

    /// The skill with the whole root puts a link in the place of `data/docs`.
    async fn replace_docs(&self, target: &str) {
        let result = self.call("whole", json!({ "link": target })).await;
        assert_eq!(code(&result), "", "{result:?}\n{}", self.system.process.log.text());
        assert!(self.folder.path().join("data/docs").is_symlink());
    }

    fn restore_docs(&self) {
        let docs = self.folder.path().join("data/docs");
        std::fs::remove_file(&docs).unwrap();
        std::fs::rename(docs.with_file_name("before"), docs).unwrap();
        let _ = std::fs::remove_file(self.folder.path().join("data/new"));
    }

    /// The skill does not run, the error says why, and nothing was read or written through the link.
    async fn refused(&self, skill: &str, input: Value) {
        let result = self.call(skill, input).await;
        let message = result.error.as_ref().map_or("", |it| &it.message);
        assert_eq!(code(&result), "TOOL_INVOCATION_ERROR", "{skill}: {result:?}\n{}", self.system.process.log.text());
        let expected = format!("allowed_root data/docs of skill {skill} is not a plain folder");
        assert!(message.contains(&expected) && message.contains("symbolic link"), "{message}");
        let shown = format!("{result:?}");
        assert!(!shown.contains("CANARY") && !shown.contains(self.folder.path().to_str().unwrap()), "{shown}");
        for place in ["outside", "data/private"] {
            let mut names: Vec<_> = std::fs::read_dir(self.folder.path().join(place)).unwrap().flatten().collect();
            assert_eq!((names.len(), names.pop().unwrap().file_name().to_str()), (1, Some("text")), "{skill} {place}");
        }
    }
}

#[tokio::test]
async fn a_link_in_place_of_a_narrowed_root_is_not_followed() {
    let stage = Stage::new().await;
    for target in TARGETS {
        // Fork servers and interpreters are started, with the folder that is moved away then.
        stage.works(&LOOKING, "plain").await;
        stage.replace_docs(target).await;
        for skill in LOOKING {
            stage.refused(skill, json!({})).await;
        }
        stage.restore_docs();
    }
    stage.works(&LOOKING, "plain").await;
}

#[tokio::test]
async fn a_link_is_not_followed_by_the_first_call_either() {
    let stage = Stage::new().await;
    stage.replace_docs("../outside").await;
    for skill in LOOKING {
        stage.refused(skill, json!({})).await;
    }
}

#[tokio::test]
async fn another_folder_in_its_place_is_the_root_from_then_on() {
    let stage = Stage::new().await;
    stage.works(&LOOKING, "plain").await;
    let result = stage.call("whole", json!({"folder": true})).await;
    assert_eq!(code(&result), "", "{result:?}");
    // Skills of another user than the one that made it may read it.
    let made = stage.folder.path().join("data/docs");
    std::fs::set_permissions(made, PermissionsExt::from_mode(0o777)).unwrap();
    stage.works(&LOOKING, "new").await;
}

#[tokio::test]
async fn a_manifest_that_is_read_again_does_not_follow_the_link() {
    let stage = Stage::new().await;
    stage.replace_docs("private").await;
    let manifest = stage.folder.path().join("skills/fresh.yaml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, format!("{text}# changed\n")).unwrap();
    stage.system.process.log.line(&["invalid manifest", "fresh.yaml", "symbolic link"]).await;
    let result = stage.call("fresh", json!({})).await;
    assert!(!code(&result).is_empty() && !format!("{result:?}").contains("CANARY"), "{result:?}");
}

#[tokio::test]
async fn the_shipped_skills_do_not_follow_it() {
    let folder = prepare();
    for id in ["file_search", "log_transform"] {
        let shipped = |kind: &str| repository().join(format!("worker/skills/{id}.{kind}"));
        let manifest = std::fs::read_to_string(shipped("yaml")).unwrap();
        let narrowed = manifest.replace("allowed_root: ./data\n", "allowed_root: ./data/docs\n");
        assert_ne!(manifest, narrowed);
        folder.write(&format!("skills/{id}.yaml"), narrowed);
        folder.write(&format!("skills/{id}.py"), std::fs::read(shipped("py")).unwrap());
    }
    let system = setup(&folder).start().await;
    let stage = Stage { folder, system };
    let calls = [
        ("file_search", json!({"query": "n"})),
        ("log_transform", json!({"input_path": "data/docs/text"})),
        ("log_transform", json!({"input_path": "data/docs/text", "output": "file"})),
    ];
    let result = stage.call("file_search", json!({"query": "plain"})).await;
    assert_eq!(data(&result)["matches"][0]["path"], "data/docs/text", "{result:?}");
    for target in TARGETS {
        stage.replace_docs(target).await;
        for (skill, input) in &calls {
            stage.refused(skill, input.clone()).await;
        }
        stage.restore_docs();
    }
    let result = stage.call("log_transform", json!({"input_path": "data/docs/text", "output": "file"})).await;
    assert_eq!(data(&result)["output_path"], "data/docs/out/text.jsonl", "{result:?}");
}

#[tokio::test]
async fn a_container_does_not_get_the_target_of_the_link() {
    let Some(image) = Image::or_skip() else { return };
    let folder = prepare();
    // The container's user has no rights on the host.
    for place in ["data/docs", "data/private", "outside"] {
        std::fs::set_permissions(folder.path().join(place), PermissionsExt::from_mode(0o777)).unwrap();
    }
    let id = own("contained");
    let script = Value::from(SHELL.trim_start_matches("#!/bin/sh\n"));
    let settings = format!("command: [/bin/sh, -c, {script}], mount_root: rw");
    folder.write("skills/contained.yaml", image.with_settings(&id, &settings, "allowed_root: ./data/docs"));
    let system = setup(&folder).start().await;
    let stage = Stage { folder, system };
    stage.works(&[&id], "plain").await;
    assert!(stage.folder.path().join("data/docs/new").exists());
    for target in TARGETS {
        stage.replace_docs(target).await;
        stage.refused(&id, json!({})).await;
        stage.restore_docs();
    }
    stage.works(&[&id], "plain").await;
}

/// Passes everything on to the engine, and does something before and after it starts a container.
async fn engine_with(
    socket: &Path,
    before: impl Fn() + Send + Sync + 'static,
    after: impl Fn() + Send + Sync + 'static,
) {
    let listener = tokio::net::UnixListener::bind(socket).unwrap();
    let (before, after) = (Arc::new(before), Arc::new(after));
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (before, after) = (Arc::clone(&before), Arc::clone(&after));
            tokio::spawn(async move {
                let mut engine = UnixStream::connect(ENGINE).await.unwrap();
                let mut head = vec![0; 16 * 1024];
                let count = client.read(&mut head).await.unwrap();
                let starts = String::from_utf8_lossy(&head[..count]).lines().next().unwrap().contains("/start ");
                if starts {
                    before();
                }
                engine.write_all(&head[..count]).await.unwrap();
                let count = engine.read(&mut head).await.unwrap();
                if starts {
                    after();
                }
                // Nobody waits any more for what a cancelled request gets.
                let _ = client.write_all(&head[..count]).await;
                let _ = tokio::io::copy_bidirectional(&mut client, &mut engine).await;
            });
        }
    });
}

/// A container that starts while its root is being replaced, and what became of the call.
async fn call_with(image: &Image, before: fn(&Path), after: fn(&Path)) -> (SkillResult, Folder) {
    let folder = prepare();
    for place in ["data/docs", "outside"] {
        std::fs::set_permissions(folder.path().join(place), PermissionsExt::from_mode(0o777)).unwrap();
    }
    let id = own("swapped");
    // It writes when it has its arguments.
    let script = Value::from(format!("cat > /tmp/arguments\n{SHELL}"));
    let settings = format!("command: [/bin/sh, -c, {script}], mount_root: rw");
    folder.write("skills/swapped.yaml", image.with_settings(&id, &settings, "allowed_root: ./data/docs"));
    let (socket, docs) = (folder.path().join("engine.sock"), folder.path().join("data/docs"));
    let same = docs.clone();
    engine_with(&socket, move || before(&docs), move || after(&same)).await;
    let host = format!("unix://{}", socket.display());
    let stage = Stage { system: setup(&folder).with("OPENSKILL_DOCKER_HOST", host).start().await, folder };
    let result = stage.call(&id, json!({})).await;
    gone(&id, PATIENCE).await;
    (result, stage.folder)
}

fn put_link(docs: &Path) {
    std::fs::rename(docs, docs.with_file_name("before")).unwrap();
    std::os::unix::fs::symlink("../outside", docs).unwrap();
}

fn put_back(docs: &Path) {
    std::fs::remove_file(docs).unwrap();
    std::fs::rename(docs.with_file_name("before"), docs).unwrap();
}

#[tokio::test]
async fn a_link_that_is_there_while_a_container_starts_is_noticed() {
    if !geteuid().is_root() || !Path::new(ENGINE).exists() {
        return skip(Need::Docker, "only root sees what a container has, of an engine at its usual place");
    }
    let Some(image) = Image::or_skip() else { return };
    // The control: the engine is asked through the test.
    let (result, folder) = call_with(&image, |_| (), |_| ()).await;
    assert_eq!((code(&result), &data(&result)["read"]), ("", &json!("plain")), "{result:?}");
    assert!(folder.path().join("data/docs/new").exists());
    // With the folder back in its place, only the container shows that it got another.
    let cases: [(fn(&Path), _); 2] = [(put_back, "replaced while its container started"), (|_| (), "symbolic link")];
    for (after, reason) in cases {
        let (result, folder) = call_with(&image, put_link, after).await;
        assert_eq!(code(&result), "TOOL_INVOCATION_ERROR", "{result:?}");
        assert!(result.error.as_ref().unwrap().message.contains(reason), "{result:?}");
        assert!(!format!("{result:?}").contains("CANARY"), "{result:?}");
        assert!(!folder.path().join("outside/new").exists());
    }
}

#[tokio::test]
async fn an_unprivileged_worker_does_not_follow_it() {
    let python = Path::new("/usr/bin/python3");
    if !geteuid().is_root() || !python.exists() {
        return skip(Need::Jail, "an unprivileged worker needs root, who becomes another user, and /usr/bin/python3");
    }
    let (folder, uid) = (prepare(), new_user());
    for place in ["data", "data/docs", "data/docs/text", "data/private", "data/private/text", "outside", "outside/text"]
    {
        chown(folder.path().join(place), Some(uid), Some(uid)).unwrap();
    }
    let user = uid.to_string();
    let through = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
    let reached = std::process::Command::new(through[0]).args(&through[1..]).arg(binary()).arg("--version").output();
    if !reached.is_ok_and(|it| it.status.success()) {
        return skip(Need::Jail, &format!("another user cannot start {}", binary().display()));
    }
    let system = setup(&folder).with("OPENSKILL_PYTHON", python.display()).through(&through).start().await;
    let stage = Stage { folder, system };
    for target in TARGETS {
        stage.works(&LOOKING, "plain").await;
        stage.replace_docs(target).await;
        for skill in LOOKING {
            stage.refused(skill, json!({})).await;
        }
        stage.restore_docs();
    }
}

#[tokio::test]
async fn a_readable_path_below_the_root_of_others_is_not_followed_either() {
    if !whole_jail().await {
        return;
    }
    let folder = prepare();
    let private = folder.path().join("data/private");
    let text = std::fs::read_to_string(folder.path().join("skills/fresh.yaml")).unwrap();
    folder.write("skills/fresh.yaml", format!("{text}readable: [{}]\n", private.display()));
    let stage = Stage { system: setup(&folder).start().await, folder };
    let see = json!({"see": private.join("text")});
    let result = stage.call("fresh", see.clone()).await;
    assert_eq!(data(&result)["see"], "CANARY", "it is readable: {result:?}");
    std::fs::rename(&private, private.with_file_name("moved")).unwrap();
    std::os::unix::fs::symlink("../outside", &private).unwrap();
    let result = stage.call("fresh", see).await;
    // Refused, or not there in a root of its own.
    assert!(["EACCES", "ENOENT"].contains(&data(&result)["see"].as_str().unwrap()), "{result:?}");
}

#[tokio::test]
async fn a_chmod_of_the_root_gives_later_skills_no_capability() {
    let python = Path::new("/usr/bin/python3");
    if !python.exists() || !whole_jail().await {
        return;
    }
    let (folder, uid) = (prepare(), new_user());
    for place in ["data", "data/text", "data/docs", "data/docs/text"] {
        chown(folder.path().join(place), Some(uid), Some(uid)).unwrap();
    }
    let system =
        setup(&folder).with("OPENSKILL_SKILL_USER", uid).with("OPENSKILL_PYTHON", python.display()).start().await;
    let stage = Stage { folder, system };
    let calls =
        [("whole", json!({"mode": 0})), ("fresh", json!({})), ("whole", json!({"mode": 0o755})), ("fresh", json!({}))];
    for (skill, input) in calls {
        let result = stage.call(skill, input).await;
        assert_eq!((code(&result), &data(&result)["capabilities"]), ("", &json!(0)), "{skill}: {result:?}");
    }
}

#[tokio::test]
async fn a_worker_whose_root_was_replaced_starts_nothing_in_another() {
    let stage = Stage::new().await;
    let top = stage.folder.path();
    std::fs::rename(top.join("data"), top.join("moved")).unwrap();
    std::os::unix::fs::symlink("outside", top.join("data")).unwrap();
    for skill in ["whole", "fresh", "forked", "free", "program"] {
        let result = stage.call(skill, json!({})).await;
        let message = result.error.as_ref().map_or("", |it| &it.message);
        assert_eq!(code(&result), "TOOL_INVOCATION_ERROR", "{skill}: {result:?}");
        assert!(message.contains("moved or replaced") && !format!("{result:?}").contains("CANARY"), "{result:?}");
    }
}
