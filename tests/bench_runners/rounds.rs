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

/// A cell that takes so many times as long as it is to measure is measured in so many rounds at most.
pub(crate) const LONG: u32 = 4;
pub(crate) const LONG_ROUNDS: usize = 3;

/// An interpreter and a running system that has it, with the skills that are measured there.
pub(crate) struct Stage {
    pub(crate) python: String,
    pub(crate) system: System,
    pub(crate) contenders: Vec<Contender>,
}

/// What was found, by stage, skill and callers.
#[derive(Default)]
pub(crate) struct Found(BTreeMap<(usize, String, usize), Cell>);

#[derive(Default)]
struct Cell {
    rounds: Vec<Figures>,
    took: Duration,
    failure: Option<String>,
}

impl Found {
    /// The medians, or why there are none.
    pub(crate) fn get(&self, stage: usize, skill: &str, callers: usize) -> Result<Figures, String> {
        let Some(cell) = self.0.get(&(stage, skill.to_owned(), callers)) else { return Err("not measured".to_owned()) };
        match &cell.failure {
            Some(failure) if cell.rounds.is_empty() => Err(failure.clone()),
            _ => Ok(cell.medians()),
        }
    }

    fn cell(&mut self, stage: usize, skill: &str, callers: usize) -> &mut Cell {
        self.0.entry((stage, skill.to_owned(), callers)).or_default()
    }
}

impl Cell {
    fn medians(&self) -> Figures {
        let of = |figure: fn(&Figures) -> Duration| median(self.rounds.iter().map(figure).collect());
        let per_second = median(self.rounds.iter().map(|it| it.per_second).collect());
        Figures { per_second, p50: of(|it| it.p50), p99: of(|it| it.p99) }
    }

    /// One round more, unless it would tell no more than it costs.
    async fn measure(&mut self, stage: &Stage, contender: &Contender, callers: usize, time: Duration) {
        let is_long = self.took > time * LONG && self.rounds.len() >= LONG_ROUNDS;
        if is_long || self.failure.is_some() {
            return;
        }
        let begun = Instant::now();
        match figures(stage, contender, callers, time).await {
            Ok(figures) => self.rounds.push(figures),
            Err(reason) => {
                eprintln!("{} at {callers}: {reason}", contender.skill);
                self.failure = Some(reason);
            }
        }
        self.took = self.took.max(begun.elapsed());
    }
}

pub(crate) async fn run(settings: &Settings, stages: &[Stage]) -> Found {
    let mut found = Found::default();
    for round in 0..settings.rounds {
        eprintln!("round {} of {}", round + 1, settings.rounds);
        for callers in IN_FLIGHT {
            for (index, stage) in stages.iter().enumerate() {
                for contender in &stage.contenders {
                    found
                        .cell(index, &contender.skill, callers)
                        .measure(stage, contender, callers, settings.time)
                        .await;
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
