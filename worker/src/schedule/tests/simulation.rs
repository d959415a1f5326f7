//! Simulates callers at a gate. Calls arrive and run in simulated time, and the real book decides.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::schedule::book::{Arrival, ArrivalOutcome, Ending, GateBounds, GateCalls, GateRefusal, Next};
use crate::schedule::flows::Ticket;
use crate::schedule::pace::{SHORT, Skill};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const LONG: Duration = Duration::from_secs(5);

/// The default time that callers wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// A simulated caller. It has `at_once` concurrent calls, and starts the next one `pause` after one ended.
#[derive(Debug, Clone)]
struct Caller {
    principal: &'static str,
    session: String,
    skill: Arc<Skill>,
    runs: Duration,
    pause: Duration,
    at_once: usize,
    /// How long a call may take, including its wait.
    patience: Duration,
}

/// What a caller got in a simulation.
#[derive(Debug, Default, Clone)]
struct Got {
    waited: Vec<Duration>,
    /// The total place time of calls that ended in time.
    ran: Duration,
    refused: usize,
}

impl Got {
    fn slowest(&self) -> Duration {
        self.waited.iter().max().copied().unwrap_or_default()
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Ends {
        caller: usize,
        ticket: usize,
        /// Whether the call ended before its deadline.
        in_time: bool,
    },
    /// A call's deadline passes. The call may still be waiting.
    Expires {
        number: usize,
    },
    Calls {
        caller: usize,
    },
    /// Waiting calls check the gate again.
    Review,
}

struct Simulation {
    book: GateCalls<usize>,
    callers: Vec<Caller>,
    got: Vec<Got>,
    began: Instant,
    now: Instant,
    events: BinaryHeap<Reverse<(Instant, u64, Happens)>>,
    order: u64,
    calls: usize,
    /// The tickets of running and waiting calls, with their callers and arrival times.
    running: Vec<Option<Ticket>>,
    arrived: BTreeMap<usize, (usize, Ticket, Instant)>,
    /// The maximum number of concurrent calls so far.
    peak: usize,
}

impl Simulation {
    fn new(bounds: GateBounds, callers: Vec<Caller>) -> Self {
        let began = Instant::now();
        let got = vec![Got::default(); callers.len()];
        let mut simulation = Self {
            book: GateCalls::new(bounds, began),
            callers,
            got,
            began,
            now: began,
            events: BinaryHeap::new(),
            order: 0,
            calls: 0,
            running: Vec::new(),
            arrived: BTreeMap::new(),
            peak: 0,
        };
        simulation.at(began + SHORT, Happens::Review);
        for caller in 0..simulation.callers.len() {
            for _ in 0..simulation.callers[caller].at_once {
                simulation.at(began, Happens::Calls { caller });
            }
        }
        simulation
    }

    fn at(&mut self, when: Instant, what: Happens) {
        self.order += 1;
        self.events.push(Reverse((when, self.order, what)));
    }

    fn run(&mut self, time: Duration) {
        let end = self.began + time;
        while self.events.peek().is_some_and(|Reverse((when, ..))| *when <= end) {
            let Some(Reverse((when, _, what))) = self.events.pop() else { break };
            self.now = when;
            match what {
                Happens::Calls { caller } => self.call(caller),
                Happens::Review => self.at(when + SHORT, Happens::Review),
                Happens::Ends { caller, ticket, in_time } => {
                    let ending = if in_time { Ending::Whole } else { Ending::CutShort };
                    if let Some(ticket) = self.running[ticket].take() {
                        self.book.leave(ticket, ending, self.now);
                    }
                    let next = self.now + self.callers[caller].pause;
                    self.at(next, Happens::Calls { caller });
                }
                Happens::Expires { number } => {
                    if let Some((caller, ticket, _)) = self.arrived.remove(&number) {
                        self.book.give_up(ticket, self.now);
                        self.record_refusal(caller, ms(1000));
                    }
                }
            }
            while let Some(next) = self.book.next(self.now) {
                let (Next::Runs(_, waiter) | Next::Refused(waiter, _)) = &next;
                let (caller, _, came) = self.arrived.remove(waiter).unwrap();
                match next {
                    Next::Runs(ticket, _) => self.start(caller, ticket, came),
                    Next::Refused(..) => self.record_refusal(caller, ms(1000)),
                }
            }
            self.peak = self.peak.max(self.book.running());
            assert_eq!(self.book.len() - self.book.running(), self.arrived.len());
        }
    }

    fn call(&mut self, caller: usize) {
        self.calls += 1;
        let number = self.calls;
        let it = self.callers[caller].clone();
        let deadline = self.now + it.patience;
        let arrival = Arrival { principal: it.principal, session: &it.session, skill: &it.skill, deadline };
        match self.book.arrive(arrival, || (number, ()), self.now) {
            ArrivalOutcome::Runs(ticket) => self.start(caller, ticket, self.now),
            ArrivalOutcome::Waits { ticket, evicted, .. } => {
                self.arrived.insert(number, (caller, ticket, self.now));
                self.at(deadline, Happens::Expires { number });
                if let Some((caller, ..)) = evicted.and_then(|evicted| self.arrived.remove(&evicted)) {
                    self.record_refusal(caller, ms(1000));
                }
            }
            ArrivalOutcome::Refused(GateRefusal::Full) => self.record_refusal(caller, ms(1000)),
            ArrivalOutcome::Refused(GateRefusal::Late { retry_after }) => self.record_refusal(caller, retry_after),
        }
    }

    fn record_refusal(&mut self, caller: usize, retry_after: Duration) {
        self.got[caller].refused += 1;
        self.at(self.now + retry_after, Happens::Calls { caller });
    }

    fn start(&mut self, caller: usize, ticket: Ticket, came: Instant) {
        let Caller { runs, patience, .. } = self.callers[caller];
        let (waited, left) = (self.now - came, (came + patience).saturating_duration_since(self.now));
        let in_time = runs <= left;
        self.got[caller].waited.push(waited);
        self.got[caller].ran += if in_time { runs } else { Duration::ZERO };
        self.running.push(Some(ticket));
        let ticket = self.running.len() - 1;
        self.at(self.now + runs.min(left), Happens::Ends { caller, ticket, in_time });
    }

    /// Returns the place time of all calls that ended in time, relative to the time of the open places.
    fn utilization(&self, places: usize, time: Duration) -> f64 {
        let ran: Duration = self.got.iter().map(|got| got.ran).sum();
        ran.as_secs_f64() / (time.as_secs_f64() * places as f64)
    }
}

fn bounds(places: usize) -> GateBounds {
    GateBounds { places, reserved: places / 4, most_waiting: 1024 }
}

fn caller(session: impl ToString, skill: &Arc<Skill>, runs: Duration, pause: Duration, at_once: usize) -> Caller {
    let (session, skill) = (session.to_string(), Arc::clone(skill));
    Caller { principal: "", session, skill, runs, pause, at_once, patience: PATIENCE }
}

fn neighbour(skill: &Arc<Skill>) -> Caller {
    caller("neighbour", skill, ms(5), ms(45), 1)
}

#[test]
fn a_hundred_sessions_of_mixed_lengths_get_even_shares_and_short_calls_do_not_wait() {
    let skills: [Arc<Skill>; 3] = Default::default();
    let mut callers = Vec::new();
    for number in 0..100 {
        callers.push(match number % 4 {
            // Two callers that want all they can get, of which one has far more concurrent calls; one caller in
            // between; and a modest one.
            0 => caller(number, &skills[0], LONG, ms(0), 4),
            1 => caller(number, &skills[0], ms(2500), ms(0), 40),
            2 => caller(number, &skills[1], ms(700), ms(100), 2),
            _ => caller(number, &skills[2], ms(5), ms(495), 1),
        });
    }
    let time = Duration::from_secs(600);
    let mut simulation = Simulation::new(bounds(32), callers);
    simulation.run(time);
    let place_time =
        |kind: usize| simulation.got.iter().skip(kind).step_by(4).map(|got| got.ran.as_secs_f64()).collect::<Vec<_>>();
    let greedy: Vec<_> = [place_time(0), place_time(1)].concat();
    let mean = greedy.iter().sum::<f64>() / greedy.len() as f64;
    assert!(greedy.iter().all(|it| (it / mean - 1.0).abs() < 0.2), "{mean} {greedy:?}");
    let mut waits: Vec<_> = simulation.got.iter().skip(3).step_by(4).flat_map(|got| got.waited.clone()).collect();
    waits.sort();
    assert!(waits[waits.len() * 99 / 100] < ms(50), "{:?}", waits[waits.len() * 99 / 100]);
    assert!(simulation.utilization(32, time) > 0.98);
    assert!(simulation.peak <= 32 + 2 * 8);
}

#[test]
fn slow_calls_of_one_or_many_sessions_leave_a_neighbour_alone_and_use_every_place() {
    for (calls, sessions) in [(30, 1), (64, 1), (300, 1), (1000, 1), (300, 50), (1000, 50)] {
        let (slow, quick): (Arc<Skill>, Arc<Skill>) = Default::default();
        let mut callers: Vec<_> = (0..sessions).map(|it| caller(it, &slow, LONG, ms(0), calls / sessions)).collect();
        callers.push(neighbour(&quick));
        let time = Duration::from_secs(120);
        let mut simulation = Simulation::new(bounds(16), callers);
        simulation.run(time);
        let got = simulation.got.last().unwrap();
        assert_eq!(got.refused, 0);
        let late = got.waited.iter().filter(|wait| !wait.is_zero()).count();
        assert!(late * 100 < got.waited.len(), "{calls} of {sessions}: {late} of {}", got.waited.len());
        assert!(simulation.utilization(16, time) > 0.97, "{calls} of {sessions}");
    }
}

/// Other callers' calls may go before a call that arrived in time. Calls that started together end together, later
/// than their mean suggests.
#[test]
fn a_call_that_can_no_longer_end_in_time_leaves_its_place_to_another() {
    for sessions in [1, 50] {
        let slow: Arc<Skill> = Arc::default();
        let hurried = |it| Caller { patience: ms(14_500), ..caller(it, &slow, LONG, ms(0), 300 / sessions) };
        let callers: Vec<_> = (0..sessions).map(hurried).collect();
        let (time, mut simulation) = (Duration::from_secs(300), Simulation::new(bounds(16), callers));
        simulation.run(time);
        assert!(simulation.utilization(16, time) > 0.95, "{sessions}: {}", simulation.utilization(16, time));
    }
}

#[test]
fn a_neighbour_that_calls_the_same_skill_is_known_by_its_own_calls() {
    let skill = Arc::default();
    let callers = vec![neighbour(&skill), caller("slow", &skill, LONG, ms(0), 300)];
    let mut simulation = Simulation::new(bounds(16), callers);
    simulation.run(Duration::from_secs(120));
    assert!(simulation.got[0].waited.len() > 2000);
    assert_eq!(simulation.got[0].slowest(), Duration::ZERO);
}

#[test]
fn long_calls_cannot_keep_the_reserve() {
    // Each call belongs to another session, so only its skill is known.
    let (skill, quick): (Arc<Skill>, Arc<Skill>) = Default::default();
    let mut callers: Vec<_> = (0..500).map(|it| caller(it, &skill, LONG, ms(0), 1)).collect();
    callers.push(neighbour(&quick));
    let mut simulation = Simulation::new(bounds(16), callers);
    simulation.run(SHORT * 3);
    assert!(simulation.peak <= 16 + 2 * 4, "{}", simulation.peak);
    let before = simulation.got[500].waited.len();
    simulation.run(Duration::from_secs(60));
    let later = &simulation.got[500].waited[before..];
    assert!(later.len() > 1000 && later.iter().all(Duration::is_zero));
}

#[test]
fn a_principal_with_many_sessions_gets_no_more_than_one_with_one() {
    // This is also true if the places can't be divided evenly.
    for places in [1, 3, 5, 16] {
        let skill: Arc<Skill> = Arc::default();
        let mut callers: Vec<_> =
            (0..20).map(|it| Caller { principal: "many", ..caller(it, &skill, LONG, ms(0), 5) }).collect();
        callers.push(Caller { principal: "one", ..caller("", &skill, LONG, ms(0), 50) });
        callers.iter_mut().for_each(|it| it.patience = Duration::from_secs(300));
        let mut simulation = Simulation::new(bounds(places), callers);
        simulation.run(Duration::from_secs(600));
        let many: Duration = simulation.got[..20].iter().map(|got| got.ran).sum();
        let ratio = many.as_secs_f64() / simulation.got[20].ran.as_secs_f64();
        assert!((0.8..1.25).contains(&ratio), "{places} places: {ratio}");
    }
}

#[test]
fn sessions_of_a_principal_get_even_shares_also_those_that_come_later() {
    let skill: Arc<Skill> = Arc::default();
    let of =
        |principal, it| Caller { principal, patience: Duration::from_secs(300), ..caller(it, &skill, LONG, ms(0), 5) };
    let mut callers: Vec<_> = (0..4).map(|it| of("many", it)).collect();
    callers.push(of("one", 4));
    callers.push(Caller { at_once: 0, ..of("many", 5) });
    let mut simulation = Simulation::new(bounds(3), callers);
    simulation.run(Duration::from_secs(600));
    let before = simulation.got.clone();
    (0..5).for_each(|_| simulation.at(simulation.now, Happens::Calls { caller: 5 }));
    simulation.run(Duration::from_secs(1800));
    let got = |it: usize| (simulation.got[it].ran - before[it].ran).as_secs_f64();
    let mean = got(4) / 5.0;
    let ratios = [0, 1, 2, 3, 5].map(|it| got(it) / mean);
    assert!(ratios.iter().all(|it| (0.8..1.25).contains(it)), "{ratios:?}");
}

/// A principal that used what others left for a long time does not starve later.
#[test]
fn using_what_others_leave_costs_little_later() {
    let of = |principal, skill: &_, runs, pause, at_once| Caller {
        principal,
        patience: Duration::from_secs(300),
        ..caller("", skill, runs, pause, at_once)
    };
    for places in [1, 3, 5, 16] {
        let (slow, quick): (Arc<Skill>, Arc<Skill>) = Default::default();
        let callers = vec![
            of("greedy", &slow, LONG, ms(0), 3 * places),
            of("modest", &quick, ms(5), ms(45), 1),
            of("late", &slow, LONG, ms(0), 0),
        ];
        let bounds = GateBounds { places, reserved: 0, most_waiting: 1024 };
        let mut simulation = Simulation::new(bounds, callers);
        simulation.run(Duration::from_secs(3600));
        let before = simulation.got[0].ran;
        (0..3 * places).for_each(|_| simulation.at(simulation.now, Happens::Calls { caller: 2 }));
        simulation.run(Duration::from_secs(3600 + 200));
        let (greedy, late) = (simulation.got[0].ran - before, simulation.got[2].ran);
        let ratio = late.as_secs_f64() / greedy.as_secs_f64();
        assert!((0.8..1.25).contains(&ratio), "{places} places: {ratio}, {late:?} of {greedy:?}");
    }
}
