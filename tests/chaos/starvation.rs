//! Starvation: slow calls must not starve a neighbour of another session, and must still use every slot. Those who call slowly
//! stand for other machines, so that the neighbour does not wait for its own process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use openskill_tests::elsewhere::elsewhere;
use openskill_tests::quantile::quantile;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::call::{Called, Caller, Job};
use crate::settings::Settings;
use crate::skills;
use crate::stage::{Plan, Stage, WORKERS};
use crate::table::{Row, milliseconds, percent, share};

/// How long a slow call runs, and its deadline.
const SLOW: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the neighbour calls, every [`PAUSE`].
const TIME: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(50);

/// Before the neighbour begins, every slot is taken.
const SETTLES: Duration = Duration::from_secs(2);

/// How long a refused caller waits before it calls again.
const BACKOFF: Duration = Duration::from_secs(1);

/// The slots of a worker.
const SLOTS: usize = 8;

/// What must hold: the neighbour's share of successes, its p99 as a multiple of the quiet one, and the share of the slots'
/// time that slow calls use.
const OK: f64 = 0.99;
const SLOWER: f64 = 3.0;
const USED: f64 = 0.9;

/// A kind of skill: one slow, one quick.
#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    slow: &'static str,
    quick: &'static str,
    /// The slots that the slow skill may use.
    slots: usize,
}

const KINDS: [Kind; 3] = [
    Kind { name: "in process", slow: skills::WAIT, quick: skills::ECHO, slots: SLOTS * WORKERS },
    Kind { name: "python", slow: skills::SLEEP, quick: skills::WORK, slots: SLOTS * WORKERS },
    Kind { name: "python, concurrency 4", slow: skills::SLEEP_FOUR, quick: skills::WORK, slots: 4 * WORKERS },
];

/// How many slow calls are in flight, and of how many sessions; none: without a session.
const LOADS: [(usize, Option<usize>); 7] =
    [(30, Some(1)), (64, Some(1)), (300, Some(1)), (1000, Some(1)), (300, Some(50)), (1000, Some(50)), (300, None)];

pub(crate) async fn run(settings: Settings) -> Vec<Row> {
    let (mut rows, others) = (Vec::new(), elsewhere());
    for kind in KINDS {
        let plan = Plan::without_circuits().sampled_log().workers("OPENSKILL_WORKER_CONCURRENCY", SLOTS);
        let stage = Stage::start(plan).await;
        // The first calls start interpreters.
        drop(neighbour(&stage, kind, Duration::from_secs(1)).await);
        let time = settings.time(TIME);
        let quiet = p99(&neighbour(&stage, kind, time).await);
        rows.push(Row::info(format!("{}: quiet, p99", kind.name), milliseconds(quiet)));
        for (calls, sessions) in LOADS {
            rows.extend(beside(&stage, kind, (calls, sessions), (quiet, time), &others).await);
        }
    }
    rows
}

async fn beside(
    stage: &Arc<Stage>,
    kind: Kind,
    (calls, sessions): (usize, Option<usize>),
    (quiet, time): (Duration, Duration),
    others: &Handle,
) -> Vec<Row> {
    let of = sessions.map_or("no session".to_owned(), |count| format!("{count} sessions"));
    let named = |what: &str| format!("{}, {calls} slow calls of {of}: {what}", kind.name);
    let load = Slow::start(stage, kind, (calls, sessions), others);
    tokio::time::sleep(SETTLES).await;
    let (begun, before) = (Instant::now(), load.done());
    let called = neighbour(stage, kind, time).await;
    let (ran, took) = (load.done() - before, begun.elapsed());
    load.stop().await;
    let ok = called.iter().filter(|call| call.is_ok()).count();
    let slowest = p99(&called);
    let slots = kind.slots.min(calls);
    let used = ran as f64 * SLOW.as_secs_f64() / (slots as f64 * took.as_secs_f64());
    vec![
        Row::must(named("OK"), percent(ok, called.len()), ">= 99 %", share(ok, called.len()) >= OK),
        Row::must(
            named("p99"),
            format!("{}, {:.1} times quiet", milliseconds(slowest), slowest.as_secs_f64() / quiet.as_secs_f64()),
            "<= 3 times",
            slowest <= quiet.mul_f64(SLOWER),
        ),
        Row::must(named("slots in use"), format!("{:.0} %", 100.0 * used), ">= 90 %", used >= USED),
    ]
}

/// A neighbour that calls twenty times a second, whether or not its calls have ended.
async fn neighbour(stage: &Stage, kind: Kind, time: Duration) -> Vec<Called> {
    let caller = Caller::new(crate::prefix("neighbour"), stage.links(1));
    let mut calls = JoinSet::new();
    let begun = Instant::now();
    let mut ticks = tokio::time::interval(PAUSE);
    while begun.elapsed() < time {
        ticks.tick().await;
        let caller = caller.clone();
        calls.spawn(async move { caller.call(job(kind.quick, "neighbour".to_owned(), Duration::from_secs(10))).await });
    }
    calls.join_all().await
}

fn job(skill: &'static str, session: String, deadline: Duration) -> Job {
    let input = json!({"ms": SLOW.as_millis() as u64, "number": 1});
    let input = if skill == skills::WORK { json!({}) } else { input };
    Job { skill, input, session, deadline, streamed: false, patience: Duration::ZERO }
}

fn p99(calls: &[Called]) -> Duration {
    quantile(calls.iter().map(Called::took).collect(), 0.99)
}

/// Callers that always have a slow call in flight.
struct Slow {
    callers: JoinSet<()>,
    done: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Slow {
    fn start(stage: &Stage, kind: Kind, (calls, sessions): (usize, Option<usize>), others: &Handle) -> Self {
        let caller = Caller::new(crate::prefix("slow"), stage.links(calls.div_ceil(50)));
        let (done, stop): (Arc<AtomicUsize>, Arc<AtomicBool>) = Default::default();
        let mut callers = JoinSet::new();
        for number in 0..calls {
            let session = sessions.map_or(String::new(), |count| format!("slow-{}", number % count));
            let (caller, done, stop) = (caller.clone(), Arc::clone(&done), Arc::clone(&stop));
            let calls = async move {
                while !stop.load(Ordering::Relaxed) {
                    let called = caller.call(job(kind.slow, session.clone(), PATIENCE)).await;
                    if called.is_ok() {
                        done.fetch_add(1, Ordering::Relaxed);
                    } else {
                        tokio::time::sleep(BACKOFF).await;
                    }
                }
            };
            callers.spawn_on(calls, others);
        }
        Self { callers, done, stop }
    }

    /// Slow calls that have succeeded.
    fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// Cancels what is in flight, and waits until the slots are free.
    async fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.callers.shutdown().await;
        tokio::time::sleep(SETTLES).await;
    }
}
