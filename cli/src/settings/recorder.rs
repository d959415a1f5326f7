//! The settings of the recorder.

use std::time::Duration;

use openskill_redact::Rules;

use super::reader::{Reader, StorePlace};

/// What the gateway records, and how long it keeps it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecorderSettings {
    /// The directory of the recorded calls. `None`: calls are not recorded.
    pub(crate) store: Option<StorePlace>,
    pub(crate) max_bytes: u64,
    pub(crate) max_age: Duration,
    /// The redaction rules. `None` turns redaction off.
    pub(crate) redaction: Option<Rules>,
    /// Whether Markdown output includes arguments and results.
    pub(crate) markdown_is_raw: bool,
}

/// Reads the settings and the rule file.
pub(super) fn read(reader: &mut Reader<'_>) -> RecorderSettings {
    let max_bytes = reader.number("OPENSKILL_TRACE_MAX_MB", 1, 1_000_000) as u64 * 1024 * 1024;
    let max_age = Duration::from_secs(reader.number("OPENSKILL_TRACE_MAX_AGE_HOURS", 1, 100_000) as u64 * 3600);
    let (sanitizes, contacts) = (reader.flag("TRACE_SANITIZE"), reader.flag("OPENSKILL_REDACT_CONTACTS"));
    let markdown_is_raw = reader.flag("TRACE_MD_INCLUDE_RAW_RESPONSE");
    let rules = rules(reader);
    // The setting turns rules on, but never turns off rules of the file.
    let rules = if contacts { rules.emails(true).phones(true) } else { rules };
    let redaction = sanitizes.then_some(rules);
    let is_off = reader.raw.value("OPENSKILL_TRACE_DIR") == "off";
    let store = (!is_off).then(|| reader.store("OPENSKILL_TRACE_DIR"));
    RecorderSettings { store, max_bytes, max_age, redaction, markdown_is_raw }
}

/// Returns the rules of the rule file, or the default rules without a rule file.
fn rules(reader: &mut Reader<'_>) -> Rules {
    let Some(file) = reader.file("OPENSKILL_REDACT_RULES") else { return Rules::default() };
    let text = String::from_utf8(file).map_err(|error| error.to_string());
    let parsed = text.and_then(|text| Rules::parse(&text).map_err(|error| error.to_string()));
    parsed.unwrap_or_else(|error| {
        let path = reader.raw.value("OPENSKILL_REDACT_RULES");
        reader.problem("OPENSKILL_REDACT_RULES", format!("'{path}': {error}"));
        Rules::default()
    })
}
