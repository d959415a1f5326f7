//! Makes histories of operations while gateways and workers are killed, and checks them. `make histories` runs all scenarios.
//!
//! - `kill`: `openskill up` on SQLite; the gateway, its workers or everything is killed at random moments
//! - `shared`: two gateways share two workers and PostgreSQL; gateways and workers are killed, and gateways are stopped for a while
//! - `failover`: three gateways share four workers and a PostgreSQL cluster, whose primary is lost or hangs again and again
//! - `boundaries`: a gateway on SQLite is killed at each sync to disk, and at some writes

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::print_stdout)]

mod settings;

use std::process::ExitCode;

use clap::Parser as _;
use openskill_tests::history::boundaries::{self, Boundary, PreparedStore};
use openskill_tests::history::kill;
use openskill_tests::history::plan::Plan;
use openskill_tests::history::report::Report;
use openskill_tests::interrupt::interrupted;
use openskill_tests::postgres::cluster::Cluster;
use openskill_tests::postgres::{Postgres, Server};

use settings::{Scenario, Settings};

/// Faults, a second.
const FAULTS: f64 = 0.4;
const SHARED_FAULTS: f64 = 0.2;
const FAILOVER_FAULTS: f64 = 0.15;

/// How many syncs of a store that is created, and of one that is there, have a gateway killed.
const FRESH: usize = 8;
const BOUNDARIES: usize = 40;

/// How many writes have a gateway killed, and how far apart they are.
const WRITES: usize = 20;
const WRITE_STEP: usize = 17;

fn main() -> ExitCode {
    let settings = Settings::parse();
    println!("seed {}: SEED={} make histories repeats the plan", settings.seed, settings.seed);
    // One thread: what it starts ends with it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system has threads and descriptors");
    let ended = runtime.block_on(async {
        tokio::select! {
            is_valid = run(&settings) => Some(is_valid),
            () = interrupted() => None,
        }
    });
    match ended {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::FAILURE,
        None => {
            eprintln!("interrupted");
            ExitCode::from(130)
        }
    }
}

/// Runs the scenarios. Returns whether all histories are valid.
async fn run(settings: &Settings) -> bool {
    let mut is_valid = true;
    if settings.only.contains(&Scenario::Kill) {
        for workers in 1..=2 {
            let within = settings.time() / 2;
            let (calls, faults) = (settings.calls() / 2, settings.count(FAULTS) / 2);
            let plan = Plan::random(2 * settings.seed() + workers, within, calls, faults);
            let name = format!("kill-{}-{workers}", settings.seed);
            is_valid &= print(&kill::run(&name, plan, workers as usize).await);
        }
    }
    if settings.only.contains(&Scenario::Shared) {
        is_valid &= run_shared(settings).await;
    }
    if settings.only.contains(&Scenario::Failover) {
        is_valid &= run_failover(settings).await;
    }
    if settings.only.contains(&Scenario::Boundaries) {
        if !boundaries::can_trace() {
            println!("boundaries: skipped, because strace is not there or may not trace");
            return is_valid;
        }
        let prepared = PreparedStore::new().await;
        is_valid &= run_boundaries("fresh", None, Boundary::Sync, 1..=FRESH).await;
        is_valid &= run_boundaries("sync", Some(&prepared), Boundary::Sync, 1..=BOUNDARIES).await;
        let first = settings.seed as usize % WRITE_STEP;
        let writes = (1..=WRITES).map(|it| first + it * WRITE_STEP);
        is_valid &= run_boundaries("write", Some(&prepared), Boundary::Write, writes).await;
    }
    is_valid
}

/// Runs gateways that share the newest and the oldest PostgreSQL that is here.
async fn run_shared(settings: &Settings) -> bool {
    let versions = [("newest", Postgres::or_skip()), ("oldest", Postgres::oldest_or_skip())];
    let mut is_valid = true;
    for (version, programs) in versions.into_iter().filter_map(|(version, it)| Some((version, it?))) {
        let server = Server::start(&programs).await;
        let (calls, faults) = (settings.calls(), settings.count(SHARED_FAULTS));
        let plan = Plan::shared(settings.seed(), settings.time(), calls, faults);
        let name = format!("shared-{}-{version}", settings.seed);
        is_valid &= print(&kill::run_shared(&name, plan, server.url(&server.database())).await);
    }
    is_valid
}

/// Runs gateways whose database loses its primary.
async fn run_failover(settings: &Settings) -> bool {
    let Some(programs) = Postgres::or_skip() else { return true };
    let (calls, faults) = (settings.calls(), settings.count(FAILOVER_FAULTS));
    let plan = Plan::failover(settings.seed(), settings.time(), calls, faults);
    let cluster = Cluster::start(&programs).await;
    print(&kill::run_failover(&format!("failover-{}", settings.seed), plan, cluster).await)
}

/// Kills a gateway at each of these boundaries. Returns whether all histories are valid.
async fn run_boundaries(
    name: &str,
    prepared: Option<&PreparedStore>,
    boundary: Boundary,
    numbers: impl IntoIterator<Item = usize>,
) -> bool {
    let mut is_valid = true;
    for number in numbers {
        match boundaries::run(&format!("{name}-{number}"), prepared, boundary, number).await {
            Some(report) => is_valid &= print(&report),
            None => {
                println!("{name}: a thread has fewer than {number}");
                break;
            }
        }
    }
    is_valid
}

/// Prints a report. Returns whether its history is valid.
fn print(report: &Report) -> bool {
    println!("{report}");
    report.violations.is_empty()
}
