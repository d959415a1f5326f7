//! What an `agent` skill's manifest says beside `agent`: which settings it can't have, and what is completed.

use crate::manifest::agent::{self, Agent};
use crate::manifest::error::Fault;
use crate::manifest::raw;

/// The deadline of an agent whose manifest has none.
const DEFAULT_TIMEOUT_MS: u32 = 120_000;

/// Reads an agent, and completes the schemas and the deadline of its manifest.
pub(super) fn resolve(raw: &mut raw::Raw) -> Result<Agent, Fault> {
    refuse_process_settings(raw)?;
    let agent = agent::resolve(raw.agent.take().unwrap_or_default(), &raw.id)?;
    raw.timeout_ms = raw.timeout_ms.or(Some(DEFAULT_TIMEOUT_MS));
    if raw.input_schema.is_none() && raw.parameters.is_none() {
        raw.input_schema = Some(agent::task_schema());
    }
    raw.output_schema = Some(agent::answer_schema());
    Ok(agent)
}

/// An agent has no process on a worker. A setting of one would be silently ignored.
fn refuse_process_settings(raw: &raw::Raw) -> Result<(), Fault> {
    let runtime = (!raw.runtime.is_empty()).then_some("runtime");
    let schema = raw.output_schema.is_some().then_some("output_schema");
    let Some(field) = runtime.into_iter().chain(raw.worker_settings()).chain(schema).next() else { return Ok(()) };
    let reason = match field {
        "runtime" => "an agent has none: write only `type: agent`",
        "entry" => "an agent has none: agent.prompt says what it does",
        "limits" => "is for processes: an agent's are in agent.limits",
        "allowed_root" => "is for processes: an agent's tools have their own",
        "concurrency" => "counts runs on a worker, and an agent runs in the gateway",
        "affinity" => "chooses a worker, and an agent runs in the gateway",
        "output_schema" => "an agent's data is always {answer}",
        "examples" => "are run on a worker, and an agent runs in the gateway",
        _ => "is for processes, and an agent has none",
    };
    Err((field, reason.to_owned()).into())
}
