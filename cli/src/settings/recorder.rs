//! The settings of the recorder.

use std::path::PathBuf;
use std::time::Duration;

use openskill_redact::Rules;

use super::names;
use super::reader::Reader;

/// Where the gateway records calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum TraceDir {
    /// The command's default directory.
    #[default]
    Default,
    Off,
    Memory,
    Folder(PathBuf),
}

/// What the gateway records, and how long it keeps it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecorderSettings {
    pub(crate) dir: TraceDir,
    pub(crate) max_bytes: u64,
    pub(crate) max_age: Duration,
    /// The redaction rules. `None` turns redaction off.
    pub(crate) redaction: Option<Rules>,
    /// Whether Markdown output includes arguments and results.
    pub(crate) markdown_is_raw: bool,
}

/// Reads the settings and the rule file.
pub(super) fn read(reader: &mut Reader<'_>) -> RecorderSettings {
    let max_bytes = reader.number(names::TRACE_MAX_MB, 1, 1_000_000) as u64 * 1024 * 1024;
    let max_age = Duration::from_secs(reader.number(names::TRACE_MAX_AGE_HOURS, 1, 100_000) as u64 * 3600);
    let (sanitizes, contacts) = (reader.flag(names::TRACE_SANITIZE), reader.flag(names::REDACT_CONTACTS));
    let markdown_is_raw = reader.flag(names::TRACE_MD_RAW);
    let rules = rules(reader);
    // The setting turns rules on, but never turns off rules of the file.
    let rules = if contacts { rules.emails(true).phones(true) } else { rules };
    let redaction = sanitizes.then_some(rules);
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

/// Returns the rules of the rule file, or the default rules without a rule file.
fn rules(reader: &mut Reader<'_>) -> Rules {
    let Some(file) = reader.file(names::REDACT_RULES) else { return Rules::default() };
    let text = String::from_utf8(file).map_err(|error| error.to_string());
    let parsed = text.and_then(|text| Rules::parse(&text).map_err(|error| error.to_string()));
    parsed.unwrap_or_else(|error| {
        reader.problem(names::REDACT_RULES, format!("'{}': {error}", reader.raw.value(names::REDACT_RULES)));
        Rules::default()
    })
}
