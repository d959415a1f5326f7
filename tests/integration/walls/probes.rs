//! Small attempts of all kinds, from inside a call, each compared with the table.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

use openskill_proto::v1::InvokeRequest;
use openskill_tests::processes;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{PATIENCE, request};
use openskill_tests::wait::until;
use serde_json::{Value, json};

use super::stage::{self, Kind, LEVELS, Scene, Stage, Worker};
use super::table::{Place, Table};

/// What must be there for the probes to meet a wall, and not a lack.
struct Targets {
    /// What the script is told, see `probing/place.py`.
    told: Value,
    marker: String,
    _listeners: (std::net::TcpListener, std::net::UdpSocket, UnixListener, UnixDatagram, UnixListener),
    _in_tmp: Removed,
}

/// A file that goes with the test.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Folders that everybody finds, in which a probe may try to leave something.
const SHARED: [&str; 12] =
    ["/root", "/home", "/var/log", "/run", "/opt", "/etc", "/", "/dev", "/tmp", "/var/tmp", "/dev/shm", "/usr/local"];

async fn probes_meet_their_walls(worker: Worker) {
    if stage::place().starts_with(std::env::temp_dir()) {
        let reason =
            "strict calls have a /tmp of their own, and this checkout is beneath /tmp or not open to all users";
        return skip(Need::Jail, &format!("{reason}; clone it elsewhere, such as to /srv/openskill"));
    }
    let mut differences = Vec::new();
    for (level, word) in LEVELS.iter().copied() {
        let Some(scene) = Scene::at(worker, (level, word)).await else { continue };
        furnish(&scene);
        let scene = scene.skills("probes", "probes.py", "limits: {processes: 64}");
        scene.skill("neighbour", Kind::Fork, "attacks.py", "");
        let Some(stage) = scene.start().await else { return };
        for kind in Kind::ALL {
            differences.extend(run(&stage, Place { worker, kind, level }).await);
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

/// The probes of one kind of call: what differs from the table, and what they left.
async fn run(stage: &Stage, place: Place) -> Vec<String> {
    let there = format!("[{:?}, {}, {}]", place.level, place.worker.word(), place.kind.word());
    renew(stage);
    let neighbour = Neighbour::start(stage).await;
    let targets = Targets::new(stage, &neighbour).await;
    let result = stage.value(&format!("probes_{}", place.kind.word()), targets.told.clone()).await;
    let outcomes: BTreeMap<String, String> = serde_json::from_value(result).unwrap();
    assert!(outcomes.len() > 300, "{outcomes:?}");
    record(&outcomes, place);
    let mut differences = Table::read().differences(&outcomes, place);
    for folder in
        SHARED.map(PathBuf::from).into_iter().chain(["", "skills", "others", "outside", "tmp"].map(|it| stage.path(it)))
    {
        differences.extend(left_in(&folder, &targets.marker).map(|name| format!("{name} was left on the host")));
    }
    neighbour.call.abort();
    differences.into_iter().map(|it| format!("{there} {it}")).collect()
}

/// Writes all outcomes into the folder that this names.
const RECORD: &str = "OPENSKILL_TEST_OUTCOMES";

fn record(outcomes: &BTreeMap<String, String>, place: Place) {
    if let Some(folder) = std::env::var_os(RECORD) {
        let name = format!("{:?}-{:?}-{}.json", place.level, place.worker, place.kind.word());
        std::fs::write(Path::new(&folder).join(name), serde_json::to_string_pretty(outcomes).unwrap()).unwrap();
    }
}

/// What has the marker in its name, besides the marker itself.
fn left_in(folder: &Path, marker: &str) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let left = entries.filter(move |it| {
        let name = it.file_name().to_string_lossy().into_owned();
        name.starts_with(marker) && name != marker
    });
    left.map(|it| it.path()).inspect(|it| drop(std::fs::remove_file(it))).map(|it| it.display().to_string())
}

/// What is there before the worker starts.
fn furnish(scene: &Scene) {
    scene.write("above", "above the root");
    scene.write("others/other.py", "print(1)\n");
    scene.write("outside/public", "public");
}

/// Makes what probes may have changed anew.
fn renew(stage: &Stage) {
    let outside = stage.path("outside");
    for name in ["outside/folder", "data/own"] {
        let _ = std::fs::remove_dir_all(stage.path(name));
    }
    for (name, mode, is_theirs) in [
        ("owned", 0o644, true),
        ("open", 0o666, false),
        ("secret", 0o600, false),
        ("public", 0o644, false),
        ("program", 0o755, false),
        ("folder/file", 0o644, true),
        ("folder/to-remove", 0o644, true),
        ("folder/to-rmdir/x", 0o644, true),
    ] {
        let path = stage.folder.write(&format!("outside/{name}"), "#!/bin/sh\nexit 0\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let owner = if is_theirs { stage.uid } else { 0 };
        chown(&path, Some(owner), Some(owner)).unwrap();
    }
    std::fs::remove_file(outside.join("folder/to-rmdir/x")).unwrap();
    for folder in ["folder", "folder/to-rmdir"] {
        chown(outside.join(folder), Some(stage.uid), Some(stage.uid)).unwrap();
    }
}

/// A call of another skill that runs meanwhile.
struct Neighbour {
    call: tokio::task::JoinHandle<()>,
    pid: i32,
    temp: String,
}

impl Neighbour {
    async fn start(stage: &Stage) -> Self {
        let told = stage.path("data/neighbour");
        let _ = std::fs::remove_file(&told);
        let call_id = format!("neighbour-{}-{}", std::process::id(), stage.uid);
        let call = InvokeRequest {
            call_id: call_id.clone(),
            timeout_ms: 120_000,
            ..request("neighbour", json!({"do": "stay", "tell": "neighbour"}))
        };
        let mut client = stage.system.skills().await;
        let call = tokio::spawn(async move { drop(client.invoke(call).await) });
        let temp = until("the neighbour runs", PATIENCE, || async {
            std::fs::read_to_string(&told).ok().filter(|text| text.ends_with('\n'))
        });
        let temp = temp.await.trim().to_owned();
        let pid = processes::of_call(&call_id).into_iter().max().expect("the neighbour's process");
        Self { call, pid, temp }
    }
}

impl Targets {
    async fn new(stage: &Stage, neighbour: &Neighbour) -> Self {
        use std::os::linux::net::SocketAddrExt as _;
        let marker = format!("openskill-probe-{}-{}", std::process::id(), stage.uid);
        let in_tmp = Removed(Path::new("/tmp").join(&marker));
        std::fs::write(&in_tmp.0, "x").unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let [unix_path, datagram_path] = ["engine.sock", "log.sock"].map(|name| stage.path("data").join(name));
        for path in [&unix_path, &datagram_path] {
            let _ = std::fs::remove_file(path);
        }
        let unix = UnixListener::bind(&unix_path).unwrap();
        let datagram = UnixDatagram::bind(&datagram_path).unwrap();
        for path in [&unix_path, &datagram_path] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        let hidden = std::os::unix::net::SocketAddr::from_abstract_name(&marker).unwrap();
        let abstract_one = UnixListener::bind_addr(&hidden).unwrap();
        let config = stage.system.process.folder.write("openskill.toml", "# none\n");
        let workers = stage.system.workers().await;
        let told = json!({
            "outside": stage.path("outside"),
            "other_skills": stage.path("others"),
            "worker_folder": config.parent().unwrap(),
            "binary": openskill_tests::binary(),
            "neighbour_temp": neighbour.temp,
            "gateway_port": stage.system.address.port(),
            "tcp_port": tcp.local_addr().unwrap().port(),
            "udp_port": udp.local_addr().unwrap().port(),
            "unix_path": unix_path,
            "datagram_path": datagram_path,
            "worker_socket": workers[0].endpoint.trim_start_matches("unix:"),
            "abstract": marker,
            "marker": marker,
            "listen": "--listen",
            "host_name": std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim(),
            "processes": {
                "worker": identified(stage.worker()),
                "gateway": identified(stage.system.process.pid()),
                "neighbour": identified(neighbour.pid),
            },
            "namespaces": namespaces(),
        });
        Self { told, marker, _listeners: (tcp, udp, unix, datagram, abstract_one), _in_tmp: in_tmp }
    }
}

/// A process, and when it was started: its number may be another's in another namespace.
fn identified(pid: i32) -> Value {
    json!([pid, processes::stat(pid).unwrap()[19]])
}

/// The namespaces of this process, which the worker shares.
fn namespaces() -> BTreeMap<String, String> {
    let entries = std::fs::read_dir("/proc/self/ns").unwrap().flatten();
    let link = |it: std::fs::DirEntry| std::fs::read_link(it.path()).unwrap().display().to_string();
    entries.map(|it| (it.file_name().into_string().unwrap(), link(it))).collect()
}

super::for_each_worker! { probes_meet_their_walls }

#[test]
fn every_level_has_a_column() {
    assert!(LEVELS.iter().enumerate().all(|(column, (level, _))| column == *level as usize));
}
