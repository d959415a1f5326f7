//! What the benchmark was asked for.

use std::path::PathBuf;
use std::time::Duration;

use crate::place::Pythons;

pub(crate) const USAGE: &str = "bench [--only ID,ID] [--part memory,throughput,growth] [--rounds N] [--seconds S]
      [--budget S] [--python PATH] [--hosts PATH] [--mcpo PATH] [--save FOLDER]

  --only      contenders whose id contains one of these: invoke, bare2, fork, fastapi, ...
  --part      which parts; all of them if not given
  --rounds    rounds of the throughput, 5 if not given
  --seconds   measured in each cell; what the budget allows, 0.6 at most, if not given
  --budget    for everything together, 570 s if not given
  --python    runs the echo script; OPENSKILL_PYTHON or python3 if not given
  --hosts     the Python that has tests/bench/requirements.txt; without it the Python hosts are left out
  --mcpo      the program mcpo, which needs an environment of its own
  --save      writes results.md, throughput.svg and growth.svg there";

pub(crate) const PARTS: [&str; 3] = ["memory", "throughput", "growth"];

/// Callers at once.
pub(crate) const IN_FLIGHT: [usize; 4] = [1, 16, 64, 256];

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    only: Vec<String>,
    parts: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) seconds: Option<f64>,
    pub(crate) budget: Duration,
    pub(crate) pythons: Pythons,
    pub(crate) save: Option<PathBuf>,
}

impl Settings {
    pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let python = std::env::var_os("OPENSKILL_PYTHON").unwrap_or_else(|| "python3".into());
        let mut settings = Self {
            only: Vec::new(),
            parts: PARTS.map(str::to_owned).to_vec(),
            rounds: 5,
            seconds: None,
            budget: Duration::from_secs(570),
            pythons: Pythons { script: python.into(), ..Pythons::default() },
            save: None,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} has no value"))?;
            settings.set(&name, &value).ok_or_else(|| format!("'{name} {value}' is not understood"))?;
        }
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let list = || value.split(',').map(str::to_owned).collect::<Vec<_>>();
        match name {
            "--only" => self.only = list(),
            "--part" => {
                self.parts = list();
                return self.parts.iter().all(|part| PARTS.contains(&part.as_str())).then_some(());
            }
            "--rounds" => self.rounds = value.parse().ok().filter(|rounds| (1..=100).contains(rounds))?,
            "--seconds" => self.seconds = Some(value.parse().ok().filter(|seconds| (0.05..=10.0).contains(seconds))?),
            "--budget" => self.budget = Duration::from_secs(value.parse().ok()?),
            "--python" => self.pythons.script = value.into(),
            // Not resolved: a virtual environment is known by its link. Absolute: hosts run in folders of their own.
            "--hosts" => self.pythons.hosts = Some(std::path::absolute(value).ok()?),
            "--mcpo" => self.pythons.mcpo = Some(std::path::absolute(value).ok()?),
            "--save" => self.save = Some(value.into()),
            _ => return None,
        }
        Some(())
    }

    pub(crate) fn wants(&self, contender: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| contender.contains(part.as_str()))
    }

    pub(crate) fn has_part(&self, part: &str) -> bool {
        self.parts.iter().any(|it| it == part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Settings, String> {
        Settings::read(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let settings = read("--only bare,fork --seconds 0.5 --rounds 1").unwrap();
        assert!(settings.wants("bare2-multi") && settings.wants("fork") && !settings.wants("rest"));
        assert!(read("").unwrap().wants("rest"));
        for line in ["--rounds 0", "--seconds x", "--part all", "--unknown 1", "--only"] {
            assert!(read(line).unwrap_err().contains(line.split(' ').next().unwrap()), "{line}");
        }
    }
}
