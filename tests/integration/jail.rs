//! Attacks on the jail: skills that try to reach what is not theirs, through the whole system.
//!
//! Most tests need root and a kernel that supports the whole jail; where either is missing, they are skipped.

use std::collections::HashMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use openskill_proto::v1::InvokeRequest;
use openskill_tests::alone::alone;
use openskill_tests::folder::Folder;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::until_true;
use openskill_tests::{binary, processes};
use serde_json::{Value, json};

const ATTACKS: &str = include_str!("../fixtures/jail/attacks.py");

/// A folder of attacking skills, and a worker that runs them.
struct Stage {
    system: System,
    folder: Folder,
    uid: u32,
}

fn manifest(id: &str, more: &str) -> String {
    format!("id: {id}\ntype: cli\nruntime: python\nentry: {id}.py\n{more}\n")
}

/// A user id that no other test uses.
pub(crate) fn new_user() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    200_000 + (std::process::id() % 100_000) * 32 + NUMBER.fetch_add(1, Ordering::Relaxed)
}

fn write_skills(skills: &[(&str, &str)]) -> Folder {
    let folder = Folder::new();
    for (id, more) in skills {
        folder.write(&format!("skills/{id}.py"), ATTACKS);
        folder.write(&format!("skills/{id}.yaml"), manifest(id, more));
    }
    std::fs::create_dir_all(folder.path().join("data/narrow")).unwrap();
    folder
}

fn setup(folder: &Folder, uid: u32) -> Setup {
    let skills = folder.path().join("skills").display().to_string();
    Setup::command(&["up", "--workers", "1", "--listen", "127.0.0.1:0", "--skills-dir", &skills])
        .data(&folder.path().join("data"))
        .with("OPENSKILL_SKILL_USER", uid)
        .with("SECRET_OF_THE_WORKER", "hunter2")
}

impl Stage {
    async fn with(skills: &[(&str, &str)]) -> Self {
        let (folder, uid) = (write_skills(skills), new_user());
        let system = setup(&folder, uid).start().await;
        Self { system, folder, uid }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    async fn run(&self, skill: &str, attempts: Value) -> Value {
        let call = InvokeRequest { timeout_ms: 20_000, ..request(skill, json!({ "try": attempts })) };
        let result = self.system.invoke(call).await;
        assert_eq!(code(&result), "", "{result:?}\n{}", self.system.process.log.text());
        data(&result)
    }

    /// Tries each attack and compares its outcome. `refused|done`: either. Where a skill has namespaces of its own, what is
    /// refused elsewhere does not exist, or is on a mount that is read-only.
    async fn expect(&self, skill: &str, expected: &[(&str, Value, &str)]) {
        let attempts = expected.iter().map(|(name, argument, _)| json!([name, argument])).collect();
        let report = self.run(skill, attempts).await;
        let outcomes = report["told"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
        let settled = |outcome: &str, end: &str| match end.split('|').any(|end| is_same(end, outcome)) {
            true => end.to_owned(),
            false => outcome.to_owned(),
        };
        let outcomes: Vec<_> = expected
            .iter()
            .zip(outcomes)
            .map(|((name, what, end), outcome)| format!("{name} {what}: {}", settled(outcome, end)))
            .collect();
        let wanted: Vec<_> = expected.iter().map(|(name, what, end)| format!("{name} {what}: {end}")).collect();
        assert_eq!(outcomes, wanted, "{skill}");
    }

    async fn is_well(&self) {
        self.expect("attacks", &[("null", Value::Null, "done")]).await;
    }
}

fn is_same(end: &str, outcome: &str) -> bool {
    let refused = ["EACCES", "EPERM"].contains(&end);
    end == outcome || (refused && ["ENOENT", "EROFS"].contains(&outcome))
}

/// What `openskill doctor` reports about the machine, by topic.
async fn machine() -> HashMap<String, String> {
    let folder = write_skills(&[]);
    let skills = folder.path().join("skills");
    std::fs::create_dir_all(&skills).unwrap();
    let output = tokio::process::Command::new(binary())
        .args(["doctor", "--json", "--skills-dir"])
        .arg(&skills)
        .arg("--allowed-root")
        .arg(folder.path().join("data"))
        .current_dir(folder.path())
        .output()
        .await
        .unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    found["machine"].as_array().unwrap().iter().map(|it| (text(&it["topic"]), text(&it["status"]))).collect()
}

/// Whether this machine has everything that the jail uses. If not, the test is skipped.
pub(crate) async fn whole_jail() -> bool {
    let found = machine().await;
    let is_ok = |topic: &str| found.get(topic).is_some_and(|it| it == "ok");
    let whole = ["files", "system calls", "network", "signals"].into_iter().all(is_ok);
    let as_root = rustix::process::geteuid().is_root();
    if !whole || !as_root {
        skip(Need::Jail, &format!("the whole jail needs root and a recent kernel; `openskill doctor` says {found:?}"));
    }
    whole && as_root
}

fn capabilities(status: &Value, set: &str) -> u64 {
    u64::from_str_radix(status[set].as_str().unwrap(), 16).unwrap()
}

const DAC_OVERRIDE: u64 = 1 << 1;

/// The capabilities that a process has, and those it can get or hand on.
const SETS: [&str; 4] = ["CapEff", "CapPrm", "CapInh", "CapAmb"];

#[tokio::test]
async fn a_skill_has_its_own_user_and_almost_no_capabilities() {
    if !whole_jail().await {
        return;
    }
    let stage = Stage::with(&[("attacks", "")]).await;
    // Root owns the allowed root: without CAP_DAC_OVERRIDE the skill could not write to it.
    let report = stage.run("attacks", json!([["write", stage.path("data/new")]])).await;
    assert_eq!(report["told"], json!(["done"]));
    let status = &report["status"];
    let ids = vec![stage.uid.to_string(); 4].join("\t");
    assert_eq!(
        (status["Uid"].as_str(), status["Gid"].as_str(), &status["Groups"]),
        (Some(&*ids), Some(&*ids), &json!(""))
    );
    for set in SETS {
        assert_eq!(capabilities(status, set) & !DAC_OVERRIDE, 0, "{set}: {status}");
    }
    // Without no_new_privs, the bounding set would matter as well.
    assert_eq!((status["NoNewPrivs"].as_str(), status["Seccomp"].as_str()), (Some("1"), Some("2")));
}

#[tokio::test]
async fn a_skill_whose_user_reaches_its_files_has_no_capabilities() {
    let python = Path::new("/usr/bin/python3");
    if !python.exists() || !whole_jail().await {
        return;
    }
    let (folder, uid) = (write_skills(&[("attacks", "")]), new_user());
    std::os::unix::fs::chown(folder.path().join("data"), Some(uid), Some(uid)).unwrap();
    let system = setup(&folder, uid).with("OPENSKILL_PYTHON", python.display()).start().await;
    let stage = Stage { system, folder, uid };
    let report =
        stage.run("attacks", json!([["write", stage.path("data/new")], ["utime", stage.path("data/new")]])).await;
    assert_eq!(report["told"], json!(["done", "done"]));
    for set in SETS {
        assert_eq!(capabilities(&report["status"], set), 0, "{set}");
    }
    // It may set the times of its own files.
    assert_eq!(std::fs::metadata(stage.path("data/new")).unwrap().mtime(), 1);
}

#[tokio::test]
async fn ordinary_programs_run_unaffected() {
    let stage = Stage::with(&[("attacks", ""), ("ports", "network: [443]")]).await;
    for skill in ["attacks", "ports"] {
        let own = stage.path("data/own");
        let expected = [
            ("write", json!(own), "done"),
            ("read", json!(own), "done"),
            ("chmod", json!(own), "done"),
            ("utime", json!(own), "done"),
            ("touch", json!(own), "done"),
            ("truncate", json!(own), "done"),
            ("fifo", json!(stage.path(&format!("data/fifo-{skill}"))), "done"),
            ("remove", json!(own), "done"),
            ("list", json!(stage.path("data")), "done"),
            ("read", json!(stage.path("skills/attacks.py")), "done"),
            ("temp", Value::Null, "done"),
            ("fork", Value::Null, "done"),
            ("thread", Value::Null, "done"),
            ("program", Value::Null, "done"),
            ("loop", Value::Null, "done"),
            ("tls", Value::Null, "done"),
            ("socketpair", Value::Null, "done"),
            ("subreaper", Value::Null, "done"),
            ("pidfd_open", Value::Null, "done"),
            ("ask_personality", Value::Null, "done"),
            ("stderr", Value::Null, "done"),
            ("null", Value::Null, "done"),
        ];
        stage.expect(skill, &expected).await;
    }
}

#[tokio::test]
async fn skills_run_whatever_the_mask_of_the_worker_is() {
    let (folder, uid) = (write_skills(&[("attacks", "")]), new_user());
    let through = ["sh", "-c", "umask 077; exec \"$@\"", "sh"];
    let system = setup(&folder, uid).through(&through).start().await;
    Stage { system, folder, uid }.is_well().await;
}

#[tokio::test]
async fn foreign_files_are_out_of_reach() {
    if !whole_jail().await {
        return;
    }
    let stage = Stage::with(&[("attacks", ""), ("narrow", "allowed_root: data/narrow")]).await;
    stage.folder.write("secret", "hunter2");
    stage.folder.write("data/wide", "x");
    let outside = std::env::temp_dir().join(format!("openskill-attack-{}", std::process::id())).display().to_string();
    std::os::unix::fs::symlink("/etc/shadow", stage.path("data/link")).unwrap();
    let refused = "EACCES";
    let secret = stage.path("secret");
    let expected = [
        ("read", json!("/etc/shadow"), refused),
        ("read", json!(stage.path("data/link")), refused),
        ("read", json!(secret), refused),
        ("truncate", json!(secret), refused),
        ("remove", json!(secret), refused),
        ("list", json!("/root"), refused),
        ("list", json!("/"), refused),
        ("list", json!(std::env::temp_dir()), refused),
        ("write", json!(outside), refused),
        ("write", json!("/root/openskill-attack"), refused),
        ("write", json!("/dev/shm/openskill-attack"), "EACCES|done"),
        ("write", json!(stage.path("skills/attacks.py")), refused),
        ("write", json!(stage.path("skills/new.py")), refused),
        ("write", json!("/proc/sys/kernel/hostname"), refused),
        ("write", json!("/proc/self/oom_score_adj"), refused),
        ("environ_of_worker", Value::Null, refused),
        // The folder of that name in a root of its own holds nothing but the way to the interpreter.
        ("watch", json!("/root"), "EACCES|done"),
    ];
    stage.expect("attacks", &expected).await;
    assert!(!Path::new(&outside).exists() && !Path::new("/dev/shm/openskill-attack").exists());
    stage.expect("narrow", &[("read", json!(stage.path("data/wide")), refused)]).await;
    // Nor does a skill see the files of another skill with the same user.
    let call_id = format!("sleeps-{}", std::process::id());
    let call = InvokeRequest { call_id: call_id.clone(), ..request("attacks", json!({"try": [["sleep", 10]]})) };
    let mut client = stage.system.skills().await;
    let sleeping = tokio::spawn(async move { client.invoke(call).await });
    until_true("it sleeps", PATIENCE, || processes::of_call(&call_id).len() == 1).await;
    let pid = processes::of_call(&call_id)[0];
    let expected = [("read", json!(format!("/proc/{pid}/environ")), refused), ("kill", json!(pid), "EPERM")];
    stage.expect("attacks", &expected).await;
    sleeping.abort();
}

#[tokio::test]
async fn mode_owner_and_times_of_foreign_files_cannot_change() {
    if !whole_jail().await {
        return;
    }
    let stage = Stage::with(&[("attacks", "")]).await;
    let file = stage.folder.write("file", "x");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let before = file.metadata().unwrap();
    let path = json!(file);
    let attempts = ["chmod", "chown", "utime", "touch", "setxattr"].map(|name| json!([name, path]));
    let report = stage.run("attacks", json!(attempts)).await;
    for attempt in [0, 1] {
        let outcome = report["told"][attempt].as_str().unwrap();
        assert!(is_same("EPERM", outcome), "{outcome}");
    }
    assert_eq!(report["told"][4], json!("ENOTSUP"));
    let after = file.metadata().unwrap();
    assert_eq!(
        (after.mode(), after.uid(), after.ctime(), after.ctime_nsec()),
        (before.mode(), before.uid(), before.ctime(), before.ctime_nsec())
    );
}

/// Listeners that a skill might reach.
struct Listeners {
    tcp: tokio::net::TcpListener,
    other_tcp: tokio::net::TcpListener,
    udp: tokio::net::UdpSocket,
    _unix: std::os::unix::net::UnixListener,
    _datagram: std::os::unix::net::UnixDatagram,
    abstract_name: String,
    _abstract: std::os::unix::net::UnixListener,
}

impl Listeners {
    async fn at(folder: &Folder) -> Self {
        use std::os::linux::net::SocketAddrExt as _;
        let abstract_name = format!("openskill-attack-{}-{}", std::process::id(), new_user());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let unix = std::os::unix::net::UnixListener::bind(folder.path().join("data/engine.sock")).unwrap();
        let datagram = std::os::unix::net::UnixDatagram::bind(folder.path().join("data/log.sock")).unwrap();
        for socket in ["data/engine.sock", "data/log.sock"] {
            std::fs::set_permissions(folder.path().join(socket), std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        Self {
            tcp: tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap(),
            other_tcp: tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap(),
            udp: tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            _unix: unix,
            _datagram: datagram,
            _abstract: std::os::unix::net::UnixListener::bind_addr(&address).unwrap(),
            abstract_name,
        }
    }

    fn tcp(&self) -> u16 {
        self.tcp.local_addr().unwrap().port()
    }

    fn other_tcp(&self) -> u16 {
        self.other_tcp.local_addr().unwrap().port()
    }

    fn udp(&self) -> u16 {
        self.udp.local_addr().unwrap().port()
    }
}

/// What no manifest can grant.
fn never(stage: &Stage, listeners: &Listeners) -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("unix", json!(stage.path("data/engine.sock")), "EACCES"),
        ("unix_datagram", json!(stage.path("data/log.sock")), "EACCES"),
        ("unix_raw", json!(stage.path("data/log.sock")), "EACCES"),
        ("abstract", json!(listeners.abstract_name), "EACCES"),
        ("netlink", Value::Null, "EACCES"),
        ("raw", Value::Null, "EACCES"),
        ("vsock", Value::Null, "EACCES"),
    ]
}

#[tokio::test]
async fn there_is_no_network_by_default() {
    if !whole_jail().await {
        return;
    }
    let stage = Stage::with(&[("attacks", "")]).await;
    let listeners = Listeners::at(&stage.folder).await;
    let mut expected = never(&stage, &listeners);
    for (name, port) in [
        ("connect", listeners.tcp()),
        ("udp", listeners.udp()),
        ("mptcp", listeners.tcp()),
        ("fastopen", listeners.tcp()),
    ] {
        expected.push((name, json!(port), "EACCES"));
    }
    stage.expect("attacks", &expected).await;
}

#[tokio::test]
async fn a_port_list_allows_exactly_those_tcp_ports() {
    if !whole_jail().await {
        return;
    }
    let folder = write_skills(&[]);
    std::fs::create_dir_all(folder.path().join("skills")).unwrap();
    let listeners = Listeners::at(&folder).await;
    let (open, shut) = (listeners.tcp(), listeners.other_tcp());
    folder.write("skills/ports.py", ATTACKS);
    folder.write("skills/ports.yaml", manifest("ports", &format!("network: [{open}]")));
    let uid = new_user();
    let stage = Stage { system: setup(&folder, uid).start().await, folder, uid };
    let mut expected = never(&stage, &listeners);
    expected.extend([
        ("connect", json!(open), "done"),
        ("connect", json!(shut), "EACCES"),
        ("udp", json!(listeners.udp()), "EACCES"),
        ("fastopen", json!(shut), "EACCES"),
        ("fastopen_message", json!(shut), "EACCES"),
        ("fastopen_option", json!(shut), "EACCES"),
        ("upper_layer", json!("smc"), "EACCES"),
        ("mptcp", json!(shut), "EACCES"),
        ("bind", Value::Null, "EACCES"),
        ("listen", Value::Null, "EACCES"),
        ("io_uring", Value::Null, "ENOSYS"),
    ]);
    stage.expect("ports", &expected).await;
    let report = stage.run("ports", json!([])).await;
    assert_eq!(report["environment"]["RES_OPTIONS"], "use-vc");
}

#[tokio::test]
async fn the_full_network_excludes_local_sockets() {
    let stage = Stage::with(&[("full", "network: full")]).await;
    let listeners = Listeners::at(&stage.folder).await;
    let mut expected = vec![
        ("connect", json!(listeners.tcp()), "done"),
        ("udp", json!(listeners.udp()), "done"),
        ("listen", Value::Null, "done"),
    ];
    if whole_jail().await {
        expected.extend(never(&stage, &listeners));
    }
    stage.expect("full", &expected).await;
}

#[tokio::test]
async fn the_worker_cannot_be_signalled_traced_or_reniced() {
    if !whole_jail().await {
        return;
    }
    let stage = Stage::with(&[("attacks", "")]).await;
    let gateway = stage.system.process.pid();
    let expected = [
        ("kill", json!("supervisor"), "EPERM"),
        ("kill", json!("worker"), "EPERM"),
        ("kill", json!(gateway), "EPERM"),
        ("kill", json!(1), "EPERM"),
        ("ptrace_parent", Value::Null, "EPERM"),
        ("process_vm_readv", Value::Null, "EPERM"),
        ("pidfd_getfd", Value::Null, "EPERM"),
        ("limits_of_worker", Value::Null, "EPERM"),
        ("priority_of_all", Value::Null, "EPERM"),
    ];
    stage.expect("attacks", &expected).await;
}

#[tokio::test]
async fn other_kernel_interfaces_are_refused() {
    if !whole_jail().await {
        return;
    }
    let stage = Stage::with(&[("attacks", "")]).await;
    let root = stage.path("data");
    let mut expected = vec![
        ("io_uring", Value::Null, "ENOSYS"),
        ("clone3", Value::Null, "ENOSYS"),
        ("mount", json!(root), "EPERM"),
        ("umount", json!("/proc"), "EPERM"),
        ("open_tree", json!(root), "EPERM"),
        ("fsopen", Value::Null, "EPERM"),
        ("chroot", json!(root), "EPERM"),
        ("unshare_user", Value::Null, "EPERM"),
        ("clone_user", Value::Null, "EPERM"),
        ("bpf", Value::Null, "EPERM"),
        ("perf", Value::Null, "EPERM"),
        ("userfaultfd", Value::Null, "EPERM"),
        ("keyctl", Value::Null, "EPERM"),
        ("handle", json!(root), "EPERM"),
        ("shared_memory", Value::Null, "EPERM"),
        ("message_queue", Value::Null, "EPERM"),
        ("personality", Value::Null, "EPERM"),
        ("device", json!(stage.path("data/device")), "EPERM"),
        ("syslog", Value::Null, "EPERM"),
        ("sethostname", Value::Null, "EPERM"),
        ("terminal_input", Value::Null, "EPERM"),
        ("landlock", Value::Null, "done"),
    ];
    if cfg!(target_arch = "x86_64") {
        expected.extend([("x32", Value::Null, "ENOSYS"), ("old_x32", Value::Null, "ENOSYS")]);
    }
    stage.expect("attacks", &expected).await;
}

#[tokio::test]
async fn a_fork_bomb_is_bounded_and_reaped_after_its_deadline() {
    let _alone = alone();
    if !whole_jail().await {
        return;
    }
    let stage = Stage::with(&[("attacks", ""), ("bomb", "limits: {processes: 64}")]).await;
    let call_id = format!("bomb-{}", std::process::id());
    let call =
        InvokeRequest { call_id: call_id.clone(), timeout_ms: 4000, ..request("bomb", json!({"bomb": "forks"})) };
    let mut client = stage.system.skills().await;
    let begun = Instant::now();
    let running = tokio::spawn(async move { client.invoke(call).await.unwrap().into_inner() });
    until_true("the bomb has gone off", PATIENCE, || processes::of_call(&call_id).len() > 32).await;
    // The limit counts the processes of this call only.
    let most = processes::of_call(&call_id).len();
    assert!(most <= 65, "{most}");
    let result = running.await.unwrap();
    assert_eq!(code(&result), "TIMEOUT", "{result:?}");
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    processes::gone(&call_id, Duration::from_secs(10)).await;
    stage.is_well().await;
}

#[tokio::test]
async fn a_memory_bomb_fails_and_the_worker_survives() {
    let stage = Stage::with(&[("attacks", ""), ("bomb", "limits: {memory_mb: 256}")]).await;
    let workers = stage.system.worker_pids();
    let result = stage.system.invoke(request("bomb", json!({"bomb": "memory"}))).await;
    assert_eq!(code(&result), "EXECUTION_ERROR", "{result:?}");
    stage.is_well().await;
    assert_eq!(stage.system.worker_pids(), workers);
}

#[tokio::test]
async fn the_temporary_directory_is_private_and_removed_afterwards() {
    let stage = Stage::with(&[("attacks", ""), ("free", "jail: \"off\"")]).await;
    let mut seen = Vec::new();
    for skill in ["attacks", "attacks", "free"] {
        let report = stage.run(skill, json!([])).await;
        assert_eq!(report["temp"]["mode"], 0o700, "{report}");
        let path = PathBuf::from(report["environment"]["TMPDIR"].as_str().unwrap());
        until_true("the folder is gone", PATIENCE, || !path.exists()).await;
        // One in memory has the same name in each call, and is another folder.
        assert!(!path.starts_with("/tmp") || !seen.contains(&path));
        assert_eq!(report["temp"]["entries"], json!([]), "{report}");
        seen.push(path);
    }
}

#[tokio::test]
async fn leftovers_of_a_killed_supervisor_are_removed() {
    let stage = Stage::with(&[("free", "jail: \"off\"\nisolation: process")]).await;
    let result = stage.system.invoke(request("free", json!({"bomb": "parent"}))).await;
    assert_eq!(code(&result), "EXECUTION_ERROR", "{result:?}");
    let path = PathBuf::from(std::fs::read_to_string(stage.path("data/told")).unwrap());
    until_true("the folder is gone", PATIENCE, || !path.exists()).await;
}

#[tokio::test]
async fn without_a_jail_a_skill_has_the_rights_of_the_worker() {
    let stage = Stage::with(&[("free", "jail: \"off\"")]).await;
    let listeners = Listeners::at(&stage.folder).await;
    stage.folder.write("secret", "x");
    // Control: these operations succeed without a jail.
    let expected = [
        ("bind", Value::Null, "done"),
        ("listen", Value::Null, "done"),
        ("connect", json!(listeners.tcp()), "done"),
        ("udp", json!(listeners.udp()), "done"),
        ("unix", json!(stage.path("data/engine.sock")), "done"),
        ("unix_datagram", json!(stage.path("data/log.sock")), "done"),
        ("unix_raw", json!(stage.path("data/log.sock")), "done"),
        ("watch", json!("/"), "done"),
        ("abstract", json!(listeners.abstract_name), "done"),
        ("netlink", Value::Null, "done"),
        ("kill", json!("supervisor"), "done"),
        ("kill", json!("worker"), "done"),
        ("message_queue", Value::Null, "done"),
        ("read", json!(stage.path("secret")), "done"),
        ("chmod", json!(stage.path("secret")), "done"),
        ("write", json!(stage.path("skills/new.txt")), "done"),
    ];
    stage.expect("free", &expected).await;
    assert_eq!(std::fs::metadata(stage.path("secret")).unwrap().mode() & 0o777, 0o777);
    let report = stage.run("free", json!([])).await;
    let own = rustix::process::geteuid().as_raw().to_string();
    assert_eq!(report["status"]["Uid"].as_str().unwrap().split('\t').next(), Some(own.as_str()));
    assert_eq!((report["status"]["NoNewPrivs"].as_str(), report["status"]["Seccomp"].as_str()), (Some("1"), Some("0")));
}

#[tokio::test]
async fn a_skill_that_requires_an_impossible_jail_does_not_run() {
    let folder = write_skills(&[("strict", "jail: required"), ("attacks", "")]);
    let skills = folder.path().join("skills").display().to_string();
    // Root without the right to change users, as in a container without capabilities.
    let through = ["setpriv", "--bounding-set", "-setuid,-setgid"];
    if !whole_jail().await {
        return;
    }
    let uid = new_user();
    let stage = Stage { system: setup(&folder, uid).through(&through).start().await, folder, uid };
    let result = stage.system.invoke(request("strict", json!({}))).await;
    assert_eq!(code(&result), "UNAVAILABLE", "{result:?}");
    let listed: Value = stage.system.get("/skills/strict").await.json();
    assert!(listed.to_string().contains("its own user"), "{listed}");
    // A skill that accepts a partial jail runs, without capabilities.
    let report = stage.run("attacks", json!([["kill", "worker"], ["read", "/etc/shadow"]])).await;
    assert_eq!(report["told"], json!(["EPERM", "EACCES"]));
    assert_eq!(capabilities(&report["status"], "CapEff"), 0);
    for (through, expected) in [(&through[..], 1), (&["env"], 0)] {
        let ran = tokio::process::Command::new(through[0])
            .args(&through[1..])
            .arg(binary())
            .args(["doctor", "--skills-dir", &skills, "--allowed-root", &stage.path("data")])
            .output()
            .await
            .unwrap();
        let output = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(ran.status.code(), Some(expected), "{output}");
        assert_eq!(output.contains("no    strict"), expected == 1, "{output}");
    }
}

#[tokio::test]
async fn an_unprivileged_worker_protects_its_files_from_skills() {
    let python = Path::new("/usr/bin/python3");
    if !whole_jail().await {
        return;
    }
    if !python.exists() {
        skip(Need::Jail, "an unprivileged worker needs /usr/bin/python3");
        return;
    }
    let (folder, uid) = (write_skills(&[("attacks", "jail: required")]), new_user());
    let own = |name: &str| {
        std::os::unix::fs::chown(folder.path().join(name), Some(uid), Some(uid)).unwrap();
        folder.path().join(name)
    };
    own("data");
    folder.write("secret", "x");
    let secret = own("secret");
    let user = uid.to_string();
    let through = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
    let reached = std::process::Command::new(through[0]).args(&through[1..]).arg(binary()).arg("--version").output();
    if !reached.is_ok_and(|it| it.status.success()) {
        skip(Need::Jail, &format!("another user cannot start {}", binary().display()));
        return;
    }
    let setup = setup(&folder, uid).with("OPENSKILL_PYTHON", python.display()).through(&through);
    let stage = Stage { system: setup.start().await, folder, uid };
    let path = json!(secret);
    let expected = [
        ("read", path.clone(), "EACCES"),
        ("chown", path.clone(), "EPERM"),
        ("setxattr", path.clone(), "ENOTSUP"),
        // Without namespaces, these report success and do nothing.
        ("chmod", path.clone(), "done|ENOENT"),
        ("utime", path, "done|ENOENT"),
        ("kill", json!("worker"), "EPERM"),
        ("environ_of_worker", Value::Null, "EACCES"),
        ("limits_of_worker", Value::Null, "EPERM"),
        ("write", json!(stage.path("data/new")), "done"),
        ("temp", Value::Null, "done"),
        ("fork", Value::Null, "done"),
    ];
    stage.expect("attacks", &expected).await;
    let it = secret.metadata().unwrap();
    assert_eq!((it.mode() & 0o777, it.mtime() == 1), (0o644, false));
}
