//! Which skills become tools of a model, and which can't be called now.

use std::sync::Arc;

use openskill_proto::v1::{Dialect as WireDialect, DisabledTool, ErrorCode, SkillError};
use openskill_proto::v1::{ExportToolsRequest, ExportToolsResponse};

use crate::catalog::Entry;
use crate::export::{self, Dialect, Tool, rank};
use crate::gateway::Gateway;

/// How many tools a question gets, if it does not say.
const DEFAULT_LIMIT: usize = 10;

/// Exports the skills a request asks for.
pub(crate) fn export(gateway: &Gateway, request: &ExportToolsRequest) -> Result<ExportToolsResponse, SkillError> {
    let mut offered = choose(gateway, request)?;
    let disabled: Vec<_> = offered.iter().filter(|entry| entry.workers.is_empty()).map(|it| disabled(it)).collect();
    if !request.include_unavailable {
        offered.retain(|entry| !entry.workers.is_empty());
    }
    offered.truncate(limit(request));
    let outputs: Vec<_> =
        offered.iter().map(|entry| serde_json::from_str(&entry.skill.output_schema_json).ok()).collect();
    let tools: Vec<_> = offered
        .iter()
        .zip(&outputs)
        .map(|(entry, output)| Tool {
            name: &entry.skill.id,
            description: &entry.skill.description,
            schema: entry.definition.schema(),
            output_schema: output.as_ref(),
            destructive: entry.skill.destructive,
            idempotent: entry.skill.idempotent,
        })
        .collect();
    let exported = export::export(&tools, dialect(request.dialect()), request.strict);
    Ok(ExportToolsResponse {
        tools_json: exported.tools.iter().map(ToString::to_string).collect(),
        skill_ids: exported.names.into_iter().collect(),
        disabled,
        notes: exported.notes,
    })
}

/// The skills that are asked for: by name in the order of ids, by a question the best first.
fn choose(gateway: &Gateway, request: &ExportToolsRequest) -> Result<Vec<Arc<Entry>>, SkillError> {
    let snapshot = gateway.catalog.snapshot();
    if let Some(unknown) = request.skill_ids.iter().find(|id| !snapshot.contains_key(*id)) {
        let unknown: String = unknown.chars().filter(|it| !it.is_control()).take(64).collect();
        return Err(SkillError::new(ErrorCode::NotFound, format!("there is no skill '{unknown}'")));
    }
    let wanted = |entry: &&Arc<Entry>| {
        let of_toolset = request.toolset.is_empty() || entry.skill.toolset == request.toolset;
        of_toolset && (request.skill_ids.is_empty() || request.skill_ids.contains(&entry.skill.id))
    };
    let entries: Vec<_> = snapshot.values().filter(wanted).cloned().collect();
    if request.query.is_empty() {
        return Ok(entries);
    }
    let documents: Vec<_> = entries.iter().map(|entry| entry.document()).collect();
    let ranked = rank::rank(&request.query, &documents);
    Ok(ranked.into_iter().map(|(index, _)| Arc::clone(&entries[index])).collect())
}

fn limit(request: &ExportToolsRequest) -> usize {
    match (request.limit, request.query.is_empty()) {
        (0, true) => usize::MAX,
        (0, false) => DEFAULT_LIMIT,
        (limit, _) => limit as usize,
    }
}

fn disabled(entry: &Entry) -> DisabledTool {
    DisabledTool { skill_id: entry.skill.id.clone(), reason: entry.skill.status_reason.clone(), retry_after_ms: 0 }
}

fn dialect(wire: WireDialect) -> Dialect {
    match wire {
        WireDialect::Unspecified | WireDialect::Openai => Dialect::OpenAi,
        WireDialect::OpenaiResponses => Dialect::OpenAiResponses,
        WireDialect::Anthropic => Dialect::Anthropic,
        WireDialect::Gemini => Dialect::Gemini,
        WireDialect::Dashscope => Dialect::DashScope,
        WireDialect::Mcp => Dialect::Mcp,
    }
}
