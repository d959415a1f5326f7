//! Parses the values of all groups of settings. A group adds methods to [`Reader`] in its own file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use openskill_net::file_watcher::read_file;
use tonic::transport::Uri;

use super::problem::{SettingProblem, mask};
use super::raw::RawSettings;

/// The maximum size of a file that a setting names, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Reads values and collects problems. A method that reports a problem still returns a valid value, or `None`.
pub(super) struct Reader<'a> {
    pub(super) raw: &'a RawSettings,
    pub(super) problems: Vec<SettingProblem>,
}

/// Where something is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StorePlace {
    /// The file or directory. `None`: in memory.
    path: Option<PathBuf>,
    /// Whether no setting names a place, so that the command decides.
    pub(crate) is_default: bool,
}

impl StorePlace {
    /// Returns the file or directory. `by_default` is the one to use if no setting names a place.
    pub(crate) fn path_or(&self, by_default: Option<PathBuf>) -> Option<PathBuf> {
        if self.is_default { by_default } else { self.path.clone() }
    }
}

impl<'a> Reader<'a> {
    /// Creates a reader with the problems of the sources.
    pub(super) fn new(raw: &'a RawSettings) -> Self {
        Self { raw, problems: raw.problems.clone() }
    }

    /// Reports a problem. A repeated problem is reported once, since traces and metrics share settings.
    pub(super) fn problem(&mut self, name: &str, reason: impl Into<String>) {
        let problem = self.raw.problem(name, reason);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Reads the file that a setting names. Returns `None` if the setting is empty or the file is unreadable.
    pub(super) fn file(&mut self, name: &str) -> Option<Vec<u8>> {
        let path = self.raw.given(name)?;
        let read = read_file(Path::new(path), MAX_FILE_BYTES);
        read.map_err(|error| self.problem(name, format!("'{path}' cannot be read: {error}"))).ok()
    }

    /// Reads where something is stored: `memory`, or a file or directory.
    pub(super) fn store(&self, name: &str) -> StorePlace {
        let value = self.raw.given(name);
        StorePlace { is_default: value.is_none(), path: value.filter(|it| *it != "memory").map(PathBuf::from) }
    }

    /// Reads a certificate and its key. Both or neither must be set. `word` begins the reason if one is missing.
    pub(super) fn pair<T>(
        &mut self,
        [certificate, key]: [&str; 2],
        word: &str,
        read: impl Fn(&mut Self, &str) -> Option<T>,
    ) -> Option<(T, T)> {
        let [has_certificate, has_key] = [certificate, key].map(|name| self.raw.given(name).is_some());
        if has_certificate != has_key {
            let (set, missing) = if has_key { (key, certificate) } else { (certificate, key) };
            self.problem(set, format!("{word} {missing}"));
        }
        Some((read(self, certificate)?, read(self, key)?))
    }

    /// Reports a value that is not the URL of a server.
    pub(super) fn check_url(&mut self, name: &str, value: &str) {
        let is_url = |it: &Uri| matches!(it.scheme_str(), Some("http" | "https")) && it.host().is_some();
        if !value.parse().is_ok_and(|it| is_url(&it)) {
            self.problem(name, format!("'{}' is not an http:// or https:// URL", mask(value)));
        }
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
        self.raw.given(name).map(|_| self.number(name, least, most))
    }

    /// Parses an optional address. Returns `None` if the setting is empty.
    pub(super) fn address(&mut self, name: &str, example: &str) -> Option<SocketAddr> {
        self.raw.given(name)?;
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

    /// Returns the id of the worker, which by default has the names of the host and the process.
    pub(super) fn worker_id(&mut self) -> String {
        let Some(value) = self.raw.given("OPENSKILL_WORKER_ID") else {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            return format!("{host}-{}", std::process::id());
        };
        if value.len() > 128 || !value.chars().all(|it| it.is_ascii_graphic()) {
            self.problem("OPENSKILL_WORKER_ID", "must be at most 128 visible ASCII characters");
        }
        value.to_owned()
    }
}
