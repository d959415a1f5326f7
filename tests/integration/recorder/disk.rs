//! Files of recorded calls: who may read them, how many there are, and what happens when they can't be written.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use openskill_proto::v1::TraceFilter;
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, Setup, System, request};
use openskill_tests::wait::{until, until_true};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{call, events, files, list, traces};

fn recording_to(folder: &Path) -> Setup {
    Setup::up().with("OPENSKILL_TRACE_DIR", folder.display())
}

/// The files with recorded calls.
fn segments(folder: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path());
    all.filter(|it| it.extension().is_some_and(|it| it == "jsonl")).collect()
}

/// A call whose events take several kilobytes.
async fn large_call(system: &System, trace: &str) {
    let result = call(system, trace, request("in_echo", json!({ "text": "x".repeat(8000) }))).await;
    assert!(result.success, "{result:?}");
}

/// How many recordings ended like this: `ok`, `dropped` or `failed`.
async fn recordings(system: &System, end: &str) -> u64 {
    let text = String::from_utf8(system.get("/metrics").await.body.to_vec()).unwrap();
    let series = format!("openskill_recordings_total{{end=\"{end}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&series));
    line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
}

#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    let base = Folder::new();
    let folder = base.path().join("state/traces");
    let system = recording_to(&folder).start().await;
    call(&system, "mine", request("in_echo", json!({}))).await;
    events(&system, "mine").await;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let all: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().map(|it| it.path()).collect();
    assert_eq!(all.len(), 2, "a file and a key: {all:?}");
    assert!(all.iter().all(|it| mode(it) == 0o600), "{all:?}");
    assert_eq!((recordings(&system, "ok").await, recordings(&system, "failed").await), (1, 0));
}

#[tokio::test]
async fn a_directory_that_others_may_write_to_is_refused_and_a_link_is_not_followed() {
    let base = Folder::new();
    let (open, link) = (base.path().join("open"), base.path().join("link"));
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let system = recording_to(&open).start().await;
    call(&system, "refused", request("in_echo", json!({}))).await;
    assert_eq!(events(&system, "refused").await[0]["skill"], "in_echo", "in memory");
    assert_eq!(std::fs::read_dir(&open).unwrap().count(), 0);
    assert_eq!(open.metadata().unwrap().permissions().mode() & 0o777, 0o777, "it is as it was");

    let victim = base.path().join("victim");
    std::fs::create_dir(&victim).unwrap();
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    let system = recording_to(&link).start().await;
    call(&system, "kept", request("in_echo", json!({}))).await;
    assert_eq!(events(&system, "kept").await[0]["skill"], "in_echo", "in memory");
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0);
}

#[tokio::test]
async fn after_a_kill_every_whole_line_can_be_read_and_the_next_process_has_the_calls() {
    let folder = Folder::new();
    let port = Port::reserve();
    let start = || {
        let (address, skills) = (port.address().to_string(), openskill_tests::fixtures().display().to_string());
        Setup::command(&["up", "--listen", &address, "--skills-dir", &skills])
            .with("OPENSKILL_TRACE_DIR", folder.path().display())
    };
    let system = start().start().await;
    let first = openskill_proto::v1::InvokeRequest { call_id: "the-first".to_owned(), ..request("in_echo", json!({})) };
    call(&system, "before", first).await;
    let client = system.skills().await;
    let mut load = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let mut client = client.clone();
        load.spawn(async move { while client.invoke(request("in_echo", json!({"text": "load"}))).await.is_ok() {} });
    }
    until_true("it writes", PATIENCE, || files(folder.path()).len() > 1_000_000).await;
    processes::send(system.process.pid(), Signal::KILL);
    load.join_all().await;
    drop(system);
    let text = files(folder.path());
    let whole = &text[..=text.rfind('\n').unwrap()];
    let lines: Vec<Value> =
        whole.lines().map(|line| serde_json::from_str(line).expect("a whole line is JSON")).collect();
    assert!(lines.len() > 1000, "{}", lines.len());

    let system = start().start().await;
    assert_eq!(events(&system, "before").await[0]["skill"], "in_echo");
    assert_eq!(events(&system, "the-first").await[0]["trace"], "before", "the key of the hashes lasts");
    call(&system, "after", request("in_echo", json!({}))).await;
    events(&system, "after").await;
    let calls = list(&system, TraceFilter::default()).await;
    assert_eq!((calls.len(), calls[0].trace_id.as_str()), (50, "after"));
    assert!(calls[1..].iter().all(|it| it.skill_id == "in_echo" && it.code == "OK"), "{calls:?}");
}

#[tokio::test]
async fn old_files_go_when_the_size_is_reached_and_their_calls_with_them() {
    let folder = Folder::new();
    let system = recording_to(folder.path()).with("OPENSKILL_TRACE_MAX_MB", 1).start().await;
    for number in 0..200 {
        large_call(&system, &format!("call-{number}")).await;
    }
    events(&system, "call-199").await;
    let bytes: u64 = segments(folder.path()).iter().map(|it| it.metadata().unwrap().len()).sum();
    assert!((512 * 1024..=1024 * 1024).contains(&bytes), "{bytes}");
    assert_eq!(system.get("/traces/call-0").await.status, 404);
    assert!(segments(folder.path()).len() > 3);
}

#[tokio::test]
async fn files_past_their_age_go_and_the_files_of_others_stay() {
    let folder = Folder::new();
    let old =
        folder.write("trace-20200101T000000.000000Z-1.jsonl", "{\"v\":1,\"event\":\"file\",\"gateway\":\"other\"}\n");
    let foreign = folder.write("notes.txt", "mine");
    let long_ago = SystemTime::now() - Duration::from_secs(2 * 3600);
    for path in [&old, &foreign] {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
    }
    let system = recording_to(folder.path()).with("OPENSKILL_TRACE_MAX_AGE_HOURS", 1).start().await;
    until_true("the old file is gone", PATIENCE, || !old.exists()).await;
    call(&system, "new", request("in_echo", json!({}))).await;
    events(&system, "new").await;
    assert!(foreign.exists());
}

#[tokio::test]
async fn a_directory_that_can_not_be_made_costs_no_call_and_is_used_once_it_can() {
    let base = Folder::new();
    let blocker = base.write("blocked", "a file where a directory should be");
    let folder = blocker.join("traces");
    let system = recording_to(&folder).start().await;
    for number in 0..20 {
        call(&system, &format!("memory-{number}"), request("in_echo", json!({}))).await;
        events(&system, &format!("memory-{number}")).await;
    }
    let warnings = || {
        let log = system.process.log.text();
        log.lines().filter(|it| it.contains("openskill::recorder")).count()
    };
    assert_eq!(warnings(), 1, "{}", system.process.log.text());
    std::fs::remove_file(&blocker).unwrap();
    until("it is written to", PATIENCE, || async {
        call(&system, "disk", request("in_echo", json!({}))).await;
        files(&folder).contains("disk").then_some(())
    })
    .await;
    assert_eq!(warnings(), 1, "one line a minute");
    let memory = events(&system, "memory-3").await;
    assert_eq!(memory[0]["skill"], "in_echo", "what was in no file stays in memory");
}

#[tokio::test]
async fn a_directory_that_vanishes_is_made_again() {
    let base = Folder::new();
    let folder = base.path().join("traces");
    let system = recording_to(&folder).start().await;
    call(&system, "first", request("in_echo", json!({}))).await;
    events(&system, "first").await;
    std::fs::remove_dir_all(&folder).unwrap();
    until("it is written to", PATIENCE, || async {
        call(&system, "again", request("in_echo", json!({}))).await;
        files(&folder).contains("again").then_some(())
    })
    .await;
}

/// Starts a system whose trace directory is a small file system of its own.
async fn on_own_disk(folder: &Path, options: &str) -> System {
    let script = format!("mount -t tmpfs -o size=256k,mode=700,{options} none {} && exec \"$@\"", folder.display());
    let unshare = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
    recording_to(folder).through(&["unshare", unshare, "sh", "-c", &script, "sh"]).start().await
}

/// The directory as the system sees it.
fn seen_by(system: &System, folder: &Path) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{}/root", system.process.pid()));
    root.join(folder.strip_prefix("/").unwrap())
}

#[tokio::test]
async fn a_full_disk_costs_no_call_and_is_used_again_when_there_is_room() {
    let folder = Folder::new();
    let system = on_own_disk(folder.path(), "rw").await;
    let disk = seen_by(&system, folder.path());
    let ballast = disk.join("ballast");
    call(&system, "fits", request("in_echo", json!({}))).await;
    events(&system, "fits").await;
    assert!(files(&disk).contains("fits"));
    let fill = std::fs::write(&ballast, vec![0; 1024 * 1024]);
    assert!(fill.is_err(), "the disk is full");
    for number in 0..20 {
        large_call(&system, &format!("full-{number}")).await;
        events(&system, &format!("full-{number}")).await;
    }
    let text = files(&disk);
    assert!(!text.contains("full-19"));
    assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "no torn line: {text}");
    assert_eq!((recordings(&system, "ok").await, recordings(&system, "dropped").await), (1, 0));
    assert_eq!(recordings(&system, "failed").await, 20, "each is counted");
    std::fs::remove_file(&ballast).unwrap();
    until("it is written to", PATIENCE, || async {
        call(&system, "room", request("in_echo", json!({}))).await;
        files(&disk).contains("\"room\"").then_some(())
    })
    .await;
    let warnings = system.process.log.text().lines().filter(|it| it.contains("openskill::recorder")).count();
    assert_eq!(warnings, 1, "{}", system.process.log.text());
}

#[tokio::test]
async fn a_read_only_disk_costs_no_call_and_is_used_once_it_can_be_written() {
    let folder = Folder::new();
    let system = on_own_disk(folder.path(), "ro").await;
    let disk = seen_by(&system, folder.path());
    for number in 0..20 {
        large_call(&system, &format!("memory-{number}")).await;
        events(&system, &format!("memory-{number}")).await;
    }
    assert_eq!(std::fs::read_dir(&disk).unwrap().count(), 0);
    let pid = system.process.pid().to_string();
    let mut nsenter = Command::new("nsenter");
    nsenter.args(["-t", &pid, "-m", "mount", "-o", "remount,rw"]).arg(folder.path());
    assert!(nsenter.status().await.unwrap().success());
    until("it is written to", PATIENCE, || async {
        call(&system, "written", request("in_echo", json!({}))).await;
        files(&disk).contains("\"written\"").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_limit_on_file_sizes_ends_files_and_not_the_gateway() {
    let folder = Folder::new();
    let system = recording_to(folder.path()).through(&["prlimit", "--fsize=65536"]).start().await;
    for number in 0..30 {
        large_call(&system, &format!("limit-{number}")).await;
        events(&system, &format!("limit-{number}")).await;
    }
    assert!(segments(folder.path()).iter().all(|it| it.metadata().unwrap().size() <= 65_536));
    assert!(files(folder.path()).contains("limit-0"));
    assert_eq!(traces(&list(&system, TraceFilter::default()).await).len(), 30);
}
