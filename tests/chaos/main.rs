//! The chaos runner kills, stops, floods and restarts a gateway and its workers under load, and checks the invariants.
//! `make chaos` runs all phases; each phase is a file of its own.
//!
//! - [`stage`]: the processes; [`skills`]: what they run
//! - [`link`], [`call`], [`load`], [`proxy`]: the clients
//! - [`journal`], [`gateway_log`], [`ledger`]: the witnesses of each call, and whether they agree
//! - [`table`]: the report

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::print_stdout)]

mod call;
mod deadlines;
mod ejection;
mod faults;
mod gateway_log;
mod journal;
mod leaks;
mod ledger;
mod link;
mod load;
mod overload;
mod proxy;
mod random;
mod settings;
mod sightings;
mod sigterm;
mod skills;
mod stage;
mod starvation;
mod table;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser as _, ValueEnum as _};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_tests::interrupt::interrupted;
use openskill_tests::processes;
use tokio::task::JoinSet;

use call::Called;
use settings::{Phase, Settings};
use table::{Row, Table};

/// The limit of a phase.
const LIMIT: Duration = Duration::from_secs(480);

fn main() -> ExitCode {
    let settings = Settings::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("the system has threads and descriptors");
    let ended = runtime.block_on(async {
        tokio::select! {
            table = run(&settings) => Some(table),
            () = interrupted() => None,
        }
    });
    // The processes that tasks started end with them.
    drop(runtime);
    let Some(table) = ended else {
        eprintln!("interrupted");
        return ExitCode::from(130);
    };
    println!("{}\n{}", table.text(), about(&settings));
    if table.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run(settings: &Settings) -> Table {
    eprintln!("{}", about(settings));
    let mut table = Table::default();
    for phase in Phase::value_variants().iter().copied().filter(|it| settings.runs(*it)) {
        let name = format!("{phase:?}").to_lowercase();
        eprintln!("{name} ...");
        let begun = Instant::now();
        table.add(&name, bounded(run_phase(phase, settings.clone())).await);
        eprintln!("{name} took {:.0} s", begun.elapsed().as_secs_f64());
    }
    table.add("end", left_behind());
    table
}

/// Leftovers of the whole run.
fn left_behind() -> Vec<Row> {
    let own = std::process::id();
    let processes = processes::descendants(own as i32).len();
    let is_ours = |name: &str| name.starts_with(&format!("openskill-test-{own}-"));
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    let folders = entries.filter(|it| it.file_name().to_str().is_some_and(is_ours)).count();
    vec![Row::none("leftover processes", processes), Row::none("leftover temporary directories", folders)]
}

fn run_phase(phase: Phase, settings: Settings) -> BoxFuture<'static, Vec<Row>> {
    match phase {
        Phase::Faults => faults::run(settings).boxed(),
        Phase::Ejection => ejection::run(settings).boxed(),
        Phase::Overload => overload::run(settings).boxed(),
        Phase::Starvation => starvation::run(settings).boxed(),
        Phase::Deadlines => deadlines::run(settings).boxed(),
        Phase::Leaks => leaks::run(settings).boxed(),
        Phase::Sigterm => sigterm::run(settings).boxed(),
    }
}

/// A phase that hangs or panics is a failed row; the others go on.
async fn bounded(phase: BoxFuture<'static, Vec<Row>>) -> Vec<Row> {
    let mut task = JoinSet::new();
    task.spawn(phase);
    let failure = match tokio::time::timeout(LIMIT, task.join_next()).await {
        Ok(Some(Ok(rows))) => return rows,
        Ok(_) => "it panicked".to_owned(),
        Err(_) => format!("not within {} s", LIMIT.as_secs()),
    };
    task.shutdown().await;
    vec![Row::must("the phase ends by itself", failure, "yes", false)]
}

fn about(settings: &Settings) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let date = gateway_log::date(gateway_log::now());
    let scale =
        if settings.scale == 1.0 { String::new() } else { format!(", scale {}: not a full run", settings.scale) };
    format!("seed {}, {cores} cores, {date}{scale}", settings.seed)
}

/// The prefix of a phase's call ids, unique to this run.
fn prefix(phase: &str) -> String {
    format!("chaos-{}-{phase}-", std::process::id())
}

/// Prints how unexpected calls ended.
fn explain<'a>(what: &str, failed: impl Iterator<Item = &'a Called>) {
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for call in failed {
        *ends.entry(format!("{} of {} at '{}'", call.end.label(), call.skill, call.worker)).or_default() += 1;
    }
    for (end, count) in ends {
        eprintln!("  {what}: {count} x {end}");
    }
}
