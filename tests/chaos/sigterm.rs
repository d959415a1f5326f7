//! SIGTERM under load. A gateway finishes what it accepted before it exits; a rolling restart of workers fails no call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::call::{Caller, Job, any_session};
use crate::gateway_log::{self, Line};
use crate::journal::{Attempt, End};
use crate::ledger::Ledger;
use crate::load::{Mix, OpenLoad};
use crate::random::Random;
use crate::settings::Settings;
use crate::skills;
use crate::stage::{Plan, Stage, WORKERS};
use crate::table::{Row, milliseconds};

const RESTARTS: usize = 20;
const ROUNDS: usize = 8;

/// Calls per second: enough that some always run, too few for overload while a worker restarts.
const LOAD: f64 = 30.0;

/// How long a gateway serves before it gets SIGTERM.
const SERVES: Duration = Duration::from_secs(1);

pub(crate) async fn run(settings: Settings) -> Vec<Row> {
    let plan = Plan::without_circuits();
    let stage = Stage::start(plan).await;
    let mut rows = gateways(&stage, &settings).await;
    rows.extend(workers(&stage, &settings).await);
    rows
}

async fn gateways(stage: &Arc<Stage>, settings: &Settings) -> Vec<Row> {
    let caller = Caller::new(crate::prefix("sigterm-gateway"), stage.links(8));
    let load = OpenLoad::start(&caller, &mix(Duration::from_secs(15)), LOAD, Random::new(settings.seed, "sigterm"));
    let (mut disorderly, mut longest) = (0, Duration::ZERO);
    for _ in 0..settings.count(RESTARTS) {
        tokio::time::sleep(SERVES).await;
        let signalled = Instant::now();
        disorderly += usize::from(!stage.replace_gateway(Signal::TERM).await.success());
        longest = longest.max(signalled.elapsed());
        stage.wait_until_up(WORKERS).await;
    }
    let calls = load.stop().await.finish().await;
    let lines = gateway_log::read_all(&stage.gateway_log(), caller.prefix()).await;
    let ledger = Ledger { attempts: caller.journal().attempts(), lines, effects: stage.effects(), killed: Vec::new() };
    let found = ledger.disagreements();
    for it in found.iter().take(10) {
        eprintln!("  {:?}: {}", it.kind, it.call_id);
    }
    crate::explain("calls while the gateway is replaced", calls.iter().filter(|it| !it.is_ok()));
    let failed = calls.iter().filter(|it| !it.is_ok()).count();
    let retried = calls.iter().filter(|it| it.attempts > 1).count();
    vec![
        Row::info(
            "gateways replaced",
            format!("{}; the longest took {}", settings.count(RESTARTS), milliseconds(longest)),
        ),
        Row::none("gateways whose exit status was not 0", disorderly),
        Row::info("calls", format!("{}; {retried} were retried, {failed} did not succeed", calls.len())),
        Row::none("accepted calls that were lost", lost(&ledger.attempts, &ledger.lines)),
        Row::none("disagreements between client, log and effects", found.len()),
    ]
}

/// Attempts that the gateway accepted or logged, and that have no answer.
fn lost(attempts: &[Attempt], lines: &[Line]) -> usize {
    let logged: HashMap<_, _> = lines.iter().map(|line| (line.call_id.as_str(), line)).collect();
    let taken = |it: &&Attempt| it.accepted || logged.contains_key(it.call_id.as_str());
    let unanswered = attempts.iter().filter(taken).filter(|it| !it.ends.iter().any(End::is_answer));
    let mut count = 0;
    for it in unanswered {
        let code = logged.get(it.call_id.as_str()).map(|line| line.code.as_str());
        eprintln!("  lost: {} accepted {} ends {:?} logged {code:?}", it.call_id, it.accepted, it.ends);
        count += 1;
    }
    count
}

async fn workers(stage: &Arc<Stage>, settings: &Settings) -> Vec<Row> {
    let caller = Caller::new(crate::prefix("sigterm-workers"), stage.links(8));
    // No retry: the gateway alone must avoid failures.
    let load = OpenLoad::start(&caller, &mix(Duration::ZERO), LOAD, Random::new(settings.seed, "rolling"));
    let mut disorderly = 0;
    let rounds = settings.count(ROUNDS);
    for _ in 0..rounds {
        for worker in 0..WORKERS {
            disorderly += usize::from(!stage.replace_worker(worker, Signal::TERM).await.success());
            stage.wait_until_up(WORKERS).await;
        }
    }
    let calls = load.stop().await.finish().await;
    crate::explain("calls while workers are replaced", calls.iter().filter(|it| !it.is_ok()));
    let failed = calls.iter().filter(|it| !it.is_ok()).count();
    vec![
        Row::info("rolling restarts of all workers", format!("{rounds}, {} calls", calls.len())),
        Row::none("workers whose exit status was not 0", disorderly),
        Row::none("failed calls while workers were replaced", failed),
    ]
}

fn mix(patience: Duration) -> Mix {
    Arc::new(move |random| {
        let (skill, input) = match random.below(4) {
            0 => (skills::EFFECT, json!({})),
            _ => (skills::WAIT, json!({"ms": 20 + random.below(400)})),
        };
        let streamed = random.below(2) == 0;
        Job { skill, input, session: any_session(random), deadline: Duration::from_secs(10), streamed, patience }
    })
}
