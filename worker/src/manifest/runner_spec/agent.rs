//! The settings of an `agent` skill outside its block: those that it can't have, and those with special defaults.

use crate::manifest::agent::{self, Agent};
use crate::manifest::error::ManifestFault;
use crate::manifest::raw;

/// The deadline of an agent whose manifest sets none.
const DEFAULT_TIMEOUT_MS: u32 = 120_000;

/// Validates an agent, and completes its manifest's schemas and deadline.
pub(super) fn resolve(raw: &mut raw::RawManifest) -> Result<Agent, ManifestFault> {
    refuse_process_settings(raw)?;
    let agent = agent::resolve(raw.agent.take().unwrap_or_default(), &raw.id)?;
    raw.timeout_ms = raw.timeout_ms.or(Some(DEFAULT_TIMEOUT_MS));
    if raw.input_schema.is_none() && raw.parameters.is_none() {
        raw.input_schema = Some(agent::task_schema());
    }
    raw.output_schema = Some(agent::answer_schema());
    Ok(agent)
}

/// Rejects settings of processes. They would be ignored silently, because an agent has no process on a worker.
fn refuse_process_settings(raw: &raw::RawManifest) -> Result<(), ManifestFault> {
    let runtime = (!raw.runtime.is_empty()).then_some("runtime");
    let schema = raw.output_schema.is_some().then_some("output_schema");
    let Some(field) = runtime.into_iter().chain(raw.worker_settings()).chain(schema).next() else { return Ok(()) };
    let reason = match field {
        "runtime" => "an agent has none: write only `type: agent`",
        "entry" => "an agent has none: agent.prompt says what it does",
        "limits" => "applies only to processes: set an agent's limits in agent.limits",
        "allowed_root" => "applies only to processes: an agent's tools have their own",
        "concurrency" => "applies only to runs on a worker, and an agent runs in the gateway",
        "affinity" => "applies only to skills on a worker, and an agent runs in the gateway",
        "output_schema" => "an agent's data is always {answer}",
        "examples" => "run only on a worker, and an agent runs in the gateway",
        _ => "applies only to processes, and an agent has none",
    };
    Err((field, reason.to_owned()).into())
}
