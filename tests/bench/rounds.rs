//! The order of measurements: each row at each number of callers in turn, round after round, so that what else happens on
//! the machine strikes all of them. All processes but those that are measured are stopped.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use openskill_tests::quantile::median;

use crate::caller::Target;
use crate::load::{Cell, measure};
use crate::rows::Row;
use crate::settings::Settings;
use crate::site::{Running, Site};
use crate::usage::Memory;

/// A cell that takes so long is measured in so many rounds at most.
const LONG: Duration = Duration::from_secs(4);
const LONG_ROUNDS: usize = 3;

/// How often memory is measured at most, under which load, how long, and how often in that time.
const MEMORY_ROUNDS: u32 = 3;
const CALLERS: usize = 256;
const LOOKED_AT: Duration = Duration::from_millis(1500);
const LOOK: Duration = Duration::from_millis(100);

/// The first calls, which make what is kept warm.
const FIRST: Duration = Duration::from_millis(300);

type Parts = Vec<(&'static str, Memory)>;

/// A row as one binary serves it, and what was measured.
pub(crate) struct Entry {
    pub(crate) row: Row,
    pub(crate) python: PathBuf,
    /// By the binary of `--before`.
    pub(crate) is_before: bool,
    cells: BTreeMap<usize, Vec<Cell>>,
    /// By number of callers; at 0 if it does not start.
    failures: BTreeMap<usize, String>,
    took: BTreeMap<usize, Duration>,
    /// At rest and under load, of each round.
    memory: Vec<(Parts, Parts)>,
    running: Option<Running>,
}

impl Entry {
    /// With `--before`, two builds of a row come one after the other.
    pub(crate) fn of_rows(rows: &[Row], settings: &Settings) -> Vec<Self> {
        let mut all = Vec::new();
        for row in rows.iter().filter(|row| settings.wants(&row.id)) {
            let pythons = if row.is_script { settings.python.len() } else { 1 };
            let builds = settings.before.is_some() && matches!(row.site, Site::Openskill(_));
            for python in &settings.python[..pythons] {
                for is_before in [true, false].into_iter().filter(|it| builds || !it) {
                    let (cells, failures, took, memory) = Default::default();
                    let (row, python) = (row.clone(), python.clone());
                    all.push(Self { row, python, is_before, cells, failures, took, memory, running: None });
                }
            }
        }
        all
    }

    /// One cell for each round that was measured.
    pub(crate) fn rounds(&self, callers: usize) -> &[Cell] {
        self.cells.get(&callers).map_or(&[], Vec::as_slice)
    }

    /// The medians; none if it was not measured.
    pub(crate) fn cell(&self, callers: usize) -> Option<Cell> {
        self.cells.get(&callers).map(|cells| Cell::median(cells))
    }

    /// Why there is no cell.
    pub(crate) fn failure(&self, callers: usize) -> &str {
        self.failures.range(..=callers).next_back().map_or("not measured", |(_, reason)| reason)
    }

    /// The medians of each part at rest and under load.
    pub(crate) fn memory(&self) -> Vec<(&'static str, Memory, Memory)> {
        let of = |part: &str, parts: fn(&(Parts, Parts)) -> &Parts| {
            let rounds = self.memory.iter().filter_map(|round| parts(round).iter().find(|(name, _)| *name == part));
            median(rounds.map(|(_, memory)| *memory).collect())
        };
        let parts = self.memory.first().map(|(_, load)| load.iter().map(|(part, _)| *part)).into_iter().flatten();
        parts.map(|part| (part, of(part, |round| &round.0), of(part, |round| &round.1))).collect()
    }

    fn target(&self, running: &Running) -> Target {
        Target { address: running.address, tls: running.tls.clone(), call: self.row.call.clone() }
    }

    async fn site(&self, settings: &Settings) -> Result<Running, String> {
        let binary = settings.before.as_deref().filter(|_| self.is_before);
        self.row.site.start(settings, &self.python, binary).await
    }

    /// Starts the processes of this row or lets them go on, and makes the first calls. Returns their roots.
    async fn wake(&mut self, settings: &Settings) -> Result<(Target, Vec<i32>), String> {
        if let Some(running) = &self.running {
            running.go_on().await;
            return Ok((self.target(running), running.roots.clone()));
        }
        let running = self.site(settings).await?;
        let (target, roots) = (self.target(&running), running.roots.clone());
        measure(target.clone(), 1, FIRST, roots.clone()).await?;
        running.settle().await;
        self.running = Some(running);
        Ok((target, roots))
    }

    /// One more measurement of a cell, unless it would tell less than it costs.
    async fn measure(&mut self, callers: usize, settings: &Settings) {
        let is_stuck = self.cells.range(..=callers).any(|(_, cells)| cells.iter().any(|cell| cell.is_stuck));
        let rounds = self.cells.get(&callers).map_or(0, Vec::len);
        let is_long = self.took.get(&callers).is_some_and(|took| *took > LONG);
        let has_failed = self.failures.range(..=callers).next().is_some();
        if has_failed || is_stuck || (is_long && rounds >= LONG_ROUNDS) {
            return;
        }
        let begun = Instant::now();
        let time = Duration::from_secs_f64(settings.seconds);
        let measured = match self.wake(settings).await {
            Ok((target, roots)) => measure(target, callers, time, roots).await.map_err(|reason| (callers, reason)),
            Err(reason) => Err((0, reason)),
        };
        match measured {
            Ok(cell) => {
                if cell.is_stuck {
                    self.running = None;
                }
                self.cells.entry(callers).or_default().push(cell);
            }
            Err((at, reason)) => {
                eprintln!("{} at {callers}: {reason}", self.row.id);
                self.failures.insert(at, reason);
                self.running = None;
            }
        }
        let took = self.took.entry(callers).or_default();
        *took = begun.elapsed().max(*took);
        if let Some(running) = &self.running {
            running.stop().await;
        }
    }

    /// Starts it alone, looks, calls it, looks again, and ends it.
    async fn look(&mut self, settings: &Settings) -> Result<(), String> {
        let running = self.site(settings).await?;
        running.settle().await;
        let rest = running.memory();
        let load = tokio::spawn(measure(self.target(&running), CALLERS, LOOKED_AT, running.roots.clone()));
        let sum = |parts: &Parts| parts.iter().map(|(_, memory)| memory.pss).sum::<u64>();
        let (mut most, until) = (rest.clone(), Instant::now() + LOOKED_AT);
        while Instant::now() < until && !load.is_finished() {
            tokio::time::sleep(LOOK).await;
            let now = running.memory();
            if sum(&now) > sum(&most) {
                most = now;
            }
        }
        drop(running);
        if load.is_finished() {
            load.await.map_err(|error| error.to_string())??;
        }
        self.memory.push((rest, most));
        Ok(())
    }
}

/// Measures memory: each row alone on the machine, so that it shares no page with another.
pub(crate) async fn memory(entries: &mut [Entry], settings: &Settings) {
    for round in 0..settings.rounds.min(MEMORY_ROUNDS) {
        eprintln!("memory, round {} of {}", round + 1, settings.rounds.min(MEMORY_ROUNDS));
        for entry in entries.iter_mut() {
            if entry.row.has_memory
                && let Err(reason) = entry.look(settings).await
            {
                eprintln!("memory of {}: {reason}", entry.row.id);
            }
        }
    }
}

pub(crate) async fn throughput(entries: &mut [Entry], in_flight: &[usize], settings: &Settings) {
    for round in 0..settings.rounds {
        eprintln!("round {} of {}", round + 1, settings.rounds);
        for callers in in_flight {
            let mut order: Vec<_> = entries.iter_mut().collect();
            // Neither of two builds always comes first.
            if round % 2 == 1 {
                order.reverse();
            }
            for entry in order {
                entry.measure(*callers, settings).await;
            }
        }
    }
}
