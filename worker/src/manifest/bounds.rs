//! Limits the numbers and texts in a manifest.

use openskill_proto::limits::MAX_TIMEOUT_MS;

use super::error::ManifestFault;
use super::raw;

/// The maximum concurrency limit of a skill.
const MAX_CONCURRENCY: usize = 10_000;

/// The maximum size of a free text, and of all examples together, in bytes. YAML aliases can expand a small file.
pub(super) const MAX_TEXT_BYTES: usize = 16 * 1024;
const MAX_EXAMPLES_BYTES: usize = 128 * 1024;

/// Rejects numbers and texts that exceed the limits.
pub(super) fn check(raw: &raw::RawManifest) -> Result<(), ManifestFault> {
    if raw.timeout_ms.is_some_and(|ms| ms == 0 || ms > MAX_TIMEOUT_MS) {
        return Err(("timeout_ms", format!("must be 1 to {MAX_TIMEOUT_MS}")).into());
    }
    if raw.concurrency.is_some_and(|limit| limit == 0 || limit > MAX_CONCURRENCY) {
        return Err(("concurrency", format!("must be 1 to {MAX_CONCURRENCY}")).into());
    }
    let reason = raw.unavailable.clone().unwrap_or_default();
    let texts = [
        ("description", &raw.description),
        ("version", &raw.version),
        ("toolset", &raw.toolset),
        ("unavailable", &reason),
    ];
    for (field, text) in texts {
        if text.len() > MAX_TEXT_BYTES || text.chars().any(|it| it.is_control() && it != '\n') {
            return Err((
                field,
                format!("must be at most {MAX_TEXT_BYTES} bytes and must not contain control characters"),
            )
                .into());
        }
    }
    let examples: usize = raw
        .examples
        .iter()
        .map(|it| {
            it.name.len()
                + serde_json::to_string(&it.input).map_or(0, |input| input.len())
                + it.data.as_ref().map_or(0, |data| data.to_string().len())
        })
        .sum();
    if examples > MAX_EXAMPLES_BYTES {
        return Err(("examples", format!("must be at most {MAX_EXAMPLES_BYTES} bytes in total")).into());
    }
    Ok(())
}
