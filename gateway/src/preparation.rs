//! A call's arguments on their way to a worker: prepared by the skill's definition, told to the caller, counted, logged.

use std::borrow::Cow;

use bytes::Bytes;
use openskill_proto::v1::{ErrorCode, Repair as WireRepair, SkillError};
use serde_json::Value;

use crate::arguments::{Definition, Kind, Policy, Prepared, Rejected, Repair};
use crate::call::{Call, Input};
use crate::metrics::Metrics;

/// Arguments that may go to a worker, and what is to be said about them.
#[derive(Debug, Default)]
pub(crate) struct Preparation {
    /// A JSON object. What fitted is the caller's own bytes.
    pub(crate) json: Bytes,
    pub(crate) repairs: Vec<WireRepair>,
    pub(crate) warnings: Vec<String>,
}

/// Prepares the arguments of `call` for the skill that `definition` is of.
pub(crate) fn prepare(call: &Call, definition: &Definition, metrics: &Metrics) -> Result<Preparation, SkillError> {
    let text = call.input.text()?;
    let strict = call.policy.max(definition.rules().policy) == Policy::Strict;
    let prepared = if strict && !call.deviations.is_empty() {
        Err(definition.refuse(&call.deviations))
    } else {
        definition.prepare(&text, call.policy)
    };
    let Prepared { text: fitting, repairs } = match prepared {
        Ok(prepared) => prepared,
        Err(rejected) => {
            metrics.rejected();
            return Err(as_error(&rejected));
        }
    };
    let json = match (&fitting, &call.input) {
        (Cow::Borrowed(_), Input::Json(bytes)) => bytes.clone(),
        _ => Bytes::from(fitting.into_owned()),
    };
    let mut preparation = Preparation { json, ..Preparation::default() };
    if !definition.has_schema() {
        preparation.warnings.push("the skill declares no schema: its arguments were passed on unchecked".to_owned());
    }
    let all: Vec<Repair> = call.deviations.iter().cloned().chain(repairs).collect();
    if !all.is_empty() {
        preparation.warnings.extend(left_out(text.as_bytes(), &preparation.json, &all));
        all.iter().for_each(|repair| metrics.repaired(repair.kind));
        log(call, &all, &preparation.warnings);
        preparation.repairs = all.into_iter().map(to_wire).collect();
    }
    Ok(preparation)
}

fn as_error(rejected: &Rejected) -> SkillError {
    match rejected {
        Rejected::Unreadable(reason) => SkillError::new(ErrorCode::InvalidJson, reason.clone()),
        Rejected::Unfit(feedback) => {
            SkillError::new(ErrorCode::InvalidArgument, feedback.message()).with_details(feedback.details().to_string())
        }
    }
}

fn to_wire(repair: Repair) -> WireRepair {
    WireRepair {
        path: repair.path,
        kind: repair.kind.name().to_owned(),
        before_json: repair.before.unwrap_or_default(),
        after_json: repair.after.unwrap_or_default(),
    }
}

/// Which keys were left out, which there were, and which are still there; none if all are.
fn left_out(before: &[u8], after: &[u8], repairs: &[Repair]) -> Option<String> {
    let dropped = repairs.iter().filter(|repair| repair.kind == Kind::UnknownDropped);
    let removed: Vec<_> = dropped.map(|repair| repair.path.trim_start_matches('/').to_owned()).collect();
    if removed.is_empty() {
        return None;
    }
    let kept = keys(after);
    let original = Some(keys(before)).filter(|keys| !keys.is_empty()).unwrap_or_else(|| [&kept[..], &removed].concat());
    let list = |names: &[String]| {
        let shown: Vec<_> = names.iter().take(32).map(|name| name.chars().take(64).collect::<String>()).collect();
        if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") }
    };
    Some(format!(
        "keys that the skill does not declare were left out: {} (there were: {}; kept: {})",
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

/// The values are the caller's and stay out of the log.
fn log(call: &Call, repairs: &[Repair], warnings: &[String]) {
    if !tracing::enabled!(target: "openskill::arguments", tracing::Level::DEBUG) {
        return;
    }
    let list: Vec<_> = repairs.iter().map(|repair| format!("{} {}", repair.kind.name(), repair.path)).collect();
    tracing::debug!(
        target: "openskill::arguments",
        trace_id = call.trace.id,
        skill_id = call.skill_id,
        call_id = call.call_id,
        repairs = list.join(", "),
        left_out = warnings.last().map_or("", String::as_str),
        "arguments repaired"
    );
}
