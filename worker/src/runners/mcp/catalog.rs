//! The catalog of a server: its tools, and the skills they become.

use std::collections::BTreeMap;
use std::time::Duration;

use openskill_proto::v1::ErrorCode;
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult};
use rmcp::{Peer, RoleClient, ServiceError};
use serde_json::{Map, Value};

use super::names::skill_ids;
use super::pins::{self, Pin};
use super::words::{clean, line};
use crate::manifest::mcp::{Mcp, McpTool, Pinning, usable_schema};
use crate::manifest::{How, Manifest};
use crate::runner::Offer;

/// Bounds of a server's list of tools.
const MAX_PAGES: usize = 100;
const MAX_TOOLS: usize = 2000;
const MAX_LIST_BYTES: usize = 8 * 1024 * 1024;

/// How long a list may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest description, version and tool name that are accepted.
const MAX_DESCRIPTION_BYTES: usize = 16 * 1024;
const MAX_VERSION_BYTES: usize = 64;
const MAX_NAME_BYTES: usize = 256;

/// The latest list of a server's tools.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Catalog {
    pub(super) version: String,
    /// The definitions by the tools' names, as the server wrote them.
    pub(super) tools: BTreeMap<String, Map<String, Value>>,
}

impl Catalog {
    /// Lists the tools of the server.
    ///
    /// # Errors
    /// The reason why there is no list, for people.
    pub(super) async fn ask(peer: &Peer<RoleClient>) -> Result<Self, String> {
        let listed = tokio::time::timeout(PATIENCE, list(peer)).await;
        let tools = listed.map_err(|_| format!("it did not list its tools within {} s", PATIENCE.as_secs()))??;
        let version = peer.peer_info().and_then(|info| info.server_info.as_ref().map(|it| it.version.clone()));
        Ok(Self { version: line(&version.unwrap_or_default(), MAX_VERSION_BYTES), tools })
    }

    /// The current pins of all tools.
    pub(super) fn pins(&self) -> BTreeMap<String, Pin> {
        self.tools.iter().map(|(name, definition)| (name.clone(), pins::pin(definition))).collect()
    }

    /// The skills of the tools. `pinned`: the pins they must match; `agreed`: the pins come from a file; `away`: why no tool can
    /// run now.
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
            let believed = agreed && mcp.pin == Pinning::Strict;
            let (manifest, fault) = self.skill(server, mcp, (id, name), definition, believed);
            let How::McpTool(tool) = &manifest.how else { return None };
            let changed = pins::changes(pinned.get(*name), &tool.pin).filter(|_| mcp.pin == Pinning::Strict);
            let changed = changed.map(|what| {
                format!(
                    "its definition differs from its pin ({what}): review it, then run `openskill pin {}`",
                    server.id
                )
            });
            let runner = match fault.or(changed).or_else(|| away.map(str::to_owned)) {
                Some(reason) => Err(reason),
                None => Ok(()),
            };
            Some(Offer { manifest, runner })
        };
        names.iter().filter_map(offer).collect()
    }

    /// One tool as a skill, and why it is unavailable, if it is.
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
        let (idempotent, destructive) = hints(definition.get("annotations"), believed);
        let (idempotent, destructive) =
            (given.idempotent.unwrap_or(idempotent), given.destructive.unwrap_or(destructive));
        let mut fault = None;
        let input_schema = schema("inputSchema", true).unwrap_or_else(|reason| {
            fault = Some(reason);
            None
        });
        // The tool works without an output schema.
        let output_schema = schema("outputSchema", false).unwrap_or_else(|reason| {
            tracing::warn!(server = server.id, tool = name, reason, "the tool's output schema is ignored");
            None
        });
        let text = |field: &str| definition.get(field).and_then(Value::as_str).unwrap_or_default();
        let described = [text("description"), text("title")].into_iter().find(|it| !it.trim().is_empty());
        let mut argument_rules = server.argument_rules.clone();
        if destructive {
            // As for manifests: a key that is dropped may have narrowed a deletion.
            (argument_rules.drop_unknown, argument_rules.fill_defaults) = (false, false);
        }
        let skill = Manifest {
            version: if self.version.is_empty() { server.version.clone() } else { self.version.clone() },
            description: clean(described.unwrap_or(name), MAX_DESCRIPTION_BYTES),
            timeout_ms: given.timeout_ms.or(server.timeout_ms),
            allowed_root: server.allowed_root.clone(),
            input_schema,
            argument_rules,
            output_schema,
            idempotent,
            destructive,
            session_affinity: server.session_affinity,
            circuit_rules: server.circuit_rules,
            concurrency: server.concurrency,
            limits: server.limits,
            jail: server.jail.clone(),
            toolset: if server.toolset.is_empty() { server.id.clone() } else { server.toolset.clone() },
            ..Manifest::plain(id, &server.runner, How::McpTool(Box::new(tool)))
        };
        (skill, fault)
    }
}

/// Whether a tool is idempotent and destructive, by its server's hints and the defaults of the protocol: not idempotent, and
/// destructive unless it only reads. Without a file of pins, hints that allow a retry do not count: a call that is wrongly
/// declared idempotent may run twice.
fn hints(annotations: Option<&Value>, believed: bool) -> (bool, bool) {
    if !believed {
        return (false, true);
    }
    let hint = |name: &str| annotations.and_then(|it| it.get(name)).and_then(Value::as_bool);
    let reads = hint("readOnlyHint").unwrap_or(false);
    (reads || hint("idempotentHint").unwrap_or(false), !reads && hint("destructiveHint").unwrap_or(true))
}

async fn list(peer: &Peer<RoleClient>) -> Result<BTreeMap<String, Map<String, Value>>, String> {
    let (mut tools, mut size, mut cursor) = (BTreeMap::new(), 0, None);
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ListToolsRequest { params: Some(params), ..ListToolsRequest::default() };
        let page =
            peer.send_request(ClientRequest::ListToolsRequest(request)).await.map_err(|error| no_list(&error))?;
        let (page, next) = read(page)?;
        for definition in page {
            size += Value::Object(definition.clone()).to_string().len();
            let name = definition.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
                tracing::warn!(tool = %line(&name, MAX_NAME_BYTES), "a tool with an unusable name is ignored");
                continue;
            }
            if tools.len() >= MAX_TOOLS || size > MAX_LIST_BYTES {
                return Err(format!("it lists more than {MAX_TOOLS} tools or {MAX_LIST_BYTES} bytes of them"));
            }
            tools.insert(name, definition);
        }
        match next {
            Some(next) if !next.is_empty() => cursor = Some(next),
            _ => return Ok(tools),
        }
    }
    Err(format!("its list of tools has more than {MAX_PAGES} pages"))
}

/// Definitions, and the cursor of the next page, if there is one.
type Page = (Vec<Map<String, Value>>, Option<String>);

/// One page. A malformed definition does not affect the others.
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

fn no_list(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => {
            let fault = super::errors::Fault::Rpc { code: error.code.0, message: &error.message };
            let graded = super::errors::graded(fault, false);
            match graded.code() {
                ErrorCode::McpNotFound => "it has no tools".to_owned(),
                _ => format!("it does not list its tools: {}", line(&graded.message, 200)),
            }
        }
        _ => "the connection was lost while it listed its tools".to_owned(),
    }
}

#[cfg(test)]
mod tests;
