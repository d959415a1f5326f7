//! The settings of the recorder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use openskill_redact::Rules;

use super::names;
use super::reader::Reader;

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

/// Reads the settings, and the rule file.
pub(super) fn read(reader: &mut Reader<'_>) -> RecorderSettings {
    let max_bytes = reader.number(names::TRACE_MAX_MB, 1, 1_000_000) as u64 * 1024 * 1024;
    let max_age = Duration::from_secs(reader.number(names::TRACE_MAX_AGE_HOURS, 1, 100_000) as u64 * 3600);
    let (sanitizes, contacts) = (reader.flag(names::TRACE_SANITIZE), reader.flag(names::REDACT_CONTACTS));
    let markdown_is_raw = reader.flag(names::TRACE_MD_RAW);
    let rules = rules(reader.raw.value(names::REDACT_RULES)).unwrap_or_else(|reason| {
        reader.problem(names::REDACT_RULES, reason);
        Rules::default()
    });
    let redaction = sanitizes.then(|| rules.emails(contacts).phones(contacts));
    let dir = dir(reader.raw.value(names::TRACE_DIR));
    RecorderSettings { dir, max_bytes, max_age, redaction, markdown_is_raw }
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
