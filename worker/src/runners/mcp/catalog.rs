//! A server's tools, and the skills that they become.

use std::collections::BTreeMap;
use std::time::Duration;

use openskill_log::admits;
use openskill_proto::v1::ErrorCode;
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult};
use rmcp::{Peer, RoleClient, ServiceError};
use serde_json::{Map, Value};

use super::connect_error::ConnectError;
use super::names::skill_ids;
use super::pins::{self, Pin};
use super::shelf::McpOfferings;
use super::words::{clean, line};
use crate::manifest::mcp::{Mcp, McpTool, Override, Pinning, usable_schema};
use crate::manifest::{Approval, Manifest, Presentation, RunnerSpec, ToolHints};
use crate::runner::Offer;

/// Limits on a server's tool list.
const MAX_PAGES: usize = 100;
const MAX_TOOLS: usize = 2000;
const MAX_LIST_BYTES: usize = 8 * 1024 * 1024;

/// The timeout for listing the tools.
const PATIENCE: Duration = Duration::from_secs(10);

/// The maximum lengths of a description, a version and a tool name, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 16 * 1024;
const MAX_VERSION_BYTES: usize = 64;
const MAX_NAME_BYTES: usize = 256;

/// A server's most recent tool list.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Catalog {
    pub(super) version: String,
    /// The tool definitions by name, as the server sent them.
    pub(super) tools: BTreeMap<String, Map<String, Value>>,
    /// The server's prompts and resources.
    pub(super) offerings: McpOfferings,
}

impl Catalog {
    /// Lists the server's tools, prompts and resources.
    ///
    /// # Errors
    /// Returns the reason if the tools cannot be listed.
    pub(super) async fn ask(peer: &Peer<RoleClient>) -> Result<Self, ConnectError> {
        let info = peer.peer_info();
        let has_others = info.as_ref().is_some_and(|it| {
            it.capabilities.tools.is_none()
                && (it.capabilities.prompts.is_some() || it.capabilities.resources.is_some())
        });
        // Some servers have tools but do not declare that capability.
        let listed = tokio::time::timeout(PATIENCE, list(peer, has_others)).await;
        let tools = listed.map_err(|_| format!("it did not list its tools within {} s", PATIENCE.as_secs()))??;
        let version = info.and_then(|info| info.server_info.as_ref().map(|it| it.version.clone()));
        let offerings = McpOfferings::ask(peer).await;
        Ok(Self { version: line(&version.unwrap_or_default(), MAX_VERSION_BYTES), tools, offerings })
    }

    /// Returns the current pins of all tools.
    pub(super) fn pins(&self) -> BTreeMap<String, Pin> {
        self.tools.iter().map(|(name, definition)| (name.clone(), pins::pin(definition))).collect()
    }

    /// Creates the skills of all tools. `pinned`: the pins that they must match; `agreed`: whether these come from
    /// a lock file; `away`: why no tool can run now.
    pub(super) fn offers(
        &self,
        server: &Manifest,
        mcp: &Mcp,
        pinned: &BTreeMap<String, Pin>,
        agreed: bool,
        away: Option<&str>,
    ) -> Vec<Offer> {
        let names: Vec<&str> = self.tools.keys().map(String::as_str).filter(|name| mcp.tools.takes(name)).collect();
        let ids = skill_ids(&server.id, &names);
        let offer = |name: &&str| {
            let (id, definition) = (ids.get(*name)?.clone(), self.tools.get(*name)?);
            let is_strict = mcp.pin == Pinning::Strict;
            if let Some(what) = pins::changes(pinned.get(*name), &pins::pin(definition)).filter(|_| is_strict) {
                return Some(withheld(server, (id, name), definition, &what));
            }
            let believed = agreed && is_strict;
            let (manifest, fault) = self.skill(server, mcp, (id, name), definition, believed);
            let runner = match fault.or_else(|| away.map(str::to_owned)) {
                Some(reason) => Err(reason),
                None => Ok(()),
            };
            Some(Offer { manifest, runner })
        };
        names.iter().filter_map(offer).collect()
    }

    /// Creates the skill of one tool. An unavailable skill contains the reason.
    fn skill(
        &self,
        server: &Manifest,
        mcp: &Mcp,
        (id, name): (String, &str),
        definition: &Map<String, Value>,
        believed: bool,
    ) -> (Manifest, Option<String>) {
        let tool = McpTool { server: server.id.clone(), tool: name.to_owned(), pin: pins::pin(definition) };
        let schema = |field: &str, of_arguments| {
            let given = definition.get(field).filter(|it| !it.is_null()).cloned();
            given.map(|it| usable_schema(it, of_arguments)).transpose()
        };
        let given = mcp.overrides.get(name).copied().unwrap_or_default();
        let Effects { idempotent, destructive, read_only } = effects(definition.get("annotations"), believed, &given);
        let mut fault = None;
        let input_schema = schema("inputSchema", true).unwrap_or_else(|reason| {
            fault = Some(reason);
            None
        });
        // The tool works without an output schema.
        let output_schema = schema("outputSchema", false).unwrap_or_else(|reason| {
            if admits("an output schema is ignored") {
                tracing::warn!(skill_id = id, reason_bytes = reason.len(), "the tool's output schema is ignored");
                tracing::debug!(skill_id = id, reason, "the output schema is invalid");
            }
            None
        });
        let text = |field: &str| definition.get(field).and_then(Value::as_str).unwrap_or_default();
        let described = [text("description"), text("title")].into_iter().find(|it| !it.trim().is_empty());
        let mut argument_rules = server.argument_rules.clone();
        if destructive {
            // As in manifests: dropping an unknown key could widen a deletion that the key restricts.
            (argument_rules.drop_unknown, argument_rules.fill_defaults) = (false, false);
        }
        let skill = Manifest {
            version: if self.version.is_empty() { server.version.clone() } else { self.version.clone() },
            presentation: if believed {
                Presentation::from_tool(text("title"), definition.get("icons"))
            } else {
                Presentation::default()
            },
            description: clean(described.unwrap_or(name), MAX_DESCRIPTION_BYTES),
            timeout_ms: given.timeout_ms.or(server.timeout_ms),
            allowed_root: server.allowed_root.clone(),
            input_schema,
            argument_rules,
            output_schema,
            idempotent,
            destructive,
            tool_hints: conduct(&given, server, read_only),
            affinity: server.affinity,
            circuit_rules: server.circuit_rules,
            concurrency: server.concurrency,
            limits: server.limits,
            jail: server.jail.clone(),
            toolset: toolset(server),
            ..Manifest::plain(id, &server.runner, RunnerSpec::McpTool(Box::new(tool)))
        };
        (skill, fault)
    }
}

/// Replaces the description of a tool that does not match its pin.
const WITHHELD: &str = "Not shown: the server changed this tool, and the change was not reviewed.";

/// Creates an unavailable skill for a tool that does not match its pin, under strict pinning. Models read skill
/// lists, so the skill contains the reason but no part of the definition.
fn withheld(server: &Manifest, (id, name): (String, &str), definition: &Map<String, Value>, what: &str) -> Offer {
    let tool = McpTool { server: server.id.clone(), tool: name.to_owned(), pin: pins::pin(definition) };
    let manifest = Manifest {
        version: server.version.clone(),
        description: WITHHELD.to_owned(),
        toolset: toolset(server),
        idempotent: false,
        destructive: true,
        tool_hints: conduct(&Override::default(), server, false),
        ..Manifest::plain(id, &server.runner, RunnerSpec::McpTool(Box::new(tool)))
    };
    let advice = format!("review it, then run `openskill pin {}`", server.id);
    Offer { manifest, runner: Err(format!("the tool's definition differs from its pin ({what}): {advice}")) }
}

fn toolset(server: &Manifest) -> String {
    if server.toolset.is_empty() { server.id.clone() } else { server.toolset.clone() }
}

/// Returns the tool's hints for agents. A tool requires approval unless it is read-only or the manifest says
/// otherwise.
fn conduct(given: &Override, server: &Manifest, read_only: bool) -> ToolHints {
    let default = if read_only { Approval::Never } else { Approval::Ask };
    ToolHints {
        approval: Some(given.approval.or(server.tool_hints.approval).unwrap_or(default)),
        repeatable: given.repeatable.unwrap_or(server.tool_hints.repeatable),
        untrusted: given.untrusted.unwrap_or(server.tool_hints.untrusted),
        read_only,
    }
}

/// What a tool call may change.
struct Effects {
    idempotent: bool,
    destructive: bool,
    read_only: bool,
}

/// Determines a tool's effects from the manifest, then the server's hints, then the protocol's defaults (not
/// idempotent, and destructive unless read-only). Without a lock file, hints are ignored: a call that is wrongly
/// declared idempotent may run twice, and one that is wrongly declared read-only runs without approval.
fn effects(annotations: Option<&Value>, believed: bool, given: &Override) -> Effects {
    let hint = |name: &str| annotations.filter(|_| believed).and_then(|it| it.get(name)).and_then(Value::as_bool);
    let reads = given.read_only.unwrap_or_else(|| hint("readOnlyHint").unwrap_or(false));
    let destructive = given.destructive.unwrap_or_else(|| !reads && hint("destructiveHint").unwrap_or(true));
    Effects {
        idempotent: given.idempotent.unwrap_or_else(|| reads || hint("idempotentHint").unwrap_or(false)),
        destructive,
        read_only: reads && !destructive,
    }
}

/// Lists the tools. `may_refuse`: treat a refusal as an empty list.
async fn list(peer: &Peer<RoleClient>, may_refuse: bool) -> Result<BTreeMap<String, Map<String, Value>>, ConnectError> {
    let (mut tools, mut size, mut cursor, mut unusable) = (BTreeMap::new(), 0, None, 0_u32);
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ListToolsRequest { params: Some(params), ..ListToolsRequest::default() };
        let (page, next) = match peer.send_request(ClientRequest::ListToolsRequest(request)).await {
            Ok(page) => read(page)?,
            Err(ServiceError::McpError(_)) if may_refuse => return Ok(tools),
            Err(error) => return Err(no_list(&error)),
        };
        for definition in page {
            size += Value::Object(definition.clone()).to_string().len();
            let name = definition.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
                unusable += 1;
                continue;
            }
            if tools.len() >= MAX_TOOLS || size > MAX_LIST_BYTES {
                return Err(format!("it lists more than {MAX_TOOLS} tools or {MAX_LIST_BYTES} bytes of them").into());
            }
            tools.insert(name, definition);
        }
        match next {
            Some(next) if !next.is_empty() => cursor = Some(next),
            _ => {
                if unusable > 0 && admits("tools have unusable names") {
                    tracing::warn!(tools = unusable, "tools with unusable names are ignored");
                }
                return Ok(tools);
            }
        }
    }
    Err(format!("its list of tools has more than {MAX_PAGES} pages").into())
}

/// Tool definitions, and the cursor of the next page if the list continues.
type Page = (Vec<Map<String, Value>>, Option<String>);

/// Parses one page, and skips malformed definitions.
fn read(page: ServerResult) -> Result<Page, String> {
    let page = match page {
        ServerResult::ListToolsResult(page) => serde_json::to_value(page),
        other => serde_json::to_value(other),
    };
    let page = page.map_err(|_| "its list of tools is malformed".to_owned())?;
    let Some(Value::Array(tools)) = page.get("tools").cloned() else {
        return Err("its answer to tools/list has no tools".to_owned());
    };
    let tools = tools.into_iter().filter_map(|tool| if let Value::Object(fields) = tool { Some(fields) } else { None });
    Ok((tools.collect(), page.get("nextCursor").and_then(Value::as_str).map(str::to_owned)))
}

fn no_list(error: &ServiceError) -> ConnectError {
    match error {
        ServiceError::McpError(error) => {
            let fault = super::errors::CallFault::Rpc { code: error.code.0, message: &error.message };
            let failure = super::errors::classify(fault, false);
            match failure.code() {
                ErrorCode::McpNotFound => "it has no tools".into(),
                _ => ConnectError::with_server_text("it does not list its tools", line(&failure.message, 200)),
            }
        }
        _ => "the connection was lost while it listed its tools".into(),
    }
}

#[cfg(test)]
mod tests;
