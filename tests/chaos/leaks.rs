//! Twenty thousand calls of all kinds leak nothing: no descriptor, no process, no file, no memory.
//!
//! - `kinds`: the calls
//! - `memory`: the memory of the processes over time

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_tests::processes;
use tokio::task::JoinSet;

use crate::call::Caller;
use crate::random::Random;
use crate::settings::Settings;
use crate::stage::{Plan, Stage, worker_id};
use crate::table::Row;

mod kinds;
mod memory;

use memory::Memory;

const WARM_UP: usize = 1000;
const CALLS: usize = 20_000;
const CALLERS: usize = 16;

/// Enough for each shard of the gateway to connect to each worker.
const LINKS: usize = 16;

/// How long it may take until the counts are back.
const SETTLES: Duration = Duration::from_secs(30);

/// Counts that did not change for this long have settled.
const SETTLED: Duration = Duration::from_secs(3);

/// Everything that could leak.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Belongings {
    /// Of the gateway, then of each worker.
    descriptors: Vec<usize>,
    descendants: BTreeSet<i32>,
    zombies: Vec<i32>,
    files: BTreeSet<String>,
}

pub(crate) async fn run(settings: Settings) -> Vec<Row> {
    // Warm processes end as soon as they may.
    let stage = Stage::start(Plan::default().workers("OPENSKILL_IDLE_MS", 200)).await;
    let caller = Caller::new(crate::prefix("leaks"), stage.links(LINKS));
    make(&stage, &caller, settings.count(WARM_UP), Random::new(settings.seed, "warm-up")).await;
    let before = settled(&stage, &caller, None).await;
    let memory = Memory::watch(stage.pids().await);
    let begun = Instant::now();
    let calls = settings.count(CALLS);
    let ends = make(&stage, &caller, calls, Random::new(settings.seed, "leaks")).await;
    let took = begun.elapsed();
    let memory = memory.stop().await;
    let after = settled(&stage, &caller, Some(&before)).await;
    let mut rows = vec![Row::info("calls", format!("{calls} in {:.0} s: {ends}", took.as_secs_f64()))];
    rows.extend(compare(&before, &after));
    rows.extend(memory.rows(&names()));
    rows
}

fn names() -> Vec<String> {
    let workers = (0..crate::stage::WORKERS).map(|number| format!("worker {}", worker_id(number)));
    std::iter::once("gateway".to_owned()).chain(workers).collect()
}

/// Makes the calls, and tells how they ended.
async fn make(stage: &Arc<Stage>, caller: &Caller, count: usize, mut random: Random) -> String {
    let mut tasks = JoinSet::new();
    for number in 0..CALLERS {
        let (stage, caller) = (Arc::clone(stage), caller.clone());
        let mut random = Random::new(random.next(), &format!("caller {number}"));
        let share = count / CALLERS + usize::from(number < count % CALLERS);
        tasks.spawn(async move {
            let mut ends = Vec::new();
            while ends.len() < share {
                ends.extend(kinds::any(&stage, &caller, &mut random).await);
            }
            ends
        });
    }
    kinds::summary(tasks.join_all().await.into_iter().flatten())
}

/// The counts once they have settled or match; after a while in any case.
async fn settled(stage: &Stage, caller: &Caller, wanted: Option<&Belongings>) -> Belongings {
    caller.close();
    stage.close();
    let limit = Instant::now() + SETTLES;
    let mut last = belongings(stage).await;
    let mut since = Instant::now();
    loop {
        let done = match wanted {
            Some(wanted) => *wanted == last,
            None => since.elapsed() > SETTLED,
        };
        if done || Instant::now() > limit {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = belongings(stage).await;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

async fn belongings(stage: &Stage) -> Belongings {
    let pids = stage.pids().await;
    let mut files = BTreeSet::new();
    list(stage.folder.path(), &mut files);
    Belongings {
        descriptors: pids.iter().map(|pid| processes::descriptors(*pid)).collect(),
        descendants: pids.iter().flat_map(|pid| processes::descendants(*pid)).collect(),
        zombies: pids.iter().flat_map(|pid| processes::zombies(*pid)).collect(),
        files,
    }
}

fn list(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        found.insert(entry.path().display().to_string());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&entry.path(), found);
        }
    }
}

fn compare(before: &Belongings, after: &Belongings) -> Vec<Row> {
    let new_files: Vec<_> = after.files.symmetric_difference(&before.files).collect();
    if !new_files.is_empty() {
        eprintln!("  files that appeared or vanished: {new_files:?}");
    }
    let list = |counts: &[usize]| counts.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let count = |all: &Belongings| format!("{} and {} zombies", all.descendants.len(), all.zombies.len());
    let same_processes = after.descendants == before.descendants && after.zombies.is_empty();
    vec![
        Row::must(
            "descriptors of gateway and workers",
            list(&after.descriptors),
            list(&before.descriptors),
            after.descriptors == before.descriptors,
        ),
        Row::must("processes they started", count(after), count(before), same_processes),
        Row::none("files that appeared or vanished", new_files.len()),
    ]
}
