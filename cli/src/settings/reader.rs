//! Parses the values of all groups of settings. A group adds methods to [`Reader`] in its own file.

use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use openskill_net::file_watcher::read_file;

use super::problem::SettingProblem;
use super::raw::RawSettings;

/// The maximum size of a file that a setting names, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Reads values and collects problems. A method that reports a problem still returns a valid value, or `None`.
pub(super) struct Reader<'a> {
    pub(super) raw: &'a RawSettings,
    pub(super) problems: Vec<SettingProblem>,
}

impl<'a> Reader<'a> {
    /// Creates a reader with the problems of the sources.
    pub(super) fn new(raw: &'a RawSettings) -> Self {
        Self { raw, problems: raw.problems.clone() }
    }

    /// Reports a problem. A repeated problem is reported once, since traces and metrics share settings.
    pub(super) fn problem(&mut self, name: &str, reason: String) {
        let problem = SettingProblem { name: name.to_owned(), origin: self.raw.origin(name).to_string(), reason };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Reads the file that a setting names. Returns `None` if the setting is empty or the file is unreadable.
    pub(super) fn file(&mut self, name: &str) -> Option<Vec<u8>> {
        let path = self.raw.value(name);
        if path.is_empty() {
            return None;
        }
        contents(path).map_err(|reason| self.problem(name, reason)).ok()
    }

    pub(super) fn parse<T: FromStr>(&mut self, name: &str, wanted: &str) -> Option<T> {
        self.parse_if(name, wanted, |_| true)
    }

    fn parse_if<T: FromStr>(&mut self, name: &str, wanted: &str, is_valid: impl Fn(&T) -> bool) -> Option<T> {
        let value = self.raw.value(name);
        let parsed = value.parse().ok().filter(is_valid);
        if parsed.is_none() {
            self.problem(name, format!("'{value}' is not {wanted}"));
        }
        parsed
    }

    pub(super) fn number(&mut self, name: &str, least: usize, most: usize) -> usize {
        let wanted = format!("a whole number from {least} to {most}");
        self.parse_if(name, &wanted, |number| (least..=most).contains(number)).unwrap_or(least)
    }

    /// Parses an optional number between `least` and `most`. Returns `None` if the setting is empty.
    pub(super) fn optional(&mut self, name: &str, least: usize, most: usize) -> Option<usize> {
        (!self.raw.value(name).is_empty()).then(|| self.number(name, least, most))
    }

    /// Parses an optional address. Returns `None` if the setting is empty.
    pub(super) fn address(&mut self, name: &str, example: &str) -> Option<SocketAddr> {
        if self.raw.value(name).is_empty() {
            return None;
        }
        self.parse(name, &format!("HOST:PORT with a numeric host, such as {example}"))
    }

    pub(super) fn millis(&mut self, name: &str, least: usize, most: usize) -> Duration {
        Duration::from_millis(self.number(name, least, most) as u64)
    }

    pub(super) fn seconds(&mut self, name: &str, least: usize, most: usize) -> Duration {
        Duration::from_secs(self.number(name, least, most) as u64)
    }

    /// Parses one of the choices. Returns the first choice if the value is invalid.
    pub(super) fn one_of<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> T {
        let value = self.raw.value(name);
        let chosen = choices.iter().find(|(text, _)| *text == value);
        if chosen.is_none() {
            let texts: Vec<_> = choices.iter().map(|(text, _)| *text).collect();
            self.problem(name, format!("'{value}' is not one of {}", texts.join(", ")));
        }
        chosen.unwrap_or(&choices[0]).1
    }

    pub(super) fn flag(&mut self, name: &str) -> bool {
        self.one_of(name, &[("0", false), ("1", true), ("false", false), ("true", true)])
    }

    pub(super) fn ratio(&mut self, name: &str) -> f64 {
        self.parse_if(name, "a number from 0 to 1", |ratio| (0.0..=1.0).contains(ratio)).unwrap_or(1.0)
    }
}

fn contents(path: &str) -> Result<Vec<u8>, String> {
    read_file(Path::new(path), MAX_FILE_BYTES).map_err(|error| format!("'{path}' cannot be read: {error}"))
}
