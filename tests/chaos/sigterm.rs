//! SIGTERM under load. A gateway that ends finishes what it accepted; workers that are replaced one after another cost
//! no call at all.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::call::{Caller, Job, any_session};
use crate::gateway_log::{self, Line};
use crate::journal::{End, Try};
use crate::ledger::Ledger;
use crate::load::{Mix, OpenLoad};
use crate::random::Random;
use crate::settings::Settings;
use crate::skills;
use crate::stage::{Plan, Stage, WORKERS};
use crate::table::{Row, milliseconds};

const RESTARTS: usize = 20;
const ROUNDS: usize = 8;

/// Calls a second: enough that some always run, little enough that replacing a worker is no overload.
const LOAD: f64 = 30.0;

/// How long a gateway serves before it is told to end.
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
        let told = Instant::now();
        disorderly += usize::from(!stage.replace_gateway(Signal::TERM).await.success());
        longest = longest.max(told.elapsed());
        stage.wait_until_up(WORKERS).await;
    }
    let calls = load.stop().await.finish().await;
    let lines = gateway_log::read(&stage.gateway_log(), caller.prefix());
    let ledger = Ledger { tries: caller.journal().tries(), lines, effects: stage.effects(), killed: Vec::new() };
    let found = ledger.disagreements();
    for it in found.iter().take(10) {
        eprintln!("  {:?}: {}", it.kind, it.call_id);
    }
    crate::explain("calls while the gateway is replaced", calls.iter().filter(|it| !it.is_ok()));
    let failed = calls.iter().filter(|it| !it.is_ok()).count();
    let retried = calls.iter().filter(|it| it.tries > 1).count();
    vec![
        Row::told(
            "gateways replaced",
            format!("{}; the longest took {}", settings.count(RESTARTS), milliseconds(longest)),
        ),
        Row::none("gateways that did not end with 0", disorderly),
        Row::told("calls", format!("{}; {retried} were sent again, {failed} did not succeed", calls.len())),
        Row::none("accepted calls that were lost", lost(&ledger.tries, &ledger.lines)),
        Row::none("disagreements between client, log and effects", found.len()),
    ]
}

/// Tries that the gateway took on, as it said or as it logged, and that have no answer.
fn lost(tries: &[Try], lines: &[Line]) -> usize {
    let logged: HashMap<_, _> = lines.iter().map(|line| (line.call_id.as_str(), line)).collect();
    let taken = |it: &&Try| it.accepted || logged.contains_key(it.call_id.as_str());
    let unanswered = tries.iter().filter(taken).filter(|it| !it.ends.iter().any(End::is_answer));
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
    // No second try: the gateway alone has to see to it.
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
        Row::told("rolling restarts of all workers", format!("{rounds}, {} calls", calls.len())),
        Row::none("workers that did not end with 0", disorderly),
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
