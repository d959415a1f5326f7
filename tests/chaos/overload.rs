//! Overload: goodput must not collapse, load must be shed at once, and a session that floods must not push out another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_tests::quantile::quantile;
use serde_json::json;

use crate::call::{Called, Caller, Job, any_session};
use crate::journal::End;
use crate::load::{self, Mix, OpenLoad, Sent, saturation};
use crate::random::Random;
use crate::settings::Settings;
use crate::skills;
use crate::stage::{Plan, Stage};
use crate::table::{Row, milliseconds, percent, share};

const DEADLINE: Duration = Duration::from_secs(2);

/// One connection has at most 1,024 calls; at ten times saturation there are more.
const LINKS: usize = 12;

/// The duration of each load.
const TIME: Duration = Duration::from_secs(8);

/// How soon after the flood which share of calls succeeds again.
const RECOVERED: (Duration, f64) = (Duration::from_secs(5), 0.95);

/// The share of a polite session's calls that must succeed beside a flood.
const POLITE: f64 = 0.95;

/// Load must be shed within this time.
const REFUSED_WITHIN: Duration = Duration::from_millis(50);

/// A skill, and what limits its throughput.
struct Variant {
    name: &'static str,
    skill: &'static str,
    input: serde_json::Value,
    callers: usize,
}

pub(crate) async fn run(settings: Settings) -> Vec<Row> {
    let slots = Variant { name: "waiting", skill: skills::WAIT, input: json!({"ms": 20}), callers: 16 };
    let cores = Variant { name: "python", skill: skills::WORK, input: json!({}), callers: 8 };
    let mut rows = Vec::new();
    for variant in [slots, cores] {
        let plan = Plan::without_circuits().workers("OPENSKILL_WORKER_CONCURRENCY", 2);
        let stage = Stage::start(plan).await;
        rows.extend(Flood { variant, stage, settings: settings.clone() }.run().await);
    }
    rows
}

struct Flood {
    variant: Variant,
    stage: Arc<Stage>,
    settings: Settings,
}

impl Flood {
    async fn run(&self) -> Vec<Row> {
        let caller = Caller::new(crate::prefix("overload"), self.stage.links(LINKS));
        let time = self.settings.time(TIME);
        let mut most =
            saturation(&caller, &self.mix(), self.variant.callers, time, &mut self.random("saturation")).await;
        let mut rows = vec![self.info("saturation, calls per second", format!("{most:.0}"))];
        for (times, wanted) in [(0.5, None), (1.0, None), (3.0, Some(0.8))] {
            let load = self.load(&caller, most * times, time, &format!("{times}")).await;
            let done = load.finish(time).await;
            // More goodput than saturation shows that saturation was measured too low.
            most = most.max(done.per_second);
            rows.extend(self.level(times, most, wanted, done));
        }
        rows.extend(self.flood_and_after(&caller, most, time).await);
        rows.extend(self.fairness(&caller, most, time).await);
        rows
    }

    /// Ten times saturation, and then half of it.
    async fn flood_and_after(&self, caller: &Caller, most: f64, time: Duration) -> Vec<Row> {
        let flood = self.load(caller, most * 10.0, time, "10").await;
        let (flood, after) = tokio::join!(flood.finish(time), async {
            let begun = Instant::now();
            let after = self.load(caller, most * 0.5, TIME, "after").await;
            (begun, after.sent.finish().await)
        });
        let mut rows = self.level(10.0, most, Some(0.6), flood);
        let recovered = recovery(after.0, &after.1);
        let figure = recovered.map_or("never".to_owned(), milliseconds);
        let holds = recovered.is_some_and(|it| it <= RECOVERED.0);
        rows.push(self.must("95 % succeed again after the flood", figure, "<= 5000 ms", holds));
        rows
    }

    /// One session floods, another asks for a tenth of saturation over a connection of its own: calls that wait in the
    /// other's client are not the gateway's affair.
    async fn fairness(&self, caller: &Caller, most: f64, time: Duration) -> Vec<Row> {
        let one = |session: &'static str| self.mix_of(move |_| session.to_owned());
        let flood = OpenLoad::start(caller, &one("flood"), most * 9.0, self.random("flood"));
        let polite = Caller::new(crate::prefix("polite"), self.stage.links(1));
        let polite = load::open(&polite, &one("polite"), most * 0.1, time, self.random("polite")).await;
        let (flood, polite) = tokio::join!(async { flood.stop().await.finish().await }, polite.finish());
        crate::explain("polite session beside a flood", polite.iter().filter(|it| !succeeded(it)));
        let ok = |calls: &[Called]| calls.iter().filter(|it| succeeded(it)).count();
        let figure = percent(ok(&polite), polite.len());
        let holds = share(ok(&polite), polite.len()) >= POLITE;
        let took = quantile(polite.iter().filter(|it| succeeded(it)).map(Called::took).collect(), 0.99);
        let flooding =
            format!("{} OK; the polite one's p99 is {}", percent(ok(&flood), flood.len()), milliseconds(took));
        vec![
            self.must("a session at 0.1x beside one at 9x: OK", figure, ">= 95 %", holds),
            self.info("the flooding session", flooding),
        ]
    }

    async fn load(&self, caller: &Caller, per_second: f64, time: Duration, name: &str) -> Load {
        let begun = Instant::now();
        let sent = load::open(caller, &self.mix(), per_second, time, self.random(name)).await;
        Load { begun, sent }
    }

    /// The rows of one load.
    fn level(&self, times: f64, most: f64, wanted: Option<f64>, load: Done) -> Vec<Row> {
        let Done { calls, late, per_second } = load;
        let useful = per_second / most;
        let what = format!("goodput at {times}x");
        let figure = format!("{per_second:.0} a second, {:.0} % of saturation", 100.0 * useful);
        let mut rows = vec![match wanted {
            Some(least) => self.must(&what, figure, &format!(">= {:.0} %", 100.0 * least), useful >= least),
            None => self.info(&what, figure),
        }];
        let refused: Vec<_> = calls.iter().filter(|it| is_refusal(&it.end)).map(Called::took).collect();
        let others = calls.iter().filter(|it| !it.is_ok() && !is_refusal(&it.end));
        crate::explain(&format!("{} at {times}x", self.variant.name), others);
        let late = milliseconds(quantile(late, 0.99));
        if wanted.is_some() {
            let (count, p99) = (refused.len(), quantile(refused, 0.99));
            let figure = format!("{} of {count}; sent at most {late} late", milliseconds(p99));
            rows.push(self.must(&format!("refusals at {times}x, p99"), figure, "<= 50 ms", p99 <= REFUSED_WITHIN));
        } else {
            let ok = calls.iter().filter(|it| succeeded(it)).count();
            rows.push(
                self.info(
                    &format!("OK at {times}x"),
                    format!("{}; sent at most {late} late", percent(ok, calls.len())),
                ),
            );
        }
        rows
    }

    fn mix(&self) -> Mix {
        self.mix_of(any_session)
    }

    fn mix_of(&self, session: impl Fn(&mut Random) -> String + Send + Sync + 'static) -> Mix {
        let (skill, input) = (self.variant.skill, self.variant.input.clone());
        Arc::new(move |random| Job {
            skill,
            input: input.clone(),
            session: session(random),
            deadline: DEADLINE,
            streamed: false,
            patience: Duration::ZERO,
        })
    }

    fn random(&self, purpose: &str) -> Random {
        Random::new(self.settings.seed, &format!("{} {purpose}", self.variant.name))
    }

    fn must(&self, what: &str, figure: String, wanted: &str, holds: bool) -> Row {
        Row::must(format!("{}: {what}", self.variant.name), figure, wanted, holds)
    }

    fn info(&self, what: &str, figure: String) -> Row {
        Row::info(format!("{}: {what}", self.variant.name), figure)
    }
}

/// A load that was sent.
struct Load {
    begun: Instant,
    sent: Sent,
}

struct Done {
    calls: Vec<Called>,
    late: Vec<Duration>,
    /// Goodput: successes in time per second.
    per_second: f64,
}

impl Load {
    async fn finish(mut self, time: Duration) -> Done {
        let late = std::mem::take(&mut self.sent.late);
        let calls = self.sent.finish().await;
        // Calls in flight when sending ends do not count: they would flatter a queue.
        let end = self.begun + time;
        let useful = calls.iter().filter(|it| succeeded(it) && it.ended <= end).count();
        Done { calls, late, per_second: useful as f64 / time.as_secs_f64() }
    }
}

fn succeeded(call: &Called) -> bool {
    call.is_ok() && call.took() <= DEADLINE
}

fn is_refusal(end: &End) -> bool {
    matches!(end, End::Refused(_)) || matches!(end, End::Failed(code) if code == "OVERLOADED")
}

/// The moment from which every second has enough successes.
fn recovery(begun: Instant, calls: &[Called]) -> Option<Duration> {
    let second = |call: &Called| call.begun.duration_since(begun).as_secs();
    let last = calls.iter().map(second).max()?;
    let well = |wanted: u64| {
        let of_second: Vec<_> = calls.iter().filter(|it| second(it) == wanted).collect();
        let ok = of_second.iter().filter(|it| succeeded(it)).count();
        share(ok, of_second.len()) >= RECOVERED.1
    };
    let first = (0..=last).rev().take_while(|it| well(*it)).last()?;
    Some(Duration::from_secs(first))
}
