//! Memory of kinds that no limit of one process counts: a call that takes more than its share is refused, or ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use openskill_proto::v1::InvokeRequest;
use openskill_tests::alone::alone;
use openskill_tests::system::{PATIENCE, code, data, request};
use openskill_tests::wait::until_true;
use serde_json::json;

use super::remains::Mark;
use super::stage::{Gateway, Kind, LEVELS, Scene, Worker};

/// `memory_mb` of the skills.
const LIMIT_MB: u64 = 256;

/// What an attack tries to take.
const WANTED_MB: u64 = 2048;

/// How much more than its share a call may have for a moment, where somebody looks from time to time.
const MARGIN_MB: u64 = 384;

/// What the machine has in memory files, temporary file systems and shared mappings, in MB.
fn shared_mb() -> u64 {
    field(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default(), "Shmem:")
}

/// What processes have of their own, in MB.
fn private_mb(mark: &Mark) -> u64 {
    let of = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/status")).map_or(0, |it| field(&it, "RssAnon:"));
    mark.processes().iter().map(of).sum()
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// The most memory that the machine had more than before while an attack ran.
struct Watch {
    stop: Arc<AtomicBool>,
    looking: tokio::task::JoinHandle<u64>,
}

impl Watch {
    fn start(mark: &Mark) -> Self {
        let (stop, before, mark) = (Arc::new(AtomicBool::new(false)), shared_mb(), mark.clone());
        let stopped = Arc::clone(&stop);
        let looking = tokio::task::spawn_blocking(move || {
            let mut most = 0;
            while !stopped.load(Ordering::Relaxed) {
                most = most.max(shared_mb().saturating_sub(before) + private_mb(&mark));
            }
            most
        });
        Self { stop, looking }
    }

    async fn most_mb(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.looking.await.unwrap()
    }
}

/// The limits of the skills `memory_KIND`.
pub(super) fn limits() -> String {
    format!("limits: {{memory_mb: {LIMIT_MB}, file_size_mb: 64}}")
}

/// Attacks with memory that every jail counts.
pub(super) const ATTACKS: &[&str] =
    &["memory_files", "temporary_files", "shared_files", "shared_memory", "private_memory"];

async fn attack(scene: impl Future<Output = Option<Scene>>, attacks: &[&str]) {
    let _alone = alone();
    let Some(scene) = scene.await else { return };
    let Some(stage) = scene.own_temp().skills("memory", "attacks.py", &limits()).start().await else { return };
    are_bounded(stage.gateway(), attacks).await;
}

pub(super) async fn are_bounded(gateway: Gateway, attacks: &[&str]) {
    let mut wrong = Vec::new();
    for (attack, kind) in attacks.iter().flat_map(|attack| Kind::ALL.map(|kind| (*attack, kind.word()))) {
        let mark = Mark::new();
        let watch = Watch::start(&mark);
        let input = json!({"do": attack, "mark": mark.name(), "megabytes": WANTED_MB, "seconds": 0.5});
        let result = gateway.call(&format!("memory_{kind}"), input, 30_000).await;
        let most_mb = watch.most_mb().await;
        let end = match &result.error {
            Some(error) => format!("{}: {}", code(&result), error.message),
            None => data(&result).to_string(),
        };
        // Files on a disk are no memory; in memory they are counted.
        let taken_mb = if result.success { data(&result)["megabytes"].as_u64().unwrap() } else { 0 };
        let is_on_disk = attack == "temporary_files" && most_mb < LIMIT_MB;
        let is_refused = result.success && (taken_mb <= LIMIT_MB || is_on_disk);
        let is_clear = !result.success && end.contains("memory");
        if !(is_refused || is_clear) || most_mb > LIMIT_MB + MARGIN_MB {
            wrong.push(format!("{attack} of {kind}: {end}; the machine had {most_mb} MB more"));
        }
        gateway.value(&format!("memory_{kind}"), json!({"do": "works"})).await;
    }
    assert!(wrong.is_empty(), "{WANTED_MB} MB where {LIMIT_MB} MB are allowed: {wrong:#?}");
}

async fn memory_of_every_kind_is_bounded(worker: Worker) {
    attack(Scene::new(worker), ATTACKS).await;
}

async fn pages_that_nothing_counts_are_refused(worker: Worker) {
    let Some(scene) = Scene::new(worker).await else { return };
    let Some(stage) = scene.skills("attack", "attacks.py", "").start().await else { return };
    for kind in Kind::ALL {
        let refused = stage.value(&format!("attack_{}", kind.word()), json!({"do": "reserved_pages"})).await;
        assert!(["EINVAL", "ENOSYS"].iter().any(|error| refused == json!(["ENOMEM", error])), "{refused}");
    }
    // Those of a process of its own may be counted by the kernel.
    for attack in ["pages_of_processes", "pages_of_files", "sent_pages_of_files"] {
        let taken = stage.value("attack_fork", json!({"do": attack, "megabytes": WANTED_MB, "seconds": 0})).await;
        assert_eq!(taken, json!({"megabytes": 0, "refused": "EINVAL"}), "{attack}");
    }
}

/// Without namespaces, where the device is that of the machine.
async fn mappings_of_zeros_are_bounded(worker: Worker) {
    attack(Scene::at(worker, LEVELS[0]), &["zero_mappings"]).await;
}

async fn what_imports_have_loaded_counts_once_for_a_call(worker: Worker) {
    let Some(scene) = Scene::new(worker).await else { return };
    // More than half of it, so that twice as much is too much.
    scene.skill("large", Kind::Fork, "large.py", "limits: {memory_mb: 448}");
    let Some(stage) = scene.start().await else { return };
    for _ in 0..3 {
        assert_eq!(stage.value("large", json!({"seconds": 0.4})).await, json!(300));
    }
}

async fn a_fork_server_is_counted_with_all_its_calls(worker: Worker) {
    let Some(stage) = (match Scene::new(worker).await {
        Some(scene) => scene.skills("attack", "attacks.py", "").start().await,
        None => return,
    }) else {
        return;
    };
    let mut groups = Vec::new();
    for kind in [Kind::Process, Kind::Fork] {
        let (mark, told) = (Mark::new(), stage.path("data/stays"));
        let input = json!({"do": "stay", "tell": "stays", "mark": mark.name()});
        let call = InvokeRequest { timeout_ms: 60_000, ..request(&format!("attack_{}", kind.word()), input) };
        let mut client = stage.system.skills().await;
        let staying = tokio::spawn(async move { drop(client.invoke(call).await) });
        until_true("it stays", PATIENCE, || told.exists()).await;
        let pid = mark.processes().into_iter().next().unwrap();
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        groups.push(text.lines().any(|line| line.contains("/openskill-") && line.contains("/run-")));
        staying.abort();
        std::fs::remove_file(told).unwrap();
    }
    assert_eq!(groups[0], groups[1], "a process of its own, and a call of a fork server");
}

super::for_each_worker! {
    mappings_of_zeros_are_bounded
    what_imports_have_loaded_counts_once_for_a_call
    a_fork_server_is_counted_with_all_its_calls
    memory_of_every_kind_is_bounded
    pages_that_nothing_counts_are_refused
}
