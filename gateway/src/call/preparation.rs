//! Prepares a call's arguments for a worker: repairs and validates them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openskill_proto::v1::{Repair as WireRepair, SkillError};
use openskill_skill::schema::join;
use serde_json::Value;

use super::blocking_pool::BlockingPool;
use super::request::Call;
use crate::arguments::{Definition, Kind, Policy, Prepared, Repair};

/// Valid arguments, with the repairs and warnings that the caller gets.
#[derive(Debug, Default)]
pub(crate) struct Preparation {
    /// A JSON object. Shares the caller's bytes if nothing was repaired or filled in.
    pub(crate) json: Bytes,
    pub(crate) repairs: Vec<WireRepair>,
    /// The absent parameters that were filled with their defaults, as JSON Pointers.
    pub(crate) defaults: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

/// Prepares the arguments of `call`, in `pool` if they are large. `granted` is the time that its skill is granted.
///
/// # Errors
/// Like [`prepare`], or the deadline passes before a thread is free.
pub(crate) async fn prepare_with_pool(
    pool: &BlockingPool,
    call: &Arc<Call>,
    definition: &Arc<Definition>,
    granted: Duration,
) -> Result<Preparation, SkillError> {
    if !call.input.is_heavy {
        return prepare(call, definition);
    }
    let (deadline, running, definition) = (call.deadline(granted), Arc::clone(call), Arc::clone(definition));
    // The call's permit already accounts for the memory, hence 0 bytes. Boxed, so that the future of a small call
    // stays small.
    Box::pin(pool.run_until(deadline, &call.principal, 0, move || prepare(&running, &definition))).await?
}

/// Prepares the arguments of `call` for the skill with this definition.
///
/// # Errors
/// The arguments do not match and can't be repaired safely. The error explains how to fix the call.
fn prepare(call: &Call, definition: &Definition) -> Result<Preparation, SkillError> {
    let text = call.input.text();
    let strict = call.policy.max(definition.rules().policy) == Policy::Strict;
    let prepared = if strict && !call.deviations.is_empty() {
        Err(definition.refuse(&call.deviations))
    } else {
        definition.prepare(text, call.policy)
    };
    let Prepared { text: fitting, repairs, defaults, warning } = prepared?;
    let json = call.input.bytes_of(fitting);
    let mut preparation = Preparation { json, defaults, warnings: Vec::from_iter(warning), ..Preparation::default() };
    if definition.schema().is_none() {
        preparation.warnings.push("the skill declares no schema: its arguments were not checked".to_owned());
    }
    if !call.deviations.is_empty() || !repairs.is_empty() {
        let all: Vec<Repair> = call.deviations.iter().cloned().chain(repairs).collect();
        preparation.warnings.extend(dropped_keys(text.as_bytes(), &preparation, &all));
        preparation.repairs = all.into_iter().map(WireRepair::from).collect();
    }
    Ok(preparation)
}

/// Builds a warning that lists the dropped keys, the original keys, and the remaining ones. None if no keys were
/// dropped.
fn dropped_keys(before: &[u8], after: &Preparation, repairs: &[Repair]) -> Option<String> {
    let dropped = repairs.iter().filter(|repair| repair.kind == Kind::UnknownDropped);
    let removed: Vec<_> = dropped.map(|repair| repair.path.trim_start_matches('/').to_owned()).collect();
    if removed.is_empty() {
        return None;
    }
    let mut kept = keys(&after.json);
    kept.retain(|key| !after.defaults.contains(&join("", key)));
    let original = Some(keys(before)).filter(|keys| !keys.is_empty()).unwrap_or_else(|| [&kept[..], &removed].concat());
    let list = |names: &[String]| {
        let shown: Vec<_> = names.iter().take(32).map(|name| name.chars().take(64).collect::<String>()).collect();
        if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") }
    };
    Some(format!(
        "keys that the skill does not declare were dropped: {} (received: {}; kept: {})",
        list(&removed),
        list(&original),
        list(&kept)
    ))
}

fn keys(json: &[u8]) -> Vec<String> {
    match serde_json::from_slice(json) {
        Ok(Value::Object(fields)) => fields.keys().cloned().collect(),
        _ => Vec::new(),
    }
}
