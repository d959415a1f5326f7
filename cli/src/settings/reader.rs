//! Readings that all groups of settings share. Each adds its own on [`Reader`], in its own file.

use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use super::problem::Problem;
use super::raw::Raw;

/// The largest file that a setting may name.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Reads values, and collects the problems. A reading that fails returns a valid value all the same, or None.
pub(super) struct Reader<'a> {
    pub(super) raw: &'a Raw,
    pub(super) problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    /// Begins with the problems of the sources themselves.
    pub(super) fn new(raw: &'a Raw) -> Self {
        Self { raw, problems: raw.problems.clone() }
    }

    /// Reports a problem. The same one counts once: traces and metrics share settings.
    pub(super) fn problem(&mut self, name: &str, reason: String) {
        let problem = Problem { name: name.to_owned(), origin: self.raw.origin(name).to_string(), reason };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// The content of a file that a setting names. None if it is not set, or cannot be read.
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

    /// None if it is not set.
    pub(super) fn optional(&mut self, name: &str, least: usize, most: usize) -> Option<usize> {
        (!self.raw.value(name).is_empty()).then(|| self.number(name, least, most))
    }

    /// None if it is not set.
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

    /// The first of the choices if it is none of them.
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
    let unreadable = |error: std::io::Error| format!("'{path}' cannot be read: {error}");
    let found = Path::new(path).metadata().map_err(unreadable)?;
    if !found.is_file() || found.len() > MAX_FILE_BYTES {
        return Err(format!("'{path}' is not a file of at most {MAX_FILE_BYTES} bytes"));
    }
    std::fs::read(path).map_err(unreadable)
}
