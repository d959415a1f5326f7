//! Runs random call histories through each circuit, and through a reference model that remembers every event.

use std::time::{Duration, Instant};

use openskill_proto::v1::CircuitState;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::breaker::{Breaker, PROBE_RETRY, Pass, SharedState, Verdict};
use super::count::{Bucket, Consecutive, Count, Window};
use super::rules::{SessionRules, SkillRules};

const SEQUENCES: u64 = 10_000;
const EVENTS: usize = 80;

/// Decides whether the last of these outcomes opens the circuit. Each outcome has its time, and whether it failed.
type Trips<'a> = &'a dyn Fn(&[(Instant, bool)]) -> bool;

/// A running call, as the reference sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ReferenceCall {
    /// How often the circuit had changed when the call began.
    changes: usize,
    is_probe: bool,
}

/// A simple model of a circuit, which recomputes its rules from the whole history.
struct Reference<'a> {
    state: CircuitState,
    changes: usize,
    open_until: Instant,
    probes: usize,
    /// The outcomes since the last change: when a call ended, and whether it failed.
    ends: Vec<(Instant, bool)>,
    recovery: Duration,
    trips: Trips<'a>,
}

impl Reference<'_> {
    fn admit(&mut self, now: Instant) -> Result<ReferenceCall, Duration> {
        let is_probe = match self.state {
            CircuitState::Open if now < self.open_until => return Err(self.open_until - now),
            CircuitState::HalfOpen if self.probes > 0 => return Err(PROBE_RETRY),
            CircuitState::Open => {
                self.change(CircuitState::HalfOpen);
                true
            }
            state => state == CircuitState::HalfOpen,
        };
        self.probes += usize::from(is_probe);
        Ok(ReferenceCall { changes: self.changes, is_probe })
    }

    fn end(&mut self, call: ReferenceCall, verdict: Verdict, now: Instant) {
        if call.changes != self.changes {
            return;
        }
        self.probes -= usize::from(call.is_probe);
        let failed = verdict == Verdict::Failure;
        match (verdict, call.is_probe) {
            (Verdict::Ignored, _) => {}
            (Verdict::Success, true) => self.change(CircuitState::Closed),
            (_, true) => self.open(now),
            (_, false) => {
                self.ends.push((now, failed));
                if (self.trips)(&self.ends) {
                    self.open(now);
                }
            }
        }
    }

    /// Resets the circuit by hand. A closed circuit only forgets its counts.
    fn reset(&mut self) {
        match self.state {
            CircuitState::Closed => self.ends.clear(),
            _ => self.change(CircuitState::Closed),
        }
    }

    fn open(&mut self, now: Instant) {
        self.open_until = now + self.recovery;
        self.change(CircuitState::Open);
    }

    fn change(&mut self, state: CircuitState) {
        self.state = state;
        self.changes += 1;
        self.probes = 0;
        self.ends.clear();
    }
}

/// What happened in the histories of one kind of circuit.
#[derive(Default)]
struct ModelCounts {
    events: usize,
    mismatches: usize,
    most_probes: usize,
    trips: usize,
}

/// Runs one random history.
fn run<C: Count>(seed: u64, rules: &C::Rules, trips: Trips<'_>, step: Duration, tally: &mut ModelCounts) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut now = Instant::now();
    let mut breaker = Breaker::<C>::default();
    let mut reference = Reference {
        state: CircuitState::Closed,
        changes: 0,
        open_until: now,
        probes: 0,
        ends: Vec::new(),
        recovery: C::recovery(rules),
        trips,
    };
    let mut running: Vec<(Pass, ReferenceCall)> = Vec::new();
    // Vary the failure rate between histories.
    let failing = random.random_range(0.0..1.0);
    for _ in 0..EVENTS {
        tally.events += 1;
        match random.random_range(0..10) {
            0..=3 => {
                let (got, wanted) = (breaker.admit(now), reference.admit(now));
                match (got, wanted) {
                    (Ok(pass), Ok(call)) => running.push((pass, call)),
                    (Err(got), Err(wanted)) if got == wanted => {}
                    _ => tally.mismatches += 1,
                }
            }
            4..=7 if !running.is_empty() => {
                let (pass, call) = running.swap_remove(random.random_range(0..running.len()));
                let verdict = match random.random_range(0.0..1.0) {
                    it if it < 0.15 => Verdict::Ignored,
                    it if it < 0.15 + 0.85 * failing => Verdict::Failure,
                    _ => Verdict::Success,
                };
                let before = reference.state;
                breaker.report(pass, verdict, rules, now);
                reference.end(call, verdict, now);
                tally.trips += usize::from(before != CircuitState::Open && reference.state == CircuitState::Open);
                // A caller's mistake or a cancellation never changes the state.
                tally.mismatches += usize::from(verdict == Verdict::Ignored && before != breaker.state());
            }
            8 => {
                let state = breaker.state();
                let wait = breaker.retry_after(now);
                tally.mismatches += usize::from(breaker.state() != state || breaker.retry_after(now) != wait);
            }
            _ => now += step * random.random_range(0..40) / 10,
        }
        if random.random_range(0..200) == 0 {
            tally.mismatches += usize::from(breaker.reset() == (reference.state == CircuitState::Closed));
            reference.reset();
        }
        tally.mismatches += usize::from(breaker.state() != reference.state);
        let probes = running.iter().filter(|(_, call)| call.is_probe && call.changes == reference.changes).count();
        tally.most_probes = tally.most_probes.max(probes);
    }
}

fn report(name: &str, tally: &ModelCounts) {
    let ModelCounts { events, mismatches, most_probes, trips } = tally;
    // `make chaos` copies this line into its table.
    #[allow(clippy::print_stdout)]
    {
        println!(
            "circuit model, {name}: {SEQUENCES} sequences, {events} events, {trips} trips, {mismatches} mismatches, \
             at most {most_probes} probe at once"
        );
    }
    assert_eq!((*mismatches, *most_probes), (0, 1));
    assert!(*trips > SEQUENCES as usize / 4, "{trips} trips show little");
}

#[test]
fn ten_thousand_histories_of_a_session_circuit_go_as_the_reference_says() {
    let mut tally = ModelCounts::default();
    for seed in 0..SEQUENCES {
        let rules = SessionRules { threshold: 1 + (seed % 4) as u32, recovery: Duration::from_secs(300) };
        let trips = |ends: &[(Instant, bool)]| {
            let in_a_row = ends.iter().rev().take_while(|(_, failed)| *failed).count();
            in_a_row >= rules.threshold as usize
        };
        run::<Consecutive>(seed, &rules, &trips, Duration::from_secs(100), &mut tally);
    }
    report("session", &tally);
}

#[test]
fn ten_thousand_histories_of_a_skill_circuit_go_as_the_reference_says() {
    let mut tally = ModelCounts::default();
    for seed in 0..SEQUENCES {
        let rules = SkillRules {
            failure_rate: [0.3, 0.5, 0.8, 1.0][seed as usize % 4],
            minimum_calls: 1 + (seed % 7) as u32,
            window: Duration::from_secs(30),
            recovery: Duration::from_secs(20),
        };
        let trips = |ends: &[(Instant, bool)]| {
            let (Some((first, _)), Some((now, failed))) = (ends.first(), ends.last()) else { return false };
            // The window slides in steps of a tenth, counted from the first call.
            let tenth = |at: &Instant| (*at - *first).as_nanos() / (rules.window / 10).as_nanos();
            let within: Vec<_> = ends.iter().filter(|(at, _)| tenth(at) + 10 > tenth(now)).collect();
            let failures = within.iter().filter(|(_, failed)| *failed).count();
            let enough = within.len() >= rules.minimum_calls as usize;
            *failed && enough && failures as f64 >= rules.failure_rate * within.len() as f64
        };
        run::<Window>(seed, &rules, &trips, Duration::from_secs(3), &mut tally);
    }
    report("skill", &tally);
}

const SKILL: SkillRules = SkillRules {
    failure_rate: 0.5,
    minimum_calls: 10,
    window: Duration::from_secs(30),
    recovery: Duration::from_secs(20),
};

fn count(breaker: &mut Breaker<Window>, verdict: Verdict, times: usize, now: Instant) {
    for _ in 0..times {
        let pass = breaker.admit(now).unwrap();
        breaker.report(pass, verdict, &SKILL, now);
    }
}

#[test]
fn calls_of_other_gateways_count_and_only_a_failure_opens() {
    let (mut breaker, now) = (Breaker::<Window>::default(), Instant::now());
    let elsewhere = Bucket { calls: 7, failures: 7 };
    count(&mut breaker, Verdict::Failure, 3, now);
    let calls = breaker.take_uncounted().unwrap();
    assert_eq!((calls.bucket, calls.window), (Bucket { calls: 3, failures: 3 }, SKILL.window));
    assert_eq!(breaker.take_uncounted(), None);
    assert_eq!(breaker.count_elsewhere(elsewhere, false, now), None, "no failure is new");
    assert_eq!(breaker.count_elsewhere(elsewhere, true, now), Some(CircuitState::Open));
    assert!(breaker.admit(now).is_err());

    let mut breaker = Breaker::<Window>::default();
    count(&mut breaker, Verdict::Success, 1, now);
    breaker.count_elsewhere(Bucket { calls: 1000, failures: 1 }, true, now);
    count(&mut breaker, Verdict::Failure, 50, now);
    assert_eq!(breaker.state(), CircuitState::Closed, "half of its own, few of all");
    let later = now + SKILL.window / 10;
    count(&mut breaker, Verdict::Failure, 1, later);
    assert_eq!(breaker.state(), CircuitState::Open, "what is known of others is old");
}

#[test]
fn a_shared_circuit_is_probed_only_by_the_gateway_that_claimed_it_and_until_its_time() {
    let (mut here, mut there, now) = (Breaker::<Window>::default(), Breaker::<Window>::default(), Instant::now());
    let open = SharedState::Open { until: now + SKILL.recovery };
    assert_eq!(here.follow(open, now), Some(CircuitState::Open));
    assert_eq!(there.follow(open, now), Some(CircuitState::Open));
    assert!(!here.wants_claim(now + SKILL.recovery), "nobody called");
    assert_eq!(here.admit(now), Err(SKILL.recovery));
    assert!(!here.wants_claim(now) && here.wants_claim(now + SKILL.recovery));

    let now = now + SKILL.recovery;
    assert!(here.retry_after(now).is_none() && here.admit(now).is_err(), "it must be claimed");
    let until = now + Duration::from_secs(5);
    assert_eq!(here.follow(SharedState::HalfOpen { until, is_here: true }, now), Some(CircuitState::HalfOpen));
    there.follow(SharedState::HalfOpen { until, is_here: false }, now);
    assert_eq!(there.admit(now), Err(PROBE_RETRY));
    let pass = here.admit(now).unwrap();
    assert_eq!(here.admit(now), Err(PROBE_RETRY));
    assert_eq!(here.report(pass, Verdict::Ignored, &SKILL, now), None);
    assert!(here.admit(until).is_err(), "its time has passed");
    assert!(there.admit(until).is_err() && there.wants_claim(until), "now the other one may claim it");

    assert_eq!(there.follow(SharedState::HalfOpen { until: until + SKILL.window, is_here: true }, until), None);
    there.detach();
    let pass = there.admit(until).unwrap();
    assert_eq!(there.report(pass, Verdict::Success, &SKILL, until), Some(CircuitState::Closed), "without the store");
    let pass = here.admit(now);
    here.follow(SharedState::Closed, until);
    assert_eq!(here.report(pass.unwrap(), Verdict::Failure, &SKILL, until), None, "its probe came too late");
    assert!(here.admit(until).is_ok());
}
