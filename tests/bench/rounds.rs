//! Throughput: each contender at each number of callers, in turn, round after round, so that what the machine does beside
//! strikes all of them. What stands in the table are medians over the rounds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::contenders::Contender;
use crate::load::{Cell, Timing, measure};
use crate::median::of_cells;
use crate::place::Pythons;
use crate::settings::{IN_FLIGHT, Settings};
use crate::stage::Stage;

/// The longest that is measured in a cell, and the shortest.
const SECONDS: (f64, f64) = (0.6, 0.2);

/// What a cell takes beside: stopping whoever was before, connecting, reading the process table.
const BESIDE: f64 = 0.25;

/// What goes before, to warm up, as a share of what is measured.
const WARM: f64 = 0.2;

/// The share of the time that slow contenders take, until a round has shown it.
const SLOW_AT_FIRST: f64 = 0.35;

/// A contender whose calls outlive a cell is measured so often at that number of callers, and at no larger one: each such
/// cell takes many times longer than the others.
const ABANDONED_ROUNDS: usize = 1;

/// A cell that takes longer than this is measured so often: the median of three tells as much, and leaves the others their
/// time.
const LONG: Duration = Duration::from_secs(5);
const LONG_ROUNDS: usize = 3;

/// So much more than it took is laid by for what is slow.
const MARGIN: f64 = 1.15;

/// A contender and a number of callers.
pub(crate) type Key = (&'static str, usize);

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Throughput {
    cells: BTreeMap<Key, Vec<Cell>>,
    /// The longest that a cell took, all in all.
    took: BTreeMap<Key, Duration>,
    failures: BTreeMap<Key, String>,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
}

impl Throughput {
    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.failures.is_empty()
    }

    /// The medians, or why there are none.
    pub(crate) fn get(&self, key: Key) -> Result<Cell, String> {
        match (self.cells.get(&key), self.failures.get(&key)) {
            (Some(cells), _) => Ok(of_cells(cells)),
            (None, Some(failure)) => Err(failure.clone()),
            (None, None) => Err("not measured".to_owned()),
        }
    }

    /// Whether calls outlived the cell: their latencies were longer than what is told.
    pub(crate) fn was_cut(&self, key: Key) -> bool {
        self.cells.get(&key).is_some_and(|cells| cells.iter().any(|cell| cell.abandoned))
    }

    /// Whether another round would tell no more than it costs.
    fn is_settled(&self, (id, callers): Key) -> bool {
        let cut = |key: &Key| key.0 == id && key.1 <= callers && self.was_cut(*key);
        let smaller_was_cut = self.cells.keys().any(|key| cut(key) && key.1 < callers);
        let key = (id, callers);
        let rounds = self.cells.get(&key).map_or(0, Vec::len);
        let is_long = self.took.get(&key).is_some_and(|took| *took > LONG);
        self.failures.contains_key(&key)
            || smaller_was_cut
            || (rounds >= ABANDONED_ROUNDS && self.was_cut(key))
            || (rounds >= LONG_ROUNDS && is_long)
    }
}

/// Measures until the rounds are done or `until` has come: later rounds get what time is left.
pub(crate) async fn run(
    settings: &Settings,
    pythons: &Pythons,
    contenders: &[Contender],
    until: Instant,
) -> Throughput {
    let mut found = Throughput::default();
    let mut stage = Stage::new(pythons);
    for contender in contenders {
        if let Err(reason) = stage.place(contender.place).await {
            eprintln!("{} can't be started: {reason}", contender.id);
        }
    }
    let mut pace = Pace { until, slow: until.saturating_duration_since(Instant::now()).mul_f64(SLOW_AT_FIRST) };
    pace.slow /= settings.rounds as u32;
    for round in 0..settings.rounds {
        let cells = IN_FLIGHT.len() * contenders.len();
        let seconds = settings.seconds.unwrap_or_else(|| pace.seconds(settings.rounds - round, cells));
        found.seconds = if round == 0 { seconds } else { found.seconds.min(seconds) };
        eprintln!("round {} of {}, {seconds:.2} s a cell", round + 1, settings.rounds);
        let begun = Instant::now();
        for (callers, contender) in IN_FLIGHT.iter().flat_map(|callers| contenders.iter().map(move |it| (*callers, it)))
        {
            if Instant::now() > until {
                eprintln!("the time is over");
                return found;
            }
            measure_cell(&mut stage, &mut found, contender, callers, seconds).await;
        }
        found.rounds = round + 1;
        let quick = Duration::from_secs_f64(cells as f64 * whole(seconds));
        pace.slow = begun.elapsed().mul_f64(MARGIN).saturating_sub(quick);
    }
    found
}

/// One more measurement of a cell, unless it would tell nothing new.
async fn measure_cell(stage: &mut Stage, found: &mut Throughput, contender: &Contender, callers: usize, seconds: f64) {
    let key = (contender.id, callers);
    if found.is_settled(key) {
        return;
    }
    let begun = Instant::now();
    match cell(stage, contender, callers, seconds).await {
        Ok(cell) => {
            found.cells.entry(key).or_default().push(cell);
            let took = found.took.entry(key).or_default();
            *took = begun.elapsed().max(*took);
        }
        Err(failure) => {
            eprintln!("{} at {callers}: {failure}", contender.id);
            stage.end(contender.place);
            found.failures.insert(key, failure);
        }
    }
}

/// How the time is divided.
struct Pace {
    until: Instant,
    /// What a round takes for contenders that are too slow for a cell.
    slow: Duration,
}

impl Pace {
    /// What the time that is left allows for each cell.
    fn seconds(&self, rounds: usize, cells: usize) -> f64 {
        let left = self.until.saturating_duration_since(Instant::now());
        let a_round = (left / rounds.max(1) as u32).saturating_sub(self.slow).as_secs_f64();
        ((a_round / cells.max(1) as f64 - BESIDE) / (1.0 + WARM)).clamp(SECONDS.1, SECONDS.0)
    }
}

/// What a cell takes that measures so long.
fn whole(seconds: f64) -> f64 {
    seconds * (1.0 + WARM) + BESIDE
}

async fn cell(stage: &mut Stage, contender: &Contender, callers: usize, seconds: f64) -> Result<Cell, String> {
    let running = stage.place(contender.place).await?;
    let timing = Timing { warm: Duration::from_secs_f64(seconds * WARM), measured: Duration::from_secs_f64(seconds) };
    let cell = measure(contender.target(running), callers, timing, running.roots.clone()).await?;
    if cell.abandoned {
        stage.end(contender.place);
    }
    Ok(cell)
}
