//! The command line.

use std::time::Duration;

/// The phases, in the order they run.
pub(crate) const PHASES: [&str; 7] = ["faults", "ejection", "overload", "starvation", "deadlines", "leaks", "sigterm"];

/// The usage message.
pub(crate) const USAGE: &str =
    "usage: chaos [--seed N] [--scale 0.1] [--only faults,ejection,overload,starvation,deadlines,leaks,sigterm]";

const DEFAULT_SEED: u64 = 20_260_101;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    /// Multiplies counts and durations.
    pub(crate) scale: f64,
    pub(crate) only: Vec<String>,
}

impl Settings {
    pub(crate) fn read(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut settings = Self { seed: DEFAULT_SEED, scale: 1.0, only: PHASES.map(str::to_owned).to_vec() };
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--seed" => settings.seed = value.parse().map_err(|_| format!("'{value}' is not a seed"))?,
                "--scale" => settings.scale = scale(&value)?,
                "--only" => settings.only = phases(&value)?,
                _ => return Err(format!("unknown option {name}")),
            }
        }
        Ok(settings)
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
    let scale: Option<f64> = value.parse().ok();
    scale.filter(|it| (0.001..=10.0).contains(it)).ok_or_else(|| format!("'{value}' is not a scale: 0.001 to 10"))
}

fn phases(value: &str) -> Result<Vec<String>, String> {
    let names: Vec<_> = value.split(',').map(str::to_owned).collect();
    match names.iter().find(|name| !PHASES.contains(&name.as_str())) {
        Some(unknown) => Err(format!("unknown phase '{unknown}'")),
        None => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        Settings::read(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn arguments_are_parsed_or_rejected() {
        let settings = read("--seed 5 --scale 0.1 --only leaks,faults").unwrap();
        assert_eq!((settings.seed, settings.count(200), settings.only.len()), (5, 20, 2));
        assert_eq!(settings.count(1), 1);
        for text in ["--seed", "--seed x", "--scale 0", "--only leaks,nothing", "--quick 1"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
