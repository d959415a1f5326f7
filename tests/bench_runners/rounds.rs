//! Each contender at each number of callers, in turn, round after round: what the machine does beside strikes all of them,
//! and one round that it spoilt does not count.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use openskill_tests::quantile::median;
use openskill_tests::system::System;

use crate::contenders::Contender;
use crate::measure::{Figures, measure, once};
use crate::settings::Settings;

/// Callers at once.
pub(crate) const IN_FLIGHT: [usize; 3] = [1, 8, 32];

/// A cell that takes longer than this is measured in so many rounds at most.
const LONG: Duration = Duration::from_secs(5);
const LONG_ROUNDS: usize = 3;

/// An interpreter and a running system that has it, with the skills that are measured there.
pub(crate) struct Stage {
    pub(crate) python: String,
    pub(crate) system: System,
    pub(crate) contenders: Vec<Contender>,
}

/// By stage, skill and callers.
#[derive(Default)]
pub(crate) struct Found {
    cells: BTreeMap<(usize, String, usize), Vec<Figures>>,
    took: BTreeMap<(usize, String, usize), Duration>,
    failures: BTreeMap<(usize, String), String>,
}

impl Found {
    /// The medians, or why there are none.
    pub(crate) fn get(&self, stage: usize, skill: &str, callers: usize) -> Result<Figures, &str> {
        let cells = match self.failures.get(&(stage, skill.to_owned())) {
            Some(failure) => return Err(failure),
            None => self.cells.get(&(stage, skill.to_owned(), callers)).ok_or("not measured")?,
        };
        let of = |figure: fn(&Figures) -> Duration| median(cells.iter().map(figure).collect());
        let per_second = median(cells.iter().map(|it| it.per_second).collect());
        Ok(Figures { per_second, p50: of(|it| it.p50), p99: of(|it| it.p99) })
    }

    async fn cell(&mut self, index: usize, stage: &Stage, contender: &Contender, callers: usize, time: Duration) {
        let whole = (index, contender.skill.clone());
        let key = (index, contender.skill.clone(), callers);
        let is_long = self.took.get(&key).is_some_and(|took| *took > LONG);
        let rounds = self.cells.get(&key).map_or(0, Vec::len);
        if self.failures.contains_key(&whole) || (is_long && rounds >= LONG_ROUNDS) {
            return;
        }
        let begun = Instant::now();
        match figures(stage, contender, callers, time).await {
            Ok(figures) => {
                self.cells.entry(key.clone()).or_default().push(figures);
                self.took.insert(key, begun.elapsed());
            }
            Err(reason) => {
                eprintln!("{} at {callers}: {reason}", contender.skill);
                self.failures.insert(whole, reason);
            }
        }
    }
}

pub(crate) async fn run(settings: &Settings, stages: &[Stage]) -> Found {
    let mut found = Found::default();
    for round in 0..settings.rounds {
        eprintln!("round {} of {}", round + 1, settings.rounds);
        for callers in IN_FLIGHT {
            for (index, stage) in stages.iter().enumerate() {
                for contender in &stage.contenders {
                    found.cell(index, stage, contender, callers, settings.time).await;
                }
            }
        }
    }
    found
}

async fn figures(stage: &Stage, contender: &Contender, callers: usize, time: Duration) -> Result<Figures, String> {
    // The tools of a server come a moment later than the rest.
    stage.system.has_skill(&contender.skill).await;
    // Once, so that what is kept warm is warm, and to see that it works.
    once(&stage.system, contender).await?;
    measure(&stage.system, contender, callers, time).await
}
