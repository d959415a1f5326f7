//! The command line.

/// The scenarios, in the order they run.
pub(crate) const SCENARIOS: [&str; 3] = ["kill", "shared", "boundaries"];

/// The usage message.
pub(crate) const USAGE: &str = "usage: histories [--seed N] [--seconds 60] [--only kill,shared,boundaries]";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    /// How long `kill` and `shared` kill.
    pub(crate) seconds: u64,
    pub(crate) only: Vec<String>,
}

impl Settings {
    pub(crate) fn read(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let seed = u64::from(rand::random::<u32>());
        let mut settings = Self { seed, seconds: 60, only: SCENARIOS.map(str::to_owned).to_vec() };
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--seed" => {
                    settings.seed = u64::from(value.parse::<u32>().map_err(|_| format!("'{value}' is not a seed"))?)
                }
                "--seconds" => settings.seconds = seconds(&value)?,
                "--only" => settings.only = scenarios(&value)?,
                _ => return Err(format!("unknown option {name}")),
            }
        }
        Ok(settings)
    }

    /// Whether a scenario runs.
    pub(crate) fn runs(&self, scenario: &str) -> bool {
        self.only.iter().any(|it| it == scenario)
    }
}

fn seconds(value: &str) -> Result<u64, String> {
    let seconds = value.parse().ok().filter(|it| (1..=600).contains(it));
    seconds.ok_or_else(|| format!("'{value}' is not a number of seconds: 1 to 600"))
}

fn scenarios(value: &str) -> Result<Vec<String>, String> {
    let names: Vec<_> = value.split(',').map(str::to_owned).collect();
    match names.iter().find(|name| !SCENARIOS.contains(&name.as_str())) {
        Some(unknown) => Err(format!("unknown scenario '{unknown}'")),
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
        let settings = read("--seed 5 --seconds 10 --only kill").unwrap();
        assert_eq!((settings.seed, settings.seconds, settings.runs("boundaries")), (5, 10, false));
        for text in ["--seed", "--seed x", "--seconds 0", "--only kill,nothing", "--quick 1"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
