//! Memory: each contender alone on the machine, so that no page is shared with another; and a gateway with ten thousand
//! calls under way.

use std::time::{Duration, Instant};

use openskill_proto::v1::ListWorkersRequest;
use openskill_proto::v1::admin_service_client::AdminServiceClient;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_tests::folder::Folder;
use openskill_tests::system::{System, request};
use serde_json::json;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::contenders::Contender;
use crate::load::{Timing, measure};
use crate::place::openskill::{shipped, started};
use crate::place::{Pythons, Running};
use crate::usage::Memory;

/// Callers of the load, and how long it is looked at.
const CALLERS: usize = 256;
const LOOKED_AT: Duration = Duration::from_millis(1200);
const LOOK: Duration = Duration::from_millis(100);

/// Calls under way at once, over so many connections: one takes up to 1,024.
pub(crate) const MANY: usize = 10_000;
const CONNECTIONS: usize = 20;

/// Some processes of a contender.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) id: &'static str,
    pub(crate) what: String,
    pub(crate) part: &'static str,
    pub(crate) rest: Memory,
    pub(crate) load: Memory,
}

/// Who stands for others here: what is off changes no memory worth a line.
const LOOKED: [&str; 11] = [
    "bare2-current",
    "bare2-multi",
    "invoke",
    "fork",
    "shared",
    "process",
    "mcp-stdio",
    "fastapi-1",
    "fastapi-2",
    "mcpo",
    "proxy-stdio",
];

pub(crate) async fn run(contenders: &[Contender], pythons: &Pythons) -> Vec<Part> {
    let mut parts = Vec::new();
    for contender in contenders.iter().filter(|it| LOOKED.contains(&it.id)) {
        eprintln!("memory of {}", contender.id);
        match of(contender, pythons).await {
            Ok(found) => parts.extend(found),
            Err(reason) => eprintln!("{}: {reason}", contender.id),
        }
    }
    if contenders.iter().any(|it| it.id == "invoke") {
        eprintln!("memory with {MANY} calls in flight");
        match with_many().await {
            Ok(found) => parts.extend(found),
            Err(reason) => eprintln!("{MANY} in flight: {reason}"),
        }
    }
    parts
}

async fn of(contender: &Contender, pythons: &Pythons) -> Result<Vec<Part>, String> {
    let running = contender.place.start(pythons).await?;
    let rest = running.memory();
    let timing = Timing { warm: LOOKED_AT / 4, measured: LOOKED_AT };
    // Ends with the contender: the calls that a slow one still has are not waited for.
    let load = tokio::spawn(measure(contender.target(&running), CALLERS, timing, running.roots.clone()));
    let most = most(&running, Instant::now() + LOOKED_AT).await;
    drop(running);
    load.abort();
    Ok(parts(contender.id, contender.what, &rest, &most))
}

/// The most there was at a look.
async fn most(running: &Running, until: Instant) -> Vec<(&'static str, Memory)> {
    let sum = |parts: &[(&str, Memory)]| parts.iter().map(|(_, memory)| memory.pss_kib).sum::<u64>();
    let mut most = running.memory();
    while Instant::now() < until {
        tokio::time::sleep(LOOK).await;
        let now = running.memory();
        if sum(&now) > sum(&most) {
            most = now;
        }
    }
    most
}

fn parts(id: &'static str, what: &str, rest: &[(&'static str, Memory)], load: &[(&'static str, Memory)]) -> Vec<Part> {
    let at_rest = |name: &str| rest.iter().find(|(part, _)| *part == name).map(|(_, memory)| *memory);
    let part = |(part, load): &(&'static str, Memory)| Part {
        id,
        what: what.to_owned(),
        part,
        rest: at_rest(part).unwrap_or_default(),
        load: *load,
    };
    load.iter().map(part).collect()
}

/// A gateway and a worker that may have so many calls, and have them.
async fn with_many() -> Result<Vec<Part>, String> {
    let folder = Folder::new();
    folder.write("skills/wait.yaml", "id: wait\ntype: inproc\nentry: wait\n");
    let places = MANY * 2;
    let setup = shipped(&folder, 1)
        .with("OPENSKILL_MAX_IN_FLIGHT", places)
        .with("OPENSKILL_MAX_IN_FLIGHT_PER_SKILL", places)
        .with("OPENSKILL_WORKER_CONCURRENCY", MANY)
        .with("OPENSKILL_WORKER_QUEUE", MANY)
        .with("OPENSKILL_ADAPTIVE_LIMIT", 0)
        .with("OPENSKILL_TIMEOUT_MS", 120_000);
    let running = started(setup, Vec::new(), folder, "wait").await?;
    let rest = running.memory();
    let system = running.system()?;
    let mut calls = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let client = system.skills().await;
        for _ in 0..MANY / CONNECTIONS {
            calls.spawn(wait(client.clone()));
        }
    }
    all_under_way(system, &mut calls).await?;
    let load = running.memory();
    calls.abort_all();
    Ok(parts("many-calls", &format!("openskill with {MANY} calls of `wait`"), &rest, &load))
}

/// A call that takes longer than it is looked at.
async fn wait(mut client: SkillServiceClient<Channel>) -> String {
    let ended = client.invoke(request("wait", json!({"ms": 100_000}))).await;
    ended.map_or_else(|status| status.message().to_owned(), |answer| answer.into_inner().text)
}

async fn all_under_way(system: &System, calls: &mut JoinSet<String>) -> Result<(), String> {
    let mut admin: AdminServiceClient<Channel> = system.admin().await;
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if let Some(Ok(ended)) = calls.try_join_next() {
            return Err(format!("a call ended early: {ended}"));
        }
        let answer = admin.list_workers(ListWorkersRequest {}).await.map_err(|status| status.message().to_owned())?;
        let in_flight: u32 = answer.get_ref().workers.iter().map(|worker| worker.in_flight).sum();
        if in_flight as usize >= MANY {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
    Err("they did not all begin".to_owned())
}
