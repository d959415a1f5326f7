//! The command line.

use std::time::Duration;

/// A kind of run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scenario {
    Kill,
    Shared,
    Failover,
    Boundaries,
}

/// Kill gateways, workers and databases while operations run, and check what clients saw
#[derive(Debug, clap::Parser)]
#[command(name = "histories")]
pub(crate) struct Settings {
    /// Repeats a plan
    #[arg(long, default_value_t = rand::random())]
    pub(crate) seed: u32,
    /// How long each scenario but `boundaries` kills
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,
    /// Calls a second
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) calls: u32,
    /// Which scenarios run
    #[arg(long, value_delimiter = ',', default_value = "kill,shared,failover,boundaries")]
    pub(crate) only: Vec<Scenario>,
}

impl Settings {
    pub(crate) fn seed(&self) -> u64 {
        self.seed.into()
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// How many calls there are.
    pub(crate) fn calls(&self) -> usize {
        self.count(self.calls.into())
    }

    /// How many of so many a second there are.
    pub(crate) fn count(&self, rate: f64) -> usize {
        (rate * self.seconds as f64).ceil() as usize
    }
}
