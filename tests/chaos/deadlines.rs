//! Skills that never end: each call ends at its deadline, and its processes are gone a moment later.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use openskill_tests::quantile::quantile;
use serde_json::json;
use tokio::task::JoinSet;

use crate::call::{Caller, Job, any_session};
use crate::gateway_log;
use crate::journal::End;
use crate::ledger::Ledger;
use crate::random::Random;
use crate::settings::Settings;
use crate::sightings::Sightings;
use crate::skills;
use crate::stage::{Plan, Stage};
use crate::table::{Row, milliseconds};

const CALLS: usize = 5000;
const CANCELLED: usize = 200;

/// Calls per second. Starting Python at this rate leaves capacity on two cores.
const STARTS: f64 = 26.0;

/// In milliseconds, each order of magnitude equally likely.
const SHORTEST: f64 = 1.0;
const LONGEST: f64 = 5000.0;

/// How long after its deadline a call may end, and how long after that its processes may live.
const ANSWERED: Duration = Duration::from_millis(250);
const GONE: Duration = Duration::from_secs(1);

/// When a call should have ended, and when it did.
struct Ended {
    call_id: String,
    due: Instant,
    /// How late it ended; none if it was cancelled.
    late: Option<Duration>,
    end: End,
}

pub(crate) async fn run(settings: Settings) -> Vec<Row> {
    let plan = Plan::without_circuits().workers("OPENSKILL_WORKER_CONCURRENCY", 256);
    let stage = Stage::start(plan).await;
    let caller = Caller::new(crate::prefix("deadlines"), stage.links(8));
    let sightings = Sightings::start(caller.prefix().to_owned());
    let ended = calls(&caller, &settings).await;
    // Look for leftover processes until they would be too late.
    tokio::time::sleep(GONE * 2).await;
    let seen = sightings.stop();
    let lines = gateway_log::read_all(&stage.gateway_log(), caller.prefix()).await;
    let ledger = Ledger { attempts: caller.journal().attempts(), lines, ..Ledger::default() };
    let disagreements = ledger.disagreements();
    for it in disagreements.iter().take(10) {
        eprintln!("  {:?}: {}", it.kind, it.call_id);
    }
    let (kept, cancelled): (Vec<_>, Vec<_>) = ended.into_iter().partition(|it| it.late.is_some());
    let mut rows = of_deadlines(&kept, &seen);
    rows.extend(of_cancelled(&cancelled, &seen));
    rows.push(Row::none("disagreements between client and log", disagreements.len()));
    rows
}

/// Makes all calls at an even rate.
async fn calls(caller: &Caller, settings: &Settings) -> Vec<Ended> {
    let mut random = Random::new(settings.seed, "deadlines");
    let (kept, cancelled) = (settings.count(CALLS), settings.count(CANCELLED));
    let mut tasks = JoinSet::new();
    let mut due = Instant::now();
    for number in 0..kept + cancelled {
        due += Duration::from_secs_f64(1.0 / STARTS);
        tokio::time::sleep_until(due.into()).await;
        let milliseconds = random.log_uniform(SHORTEST, LONGEST);
        // The cancelled calls are spread among the others, and long enough to have started.
        let cancel = number * cancelled / (kept + cancelled) != (number + 1) * cancelled / (kept + cancelled);
        tasks.spawn(if cancel {
            cancel_half_way(caller.clone(), job(500.0 + milliseconds, &mut random))
        } else {
            keep(caller.clone(), job(milliseconds, &mut random))
        });
    }
    tasks.join_all().await
}

type Call = futures_util::future::BoxFuture<'static, Ended>;

fn keep(caller: Caller, job: Job) -> Call {
    Box::pin(async move {
        let due = Instant::now() + job.deadline;
        let called = caller.call(job).await;
        let late = called.ended.saturating_duration_since(due);
        Ended { call_id: format!("{}.1", called.id), due, late: Some(late), end: called.end }
    })
}

fn cancel_half_way(caller: Caller, job: Job) -> Call {
    Box::pin(async move {
        let (id, half) = (caller.next_id(), job.deadline / 2);
        let _ = tokio::time::timeout(half, caller.call_as(id.clone(), job)).await;
        Ended { call_id: format!("{id}.1"), due: Instant::now(), late: None, end: End::Dropped }
    })
}

fn job(milliseconds: f64, random: &mut Random) -> Job {
    Job {
        skill: skills::HOLD,
        input: json!({}),
        session: any_session(random),
        deadline: Duration::from_millis(milliseconds as u64),
        streamed: false,
        patience: Duration::ZERO,
    }
}

fn of_deadlines(calls: &[Ended], seen: &HashMap<String, Instant>) -> Vec<Row> {
    let late: Vec<_> = calls.iter().filter_map(|it| it.late).collect();
    let too_late = late.iter().filter(|it| **it > ANSWERED).count();
    let worst = format!("p50 {}, p99 {}, worst {}", at(&late, 0.5), at(&late, 0.99), at(&late, 1.0));
    let timed_out = calls.iter().filter(|it| it.end == End::Failed("TIMEOUT".to_owned())).count();
    let mut others: Vec<_> = calls.iter().map(|it| it.end.label()).filter(|it| it != "TIMEOUT").collect();
    others.sort();
    others.dedup();
    let begun = calls.iter().filter(|it| seen.contains_key(&it.call_id)).count();
    vec![
        Row::info("calls with a deadline", format!("{}; a process of {begun} was seen", calls.len())),
        Row::none_of("calls that did not end with TIMEOUT", calls.len() - timed_out, &others.join(", ")),
        Row::none_of("calls that ended more than 250 ms after their deadline", too_late, &worst),
        left("processes left 1 s after the deadline", calls, seen),
    ]
}

fn of_cancelled(calls: &[Ended], seen: &HashMap<String, Instant>) -> Vec<Row> {
    let begun = calls.iter().filter(|it| seen.contains_key(&it.call_id)).count();
    vec![
        Row::info("calls that were cancelled", format!("{}; a process of {begun} was seen", calls.len())),
        left("processes left 1 s after the call was cancelled", calls, seen),
    ]
}

fn left(what: &str, calls: &[Ended], seen: &HashMap<String, Instant>) -> Row {
    let after = |it: &Ended| seen.get(&it.call_id).map(|last| last.saturating_duration_since(it.due));
    let after: Vec<_> = calls.iter().filter_map(after).collect();
    let last = format!("last seen after {} (p99), {} (worst)", at(&after, 0.99), at(&after, 1.0));
    Row::none_of(what, after.iter().filter(|it| **it > GONE).count(), &last)
}

fn at(times: &[Duration], share: f64) -> String {
    milliseconds(quantile(times.to_vec(), share))
}
