//! Many hostile calls of all kinds at once, while supervisors, fork servers and workers are killed: nothing of it is left.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use openskill_proto::v1::{InvokeRequest, WorkerStatus};
use openskill_tests::alone::alone;
use openskill_tests::processes;
use openskill_tests::soak::count;
use openskill_tests::system::{PATIENCE, code, request};
use openskill_tests::wait::{until, until_none_is_left, until_true};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::remains::{GONE, Mark, own_processes, temporary_files};
use super::stage::{Kind, Scene, Stage, Worker};

/// How many calls are made at once.
const AT_ONCE: usize = 8;

/// So many calls lie between two kills, of another process each time.
const BETWEEN_KILLS: usize = 25;

/// The attacks, each with its deadline in milliseconds.
const ATTACKS: [(&str, u32); 24] = [
    ("works", 20_000),
    ("leave_thread", 500),
    ("leave_thread_behind", 5000),
    ("leave_forking_thread", 700),
    ("daemon", 5000),
    ("bomb", 3000),
    ("wild_bomb", 600),
    ("threads", 3000),
    ("stopped", 500),
    ("deaf", 500),
    ("kills_all", 3000),
    ("closes_all", 500),
    ("descriptors", 3000),
    ("much_output", 3000),
    ("crashes", 3000),
    ("exits", 3000),
    ("memory_files", 3000),
    ("shared_memory", 3000),
    ("leave", 3000),
    ("leave_files", 3000),
    ("leave_folders", 3000),
    ("close_temp", 3000),
    ("lease", 3000),
    ("works", 20_000),
];

/// What there is on the machine that a call could have made and left. A namespace is there as long as a process is in it, a
/// descriptor is open, or a mount holds it.
#[derive(Debug)]
struct Machine {
    processes: BTreeSet<i32>,
    mounts: BTreeSet<String>,
    cgroups: BTreeSet<PathBuf>,
}

impl Machine {
    fn now() -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mounts = mounts.lines().map(|line| line.split(' ').skip(2).collect::<Vec<_>>().join(" ")).collect();
        let mut cgroups = BTreeSet::new();
        folders(Path::new("/sys/fs/cgroup"), &mut cgroups);
        Self { processes: numbers().collect(), mounts, cgroups }
    }

    /// What is there that was not there before, for people. `workers`: all that there were, whose names their control groups
    /// have; other workers may run on this machine.
    fn more_than(before: &Self, uid: u32, workers: &BTreeSet<i32>) -> Vec<String> {
        let now = Self::now();
        let mut more = Vec::new();
        for (pid, line) in own_processes(uid, &before.processes) {
            more.push(format!("process {pid} {line} {:?}", namespaces_of(pid)));
        }
        more.extend(now.mounts.difference(&before.mounts).map(|it| format!("mount {it}")));
        let is_ours = |it: &&PathBuf| workers.iter().any(|pid| it.to_string_lossy().contains(&format!("-{pid}-")));
        let cgroups = now.cgroups.difference(&before.cgroups).filter(is_ours);
        more.extend(cgroups.map(|it| format!("control group {}", it.display())));
        more
    }
}

fn numbers() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn namespaces_of(pid: i32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/ns")).into_iter().flatten().flatten();
    entries.filter_map(|it| Some(std::fs::read_link(it.path()).ok()?.display().to_string())).collect()
}

/// The namespaces that a process has open besides its own.
fn namespaces_held(pid: i32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let links = entries.filter_map(|it| Some(std::fs::read_link(it.path()).ok()?.display().to_string()));
    links
        .filter(|it| it.contains(":[") && !["pipe:", "socket:", "anon_inode:"].iter().any(|kind| it.starts_with(kind)))
        .collect()
}

fn folders(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|it| it.is_dir()) {
            found.insert(entry.path());
            folders(&entry.path(), found);
        }
    }
}

async fn nothing_is_left_of_a_storm(worker: Worker) {
    let _alone = alone();
    let before = Machine::now();
    let Some(scene) = Scene::new(worker).await else { return };
    let limits = "limits: {processes: 64, memory_mb: 256, file_size_mb: 16, open_files: 256}";
    let scene = scene.own_temp().skills("attack", "attacks.py", limits);
    let scene = scene.skills("neighbour", "attacks.py", "");
    // Warm processes end soon after the storm.
    let scene = scene.with("OPENSKILL_IDLE_MS", 300).with("OPENSKILL_DRAIN_TIMEOUT_MS", 500);
    let Some(mut stage) = scene.start().await else { return };
    let resting = at_rest(&stage).await;
    let mark = Mark::new();
    // Each attack of each kind at least once.
    let calls = count(100, 3000);
    let mut workers = rage(&stage, &mark, calls).await;
    until_none_is_left("threads", GONE, || mark.threads()).await;
    until_none_is_left("temporary files", GONE, || temporary_files(&stage.path("tmp"))).await;
    works_again(&stage).await;
    // As many descriptors as a worker at rest has: the last one may be another than the first.
    let worker = stage.worker();
    until_true("the worker is at rest", PATIENCE, || processes::descendants(worker).is_empty()).await;
    assert_eq!(namespaces_held(worker), [""; 0], "descriptors of namespaces");
    workers.extend([worker, stage.system.process.pid()]);
    let most = resting + 4;
    until_true(&format!("at most {most} descriptors are open"), GONE, || processes::descriptors(worker) <= most).await;
    stage.system.process.terminate();
    stage.system.process.ended().await;
    until_none_is_left("things", GONE, || Machine::more_than(&before, stage.uid, &workers)).await;
    let left = std::fs::read_dir(stage.path("tmp")).unwrap().flatten().map(|it| it.path()).collect::<Vec<_>>();
    assert!(left.is_empty(), "{left:?}");
}

/// The descriptors of a worker that has run calls of all kinds, and has no process.
async fn at_rest(stage: &Stage) -> usize {
    works_again(stage).await;
    let worker = stage.worker();
    until_true("the worker is at rest", PATIENCE, || processes::descendants(worker).is_empty()).await;
    processes::descriptors(worker)
}

async fn works_again(stage: &Stage) {
    let client = stage.system.skills().await;
    for kind in Kind::ALL {
        let skill = format!("neighbour_{}", kind.word());
        until(&format!("{skill} works"), PATIENCE, || async {
            let call = InvokeRequest { timeout_ms: 20_000, ..request(&skill, json!({"do": "works"})) };
            // A worker that was killed may still be missing, which is the status of the call.
            client.clone().invoke(call).await.is_ok_and(|it| it.get_ref().success).then_some(())
        })
        .await;
    }
}

/// Makes the calls, and kills something now and then. The workers that there were.
async fn rage(stage: &Stage, mark: &Mark, calls: usize) -> BTreeSet<i32> {
    let (mut workers, mut ran) = (BTreeSet::new(), 0);
    let client = stage.system.skills().await;
    let mut running = tokio::task::JoinSet::new();
    for number in 0..calls {
        if running.len() >= AT_ONCE {
            ran += usize::from(running.join_next().await.unwrap().unwrap());
        }
        let (attack, timeout_ms) = ATTACKS[number % ATTACKS.len()];
        let kind = Kind::ALL[number / ATTACKS.len() % Kind::ALL.len()];
        let skill = format!("attack_{}", kind.word());
        let call = InvokeRequest { timeout_ms, ..request(&skill, input(attack, mark, number)) };
        let mut client = client.clone();
        running.spawn(async move { client.invoke(call).await.is_ok_and(|it| code(it.get_ref()) != "UNAVAILABLE") });
        if number % BETWEEN_KILLS == BETWEEN_KILLS - 1 {
            workers.extend(stage.system.worker_pids());
            kill_something(stage, number / BETWEEN_KILLS);
            until("a worker is up", PATIENCE, || async {
                let up = stage.system.workers().await.iter().any(|it| it.status() == WorkerStatus::Up);
                (up && !stage.system.worker_pids().is_empty()).then_some(())
            })
            .await;
        }
    }
    let rest = tokio::time::timeout(PATIENCE, running.join_all()).await.expect("all calls end");
    ran += rest.into_iter().filter(|it| *it).count();
    assert!(ran > calls * 8 / 10, "only {ran} of {calls} calls reached a worker");
    workers
}

fn input(attack: &str, mark: &Mark, number: usize) -> Value {
    let word = format!("storm{number}");
    json!({"do": attack, "mark": mark.name(), "megabytes": 512, "seconds": 0.1, "word": word, "files": 3000, "folders": 300})
}

/// In turn: supervisors, what supervisors have started, and every fourth time the worker.
fn kill_something(stage: &Stage, turn: usize) {
    let Some(worker) = stage.system.worker_pids().first().copied() else { return };
    let supervisors = processes::children(worker, "supervise");
    let below = |pid: &i32| processes::descendants(*pid).into_iter().next();
    let victims: Vec<i32> = match turn % 4 {
        0 => supervisors.into_iter().take(2).collect(),
        1 => supervisors.iter().filter_map(below).take(2).collect(),
        2 => supervisors.iter().rev().flat_map(|it| processes::descendants(*it)).take(3).collect(),
        _ => vec![worker],
    };
    victims.into_iter().for_each(|pid| processes::send(pid, Signal::KILL));
}

super::for_each_worker! { nothing_is_left_of_a_storm }
