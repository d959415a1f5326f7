//! Kills gateways and workers at random moments, while clients submit, cancel and read operations.

use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::audit::audit;
use super::client::Client;
use super::plan::{Cancel, Plan, PlannedCall, Read, Start};
use super::report::Report;
use super::stage::{Layout, Stage, Store};
use crate::postgres::cluster::Cluster;

/// How long clients may take after the last fault.
const LIMIT: Duration = Duration::from_secs(90);

/// Runs a plan with `openskill up` on SQLite.
pub async fn run(name: &str, plan: Plan, workers: usize) -> Report {
    run_on(name, plan, Stage::new(Layout::Up { workers }, None).await).await
}

/// Runs a plan with two gateways that share two workers and an empty PostgreSQL database.
pub async fn run_shared(name: &str, plan: Plan, url: String) -> Report {
    let layout = Layout::Apart { gateways: 2, workers: 2 };
    run_on(name, plan, Stage::new(layout, Some(Store::Postgres(url))).await).await
}

/// Runs a plan with three gateways and four workers. Their database is a cluster, of which the plan takes the primary.
pub async fn run_failover(name: &str, plan: Plan, cluster: Cluster) -> Report {
    let layout = Layout::Apart { gateways: 3, workers: 4 };
    run_on(name, plan, Stage::with_cluster(layout, cluster).await).await
}

async fn run_on(name: &str, plan: Plan, mut stage: Stage) -> Report {
    stage.start().await;
    let mut clients = spawn_clients(&stage, &plan.calls);
    let begun = Instant::now();
    for fault in &plan.faults {
        tokio::time::sleep_until(begun + fault.at).await;
        stage.strike(fault.victim).await;
    }
    stage.resume().await;
    finish(&mut clients).await;
    audit(&mut stage.client(), &stage.journal).await;
    stage.stop().await;
    Report::new(name, &stage, plan.faults.len())
}

/// Starts the clients of these calls.
pub(super) fn spawn_clients(stage: &Stage, calls: &[PlannedCall]) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    let (begun, addresses) = (Instant::now(), stage.addresses());
    for (position, call) in calls.iter().enumerate() {
        for number in 0..call.clients {
            let client = Client::new(&addresses, position + number, &stage.journal);
            let (call, starts) = (call.clone(), stage.starts());
            clients.spawn(async move {
                tokio::time::sleep_until(begun + call.at).await;
                follow(client, &call, starts, number == 0).await;
            });
        }
    }
    clients
}

/// Waits until all clients have what they want, or `LIMIT` has passed.
pub(super) async fn finish(clients: &mut JoinSet<()>) {
    let all = async {
        while let Some(ended) = clients.join_next().await {
            ended.expect("a client does not panic");
        }
    };
    let _ = tokio::time::timeout(LIMIT, all).await;
    // What they still wait for, the audit finds.
    clients.shutdown().await;
}

/// Submits a call. The first client of a call cancels it, if planned, and reads its result.
async fn follow(mut client: Client, call: &PlannedCall, mut starts: watch::Receiver<u64>, is_first: bool) {
    let Some(name) = client.submit(call).await else { return };
    if !is_first {
        return;
    }
    let (mut canceller, is_read) = (client.clone(), Notify::new());
    let cancel = async {
        match call.cancel {
            Cancel::No => return,
            Cancel::After(delay) => tokio::time::sleep(delay).await,
            Cancel::AtRestart => {
                starts.mark_unchanged();
                tokio::select! {
                    _ = starts.changed() => {}
                    () = is_read.notified() => return,
                }
            }
        }
        canceller.cancel(&call.key, &name).await;
    };
    let read = async {
        match call.read {
            _ if call.start == Start::Never => {}
            Read::Get => client.poll(&call.key, &name).await,
            Read::Wait => client.wait(&call.key, &name).await,
            Read::Watch => client.watch(&call.key, &name).await,
        }
        is_read.notify_one();
    };
    tokio::join!(cancel, read);
}
