//! What the benchmark was asked for.

use std::time::Duration;

pub(crate) const USAGE: &str = "bench-runners [--only SKILL,SKILL] [--rounds N] [--seconds S] [--python PATH]...

  --only      skills whose id contains one of these: process, fork, shared, exec, inproc, tools, http, docker
  --rounds    each cell is measured so often, 5 if not given; what is told are medians
  --seconds   measured in each cell of a round, 1 if not given
  --python    runs the script; OPENSKILL_PYTHON or python3 if not given. Of each further one only the
              rows of cli:python are measured, in the same rounds";

#[derive(Debug)]
pub(crate) struct Settings {
    only: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) time: Duration,
    /// At least one.
    pub(crate) pythons: Vec<String>,
}

impl Settings {
    pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut settings = Self { only: Vec::new(), rounds: 5, time: Duration::from_secs(1), pythons: Vec::new() };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} has no value"))?;
            settings.set(&name, &value).ok_or_else(|| format!("'{name} {value}' is not understood"))?;
        }
        if settings.pythons.is_empty() {
            settings.pythons.push(std::env::var("OPENSKILL_PYTHON").unwrap_or_else(|_| "python3".to_owned()));
        }
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "--only" => self.only = value.split(',').map(str::to_owned).collect(),
            "--rounds" => self.rounds = value.parse().ok().filter(|rounds| (1..=100).contains(rounds))?,
            "--seconds" => {
                let seconds = value.parse().ok().filter(|seconds| (0.1..=60.0).contains(seconds))?;
                self.time = Duration::from_secs_f64(seconds);
            }
            "--python" => self.pythons.push(value.to_owned()),
            _ => return None,
        }
        Some(())
    }

    pub(crate) fn wants(&self, skill: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| skill.contains(part.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Settings, String> {
        Settings::read(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn what_is_asked_for_is_what_is_measured() {
        let settings = read("--only fork,http --rounds 2 --seconds 0.5 --python a --python b").unwrap();
        assert!(settings.wants("fork_bare") && settings.wants("http") && !settings.wants("shared"));
        assert_eq!((settings.rounds, settings.time), (2, Duration::from_millis(500)));
        assert_eq!(settings.pythons, ["a", "b"]);
        assert!(read("").unwrap().wants("shared"));
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for line in ["--help", "--rounds 0", "--rounds", "--seconds never", "--what 1"] {
            let reason = read(line).unwrap_err();
            assert!(reason.contains(line.split(' ').next().unwrap()), "{reason}");
        }
    }
}
