//! Workers and the gateway are killed, stopped, slowed and cut off under load. No call may be lost silently, none may run
//! twice that must not, and calls on workers without a fault must not notice.
//!
//! - `board`: the faults of each worker, with their times
//! - `injection`: injects them, as the seed says

use std::sync::Arc;
use std::time::Duration;

use openskill_tests::processes;
use serde_json::json;

use crate::call::{Called, Caller, Job, any_session};
use crate::journal::End;
use crate::ledger::{Disagreement, Kind, Ledger};
use crate::link::Link;
use crate::load::{Mix, OpenLoad, saturation};
use crate::proxy::Proxy;
use crate::random::Random;
use crate::settings::Settings;
use crate::stage::{Plan, Stage};
use crate::table::{Row, percent, share};
use crate::{gateway_log, skills};

mod board;
mod injection;

use board::{Board, Lot};

const DEADLINE: Duration = Duration::from_secs(5);

/// How long a client retries.
const PATIENCE: Duration = Duration::from_secs(15);

/// Links directly to the gateway; as many go through proxies.
const LINKS: usize = 4;

/// The time over which the faults are spread. The stops alone take 50 x 10 s, two at a time.
const TIME: Duration = Duration::from_secs(300);

/// No process of a call lives longer than this after the last call.
const GONE: Duration = Duration::from_secs(2);

pub(crate) async fn run(settings: Settings) -> Vec<Row> {
    let stage = Stage::start(Plan::without_circuits()).await;
    let (caller, proxies) = connect(&stage).await;
    let mut random = Random::new(settings.seed, "faults");
    let per_second =
        saturation(&caller, &mix(), 16, settings.time(Duration::from_secs(8)), &mut random).await.max(2.0) / 2.0;
    let board = Arc::new(Board::default());
    let load = OpenLoad::start(&caller, &mix(), per_second, Random::new(settings.seed, "fault load"));
    let injected = injection::run(&stage, &board, &proxies, &settings, TIME).await;
    let calls = load.stop().await.finish().await;
    let mut rows = vec![Row::info("load: half of saturation, calls per second", format!("{per_second:.0}"))];
    rows.extend(injected);
    rows.extend(of_calls(&calls, &board));
    rows.extend(of_ledger(&stage, &caller, &board).await);
    rows.push(Row::none("leftover processes of calls", left_running(caller.prefix()).await));
    rows
}

/// Half of the links can be reset.
async fn connect(stage: &Stage) -> (Caller, Vec<Proxy>) {
    let mut proxies = Vec::new();
    for _ in 0..LINKS {
        proxies.push(Proxy::start(stage.address).await);
    }
    let mut links = stage.links(LINKS);
    links.extend(proxies.iter().map(|proxy| Link::new(proxy.address)));
    (Caller::new(crate::prefix("faults"), links), proxies)
}

/// 40 % to a skill that must not run twice, 20 % to an idempotent one, 40 % in process.
fn mix() -> Mix {
    Arc::new(|random| {
        let (skill, input) = match random.below(10) {
            0..4 => (skills::EFFECT, json!({})),
            4..6 => (skills::EFFECT_AGAIN, json!({})),
            _ => (skills::WAIT, json!({"ms": 5 + random.below(46)})),
        };
        let streamed = random.below(10) == 0;
        Job { skill, input, session: any_session(random), deadline: DEADLINE, streamed, patience: PATIENCE }
    })
}

fn of_calls(calls: &[Called], board: &Board) -> Vec<Row> {
    let of = |wanted: Lot| calls.iter().filter(|it| board.lot(it, LINKS) == wanted).collect::<Vec<_>>();
    let ok = |calls: &[&Called]| calls.iter().filter(|it| it.is_ok()).count();
    let (spared, hit, cut) = (of(Lot::Spared), of(Lot::WorkerHit), of(Lot::CutOff));
    let retried = calls.iter().filter(|it| it.attempts > 1).count();
    for (what, calls) in [("on workers without a fault", &spared), ("on workers with a fault", &hit), ("cut off", &cut)]
    {
        crate::explain(what, calls.iter().filter(|it| !it.is_ok()).copied());
    }
    vec![
        Row::info("calls", format!("{}, of which {retried} were retried", calls.len())),
        Row::must(
            "OK on workers without a fault",
            percent(ok(&spared), spared.len()),
            ">= 99.9 %",
            share(ok(&spared), spared.len()) >= 0.999,
        ),
        Row::info("OK on workers with a fault", percent(ok(&hit), hit.len())),
        Row::info("OK with the gateway down or the connection reset", percent(ok(&cut), cut.len())),
    ]
}

async fn of_ledger(stage: &Stage, caller: &Caller, board: &Board) -> Vec<Row> {
    let ledger = Ledger {
        attempts: caller.journal().attempts(),
        lines: gateway_log::read_all(&stage.gateway_log(), caller.prefix()).await,
        effects: stage.effects(),
        killed: board.gateway_kills(),
    };
    let found = ledger.disagreements();
    for it in found.iter().take(10) {
        eprintln!("  {:?}: {}", it.kind, it.call_id);
    }
    let of = |wanted: fn(&Disagreement) -> bool| found.iter().filter(|it| wanted(it)).count();
    let effects = format!(
        "{} attempts, {} log lines, {} effects",
        ledger.attempts.len(),
        ledger.lines.len(),
        ledger.effects.len()
    );
    let unsure = ledger.attempts.iter().filter(|it| matches!(it.ends.first(), Some(End::Broken(_)))).count();
    vec![
        Row::info("witnesses", format!("{effects}; {unsure} attempts broke off")),
        Row::none("attempts that did not end exactly once", of(|it| matches!(it.kind, Kind::NoEnd | Kind::TwoEnds))),
        Row::none("calls that ran twice and must not", of(|it| it.kind.is_doubled())),
        Row::none("disagreements between client, log and effects", found.len()),
    ]
}

/// Processes of calls that still run after a moment.
pub(crate) async fn left_running(prefix: &str) -> usize {
    let limit = tokio::time::Instant::now() + GONE;
    loop {
        let left = processes::of_calls(prefix).len();
        if left == 0 || tokio::time::Instant::now() > limit {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
