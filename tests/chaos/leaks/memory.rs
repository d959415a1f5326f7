//! The memory of each process over time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openskill_tests::processes;
use tokio::task::JoinSet;

use crate::table::Row;

const EVERY: Duration = Duration::from_millis(200);

/// How much more than the third quarter the last may use: a share, or this many KiB.
const GROWTH: (f64, u64) = (0.05, 2048);

/// Takes samples until it is dropped.
#[derive(Debug)]
pub(super) struct Memory {
    stop: Arc<AtomicBool>,
    sampling: JoinSet<Samples>,
}

/// In KiB: for each process, over time.
#[derive(Debug)]
pub(super) struct Samples(Vec<Vec<u64>>);

impl Memory {
    pub(super) fn watch(pids: Vec<i32>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut sampling, stopped) = (JoinSet::new(), Arc::clone(&stop));
        sampling.spawn(async move {
            let mut ticks = tokio::time::interval(EVERY);
            let mut samples = vec![Vec::new(); pids.len()];
            while !stopped.load(Ordering::Relaxed) {
                ticks.tick().await;
                for (pid, samples) in pids.iter().zip(&mut samples) {
                    samples.extend(processes::resident_kib(*pid));
                }
            }
            Samples(samples)
        });
        Self { stop, sampling }
    }

    pub(super) async fn stop(mut self) -> Samples {
        self.stop.store(true, Ordering::Relaxed);
        let samples = self.sampling.join_next().await.expect("it was started");
        samples.expect("sampling does not panic")
    }
}

impl Samples {
    /// A line for each process.
    pub(super) fn rows(&self, names: &[String]) -> Vec<Row> {
        names.iter().zip(&self.0).map(|(name, samples)| row(name, samples)).collect()
    }
}

fn row(name: &str, samples: &[u64]) -> Row {
    let quarter = |number: usize| median(&samples[samples.len() * number / 4..samples.len() * (number + 1) / 4]);
    let (third, last) = (quarter(2), quarter(3));
    let most = third + GROWTH.1.max((third as f64 * GROWTH.0) as u64);
    let figure = format!("{} -> {} -> {} -> {last} KiB", quarter(0), quarter(1), third);
    Row::must(format!("memory of {name}, by quarters of the run"), figure, format!("last <= {most}"), last <= most)
}

fn median(samples: &[u64]) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_told_from_noise() {
        let held = |samples: &[u64]| format!("{:?}", row("it", samples)).contains("holds: Some(true)");
        assert!(held(&[10_000, 30_000, 30_000, 30_500]));
        assert!(!held(&[10_000, 20_000, 30_000, 40_000]));
    }
}
