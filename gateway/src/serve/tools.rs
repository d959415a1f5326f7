//! Selects the skills that a model gets as tools, and reports the unavailable ones.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use openskill_proto::v1::{Dialect as WireDialect, ErrorCode, SkillError};
use openskill_proto::v1::{ExportToolsRequest, ExportToolsResponse};
use openskill_text::tools::{self, rank};

use crate::arguments::Policy;
use crate::call::principal::Principal;
use crate::export::{self, Dialect, Forms, Tool};
use crate::gateway::Gateway;
use crate::mcp::views::View;
use crate::protect::circuit::Session;
use crate::tools::disabled::check_disabled;

use crate::catalog::entry::Entry;
use crate::catalog::lookup::MAY_BE_NEW;

/// The number of tools that a query returns by default.
const DEFAULT_LIMIT: usize = 10;

/// Exports the requested skills. Considers the session circuits of `principal`.
///
/// # Errors
/// The dialect or a skill is unknown.
pub(crate) fn export(
    gateway: &Gateway,
    principal: &Principal,
    request: &ExportToolsRequest,
) -> Result<ExportToolsResponse, SkillError> {
    let dialect = Dialect::from_wire(request.dialect)?;
    let mut offered = choose(gateway, principal, request)?;
    let mut notes = Vec::new();
    if offered.is_empty() {
        notes.push("no skill matches: ListSkills or GET /skills lists all".to_owned());
    }
    let now = Instant::now();
    let session = Session { principal, id: &request.session_id };
    let disabled: Vec<_> = offered.iter().filter_map(|it| check_disabled(gateway, it, session, now)).collect();
    if !request.include_unavailable {
        offered.retain(|entry| !disabled.iter().any(|it| it.skill_id == entry.skill.id));
    }
    let found = offered.len();
    offered.truncate(limit(request));
    if offered.len() < found {
        notes.push(format!("{} more match: raise limit to get them", found - offered.len()));
    }
    let tools: Vec<_> = offered.iter().map(|entry| (tool(entry), entry.forms())).collect();
    let exported = export::export_known(&tools, dialect, request.strict);
    notes.extend(exported.notes);
    Ok(ExportToolsResponse {
        tools_json: exported.tools,
        skill_ids: exported.names.into_iter().collect(),
        disabled,
        notes,
    })
}

/// Returns the skills that `principal` can call and `view` lists, as MCP tools: name and definition, sorted by
/// name. Open circuits don't remove tools, so that lists are stable.
pub(crate) fn mcp_tools(gateway: &Gateway, principal: &Principal, view: &View) -> Vec<(String, String)> {
    let snapshot = gateway.catalog.snapshot_for(principal);
    let listed = |entry: &&Arc<Entry>| is_in(view, entry) && view.lists(&entry.skill.id);
    let mut tools = define_mcp_tools(&snapshot.values().filter(listed).collect::<Vec<_>>(), view);
    if view.has_names() {
        tools.sort();
    }
    tools
}

/// Returns the `limit` skills of `view` that best match a task, among those that `principal` can call: name and
/// definition.
pub(crate) fn search(
    gateway: &Gateway,
    principal: &Principal,
    view: &View,
    task: &str,
    limit: usize,
) -> Vec<(String, String)> {
    let snapshot = gateway.catalog.snapshot_for(principal);
    let entries: Vec<_> = snapshot.values().filter(|entry| is_in(view, entry)).collect();
    let documents: Vec<_> = entries.iter().map(|entry| entry.document()).collect();
    let ranked = tools::search(task, &documents);
    let found: Vec<_> = ranked.into_iter().take(limit).filter_map(|(at, _)| entries.get(at).copied()).collect();
    define_mcp_tools(&found, view)
}

/// Whether a skill is a tool in a view, and some worker can run it.
fn is_in(view: &View, entry: &Entry) -> bool {
    !entry.candidates.is_empty() && view.has(&entry.skill)
}

/// Converts skills to MCP tools under their names in a view, in the same order.
fn define_mcp_tools(entries: &[&Arc<Entry>], view: &View) -> Vec<(String, String)> {
    // Cached definitions are named by the skill's id.
    let renamed: Vec<_> = entries.iter().map(|_| Forms::default()).take_while(|_| view.has_names()).collect();
    let tools = entries.iter().enumerate().map(|(at, entry)| {
        let name = view.name_of(&entry.skill.id);
        let forms = renamed.get(at).filter(|_| name != entry.skill.id).unwrap_or(entry.forms());
        (Tool { name, ..tool(entry) }, forms)
    });
    // MCP accepts every name, so none changes.
    let definitions = export::export_known(&tools.collect::<Vec<_>>(), Dialect::Mcp, false).tools;
    entries.iter().map(|entry| view.name_of(&entry.skill.id).to_owned()).zip(definitions).collect()
}

fn tool(entry: &Entry) -> Tool<'_> {
    let skill = &entry.skill;
    Tool {
        name: &skill.id,
        title: &skill.title,
        icons: &skill.icons,
        description: &skill.description,
        schema: entry.definition.schema(),
        output_schema_json: &skill.output_schema_json,
        destructive: skill.destructive,
        read_only: skill.read_only,
        idempotent: skill.idempotent,
        refuses_repairs: entry.definition.rules().policy == Policy::Strict,
    }
}

/// Returns the requested skills, sorted by id, or by relevance if the request has a query.
fn choose(
    gateway: &Gateway,
    principal: &Principal,
    request: &ExportToolsRequest,
) -> Result<Vec<Arc<Entry>>, SkillError> {
    let snapshot = gateway.catalog.snapshot_for(principal);
    if let Some(unknown) = request.skill_ids.iter().find(|id| !snapshot.contains_key(*id)) {
        let unknown: String = unknown.chars().filter(|it| !it.is_control()).take(64).collect();
        return Err(SkillError::new(ErrorCode::NotFound, format!("there is no skill '{unknown}'. {MAY_BE_NEW}")));
    }
    let named: BTreeSet<&String> = request.skill_ids.iter().collect();
    let of_toolset = |entry: &&Arc<Entry>| request.toolset.is_empty() || entry.skill.toolset == request.toolset;
    let entries: Vec<_> = if named.is_empty() {
        snapshot.values().filter(of_toolset).cloned().collect()
    } else {
        named.into_iter().filter_map(|id| snapshot.get(id)).filter(of_toolset).cloned().collect()
    };
    if request.query.is_empty() {
        return Ok(entries);
    }
    let documents: Vec<_> = entries.iter().map(|entry| entry.document()).collect();
    let ranked = rank(&request.query, &documents);
    Ok(ranked.into_iter().map(|(index, _)| Arc::clone(&entries[index])).collect())
}

fn limit(request: &ExportToolsRequest) -> usize {
    match (request.limit, request.query.is_empty()) {
        (0, true) => usize::MAX,
        (0, false) => DEFAULT_LIMIT,
        (limit, _) => limit as usize,
    }
}

impl Dialect {
    fn from_wire(number: i32) -> Result<Self, SkillError> {
        Ok(match WireDialect::try_from(number) {
            Ok(WireDialect::Unspecified | WireDialect::Openai) => Self::OpenAi,
            Ok(WireDialect::OpenaiResponses) => Self::OpenAiResponses,
            Ok(WireDialect::Anthropic) => Self::Anthropic,
            Ok(WireDialect::Gemini) => Self::Gemini,
            Ok(WireDialect::Dashscope) => Self::DashScope,
            Ok(WireDialect::Mcp) => Self::Mcp,
            Err(_) => {
                return Err(SkillError::new(
                    ErrorCode::InvalidArgument,
                    "unknown dialect: this version does not export it",
                ));
            }
        })
    }
}
