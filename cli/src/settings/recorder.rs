//! The settings of the recorder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use openskill_redact::Rules;

use super::names;
use super::problem::Problem;
use super::raw::Raw;

/// The largest rule file that is read.
const MAX_RULES_BYTES: u64 = 1024 * 1024;

/// Where calls are recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum TraceDir {
    /// Where the command says.
    #[default]
    Default,
    Off,
    Memory,
    Folder(PathBuf),
}

/// What is recorded, and how long.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecorderSettings {
    pub(crate) dir: TraceDir,
    pub(crate) max_bytes: u64,
    pub(crate) max_age: Duration,
    /// None: nothing is redacted.
    pub(crate) redaction: Option<Rules>,
    /// Whether Markdown has arguments and results.
    pub(crate) markdown_is_raw: bool,
}

/// Reads the settings, and the rule file. Adds what is wrong to `problems`.
pub(super) fn read(raw: &Raw, problems: &mut Vec<Problem>) -> RecorderSettings {
    let mut fail = |name: &str, reason: String| {
        problems.push(Problem { name: name.to_owned(), origin: raw.origin(name).to_string(), reason });
    };
    let mut number = |name: &'static str, most: u64| match raw.value(name).parse() {
        Ok(number) if (1..=most).contains(&number) => number,
        _ => {
            fail(name, format!("'{}' is not a whole number from 1 to {most}", raw.value(name)));
            1
        }
    };
    let max_bytes = number(names::TRACE_MAX_MB, 1_000_000) * 1024 * 1024;
    let max_age = Duration::from_secs(number(names::TRACE_MAX_AGE_HOURS, 100_000) * 3600);
    let mut flag = |name: &'static str| match raw.value(name) {
        "1" | "true" => true,
        "0" | "false" => false,
        other => {
            fail(name, format!("'{other}' is not one of 0, 1, false, true"));
            false
        }
    };
    let (sanitizes, contacts) = (flag(names::TRACE_SANITIZE), flag(names::REDACT_CONTACTS));
    let markdown_is_raw = flag(names::TRACE_MD_RAW);
    let rules = rules(raw.value(names::REDACT_RULES)).unwrap_or_else(|reason| {
        fail(names::REDACT_RULES, reason);
        Rules::default()
    });
    let redaction = sanitizes.then(|| rules.emails(contacts).phones(contacts));
    RecorderSettings { dir: dir(raw.value(names::TRACE_DIR)), max_bytes, max_age, redaction, markdown_is_raw }
}

fn dir(value: &str) -> TraceDir {
    match value {
        "" => TraceDir::Default,
        "off" => TraceDir::Off,
        "memory" => TraceDir::Memory,
        path => TraceDir::Folder(PathBuf::from(path)),
    }
}

fn rules(path: &str) -> Result<Rules, String> {
    if path.is_empty() {
        return Ok(Rules::default());
    }
    let unreadable = |error: std::io::Error| format!("'{path}' cannot be read: {error}");
    let found = Path::new(path).metadata().map_err(unreadable)?;
    if !found.is_file() || found.len() > MAX_RULES_BYTES {
        return Err(format!("'{path}' is not a file of at most {MAX_RULES_BYTES} bytes"));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    Rules::parse(&text).map_err(|error| format!("'{path}': {error}"))
}
