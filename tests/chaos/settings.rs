//! The command line.

use std::time::Duration;

/// A part of the run. They run in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Phase {
    Faults,
    Ejection,
    Overload,
    Starvation,
    Deadlines,
    Leaks,
    Sigterm,
}

/// Kill, stop, flood and restart a gateway and its workers, and check the invariants
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "chaos")]
pub(crate) struct Settings {
    /// Repeats what is random
    #[arg(long, default_value_t = 20_260_101)]
    pub(crate) seed: u64,
    /// Multiplies counts and durations
    #[arg(long, default_value_t = 1.0, value_parser = scale)]
    pub(crate) scale: f64,
    /// Which phases run [default: all]
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<Phase>,
}

impl Settings {
    /// Whether a phase runs.
    pub(crate) fn runs(&self, phase: Phase) -> bool {
        self.only.is_empty() || self.only.contains(&phase)
    }

    /// A scaled count.
    pub(crate) fn count(&self, full: usize) -> usize {
        ((full as f64 * self.scale).round() as usize).max(1)
    }

    /// A scaled duration.
    pub(crate) fn time(&self, full: Duration) -> Duration {
        full.mul_f64(self.scale).max(Duration::from_secs(2).min(full))
    }
}

fn scale(value: &str) -> Result<f64, String> {
    value.parse().ok().filter(|it| (0.001..=10.0).contains(it)).ok_or_else(|| "0.001 to 10".to_owned())
}
